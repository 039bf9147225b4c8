//! From named weights to the model, with every shape checked on the way.

use breakeven::{DType, Engine, Error, Result, Tensor};

use crate::model::{HEAD_WIDTH, Layer, Linear, Model, Norm};

/// Where weights come from.
pub trait Source {
    /// The tensor called `name`, or an error that names it.
    fn tensor(&self, name: &str) -> Result<Tensor>;

    /// How many encoder layers there are.
    fn layers(&self) -> usize;

    /// As errors name it.
    fn name(&self) -> String;
}

/// Builds the model by the names that BERT models use.
pub fn load(engine: &Engine, source: &dyn Source) -> Result<Model> {
    let words = table(source, "embeddings.word_embeddings.weight")?;
    let width = words.shape()[1];
    if width == 0 || !width.is_multiple_of(HEAD_WIDTH) {
        return Err(wrong(source, format!("its width {width} is no multiple of {HEAD_WIDTH}, the width of a head")));
    }
    let within = |prefix: &str| Within { source, prefix: prefix.to_owned(), width };
    Ok(Model {
        engine: engine.clone(),
        positions: rows(source, "embeddings.position_embeddings.weight", width)?,
        types: rows(source, "embeddings.token_type_embeddings.weight", width)?,
        norm: within("embeddings").norm("LayerNorm")?,
        layers: (0..source.layers()).map(|i| within(&format!("encoder.layer.{i}")).layer()).collect::<Result<_>>()?,
        words,
    })
}

/// A part of the model, whose tensors share the beginning of their names.
struct Within<'a> {
    source: &'a dyn Source,
    prefix: String,
    width: usize,
}

impl Within<'_> {
    fn layer(&self) -> Result<Layer> {
        let width = self.width;
        let inner = table(self.source, &self.full("intermediate.dense.weight"))?.shape()[0];
        Ok(Layer {
            query: self.linear("attention.self.query", [width, width])?,
            key: self.linear("attention.self.key", [width, width])?,
            value: self.linear("attention.self.value", [width, width])?,
            attended: self.linear("attention.output.dense", [width, width])?,
            attended_norm: self.norm("attention.output.LayerNorm")?,
            inner: self.linear("intermediate.dense", [inner, width])?,
            outer: self.linear("output.dense", [width, inner])?,
            outer_norm: self.norm("output.LayerNorm")?,
        })
    }

    fn linear(&self, name: &str, shape: [usize; 2]) -> Result<Linear> {
        let weight = self.tensor(&format!("{name}.weight"), &shape)?;
        Ok(Linear { weight, bias: self.tensor(&format!("{name}.bias"), &shape[..1])? })
    }

    fn norm(&self, name: &str) -> Result<Norm> {
        let scale = self.tensor(&format!("{name}.weight"), &[self.width])?;
        Ok(Norm { scale, bias: self.tensor(&format!("{name}.bias"), &[self.width])? })
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let name = self.full(name);
        let found = tensor(self.source, &name)?;
        if found.shape()[..] == *shape {
            return Ok(found);
        }
        Err(wrong(self.source, format!("tensor '{name}' has shape {}, {shape:?} is expected", found.shape())))
    }

    fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }
}

fn rows(source: &dyn Source, name: &str, width: usize) -> Result<Tensor> {
    let found = table(source, name)?;
    if found.shape()[1] == width {
        return Ok(found);
    }
    Err(wrong(source, format!("tensor '{name}' has shape {}, rows of {width} are expected", found.shape())))
}

fn table(source: &dyn Source, name: &str) -> Result<Tensor> {
    let found = tensor(source, name)?;
    if found.shape().rank() == 2 && !found.shape().is_empty() {
        return Ok(found);
    }
    Err(wrong(source, format!("tensor '{name}' has shape {}, a matrix is expected", found.shape())))
}

fn tensor(source: &dyn Source, name: &str) -> Result<Tensor> {
    let found = source.tensor(name)?;
    if found.dtype() == DType::F32 {
        return Ok(found);
    }
    Err(wrong(source, format!("tensor '{name}' holds {}, f32 is expected", found.dtype())))
}

fn wrong(source: &dyn Source, message: String) -> Error {
    Error::File { path: source.name(), message }
}
