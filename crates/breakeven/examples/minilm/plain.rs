//! The same model once more, in plain loops over f64 and without the library: what its results are held against.

use breakeven::Result;

use crate::load::Source;
use crate::model::{EPSILON, HEAD_WIDTH};

type Rows = Vec<Vec<f64>>;

/// The encoder in f64.
pub struct Plain {
    words: Rows,
    positions: Rows,
    types: Rows,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: Norm,
    inner: Linear,
    outer: Linear,
    outer_norm: Norm,
}

struct Linear {
    weight: Rows,
    bias: Vec<f64>,
}

struct Norm {
    scale: Vec<f64>,
    bias: Vec<f64>,
}

impl Plain {
    /// Reads all weights.
    pub fn load(source: &dyn Source) -> Result<Plain> {
        Ok(Plain {
            words: rows(source, "embeddings.word_embeddings.weight")?,
            positions: rows(source, "embeddings.position_embeddings.weight")?,
            types: rows(source, "embeddings.token_type_embeddings.weight")?,
            norm: Norm::load(source, "embeddings.LayerNorm")?,
            layers: (0..source.layers())
                .map(|i| Layer::load(source, &format!("encoder.layer.{i}")))
                .collect::<Result<_>>()?,
        })
    }

    /// The vector of one text.
    pub fn embed(&self, ids: &[i64]) -> Vec<f64> {
        let token = |(at, &id): (usize, &i64)| sum(&sum(&self.words[id as usize], &self.positions[at]), &self.types[0]);
        let mut x = self.norm.apply(ids.iter().enumerate().map(token).collect());
        for layer in &self.layers {
            x = layer.apply(&x);
        }
        let mean: Vec<f64> =
            (0..x[0].len()).map(|i| x.iter().map(|row| row[i]).sum::<f64>() / x.len() as f64).collect();
        let length = dot(&mean, &mean).sqrt();
        mean.iter().map(|value| value / length).collect()
    }
}

impl Layer {
    fn load(source: &dyn Source, name: &str) -> Result<Layer> {
        let linear = |part: &str| Linear::load(source, &format!("{name}.{part}"));
        let norm = |part: &str| Norm::load(source, &format!("{name}.{part}"));
        Ok(Layer {
            query: linear("attention.self.query")?,
            key: linear("attention.self.key")?,
            value: linear("attention.self.value")?,
            attended: linear("attention.output.dense")?,
            attended_norm: norm("attention.output.LayerNorm")?,
            inner: linear("intermediate.dense")?,
            outer: linear("output.dense")?,
            outer_norm: norm("output.LayerNorm")?,
        })
    }

    fn apply(&self, x: &Rows) -> Rows {
        let attended = self.attended.apply(&attention(&self.query.apply(x), &self.key.apply(x), &self.value.apply(x)));
        let x = self.attended_norm.apply(sums(x, &attended));
        let inner = self.inner.apply(&x).into_iter().map(|row| row.into_iter().map(gelu).collect()).collect();
        self.outer_norm.apply(sums(&x, &self.outer.apply(&inner)))
    }
}

fn attention(query: &Rows, key: &Rows, value: &Rows) -> Rows {
    let mut out = vec![vec![0.0; query[0].len()]; query.len()];
    for head in (0..query[0].len()).step_by(HEAD_WIDTH).map(|from| from..from + HEAD_WIDTH) {
        for (q, out) in query.iter().zip(&mut out) {
            let score = |k: &Vec<f64>| (dot(&q[head.clone()], &k[head.clone()]) / (HEAD_WIDTH as f64).sqrt()).exp();
            let weights: Vec<f64> = key.iter().map(score).collect();
            let total: f64 = weights.iter().sum();
            for (weight, v) in weights.iter().zip(value) {
                head.clone().for_each(|i| out[i] += weight / total * v[i]);
            }
        }
    }
    out
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

impl Linear {
    fn load(source: &dyn Source, name: &str) -> Result<Linear> {
        Ok(Linear { weight: rows(source, &format!("{name}.weight"))?, bias: vector(source, &format!("{name}.bias"))? })
    }

    fn apply(&self, x: &Rows) -> Rows {
        let one = |row: &Vec<f64>| self.weight.iter().zip(&self.bias).map(|(w, b)| dot(row, w) + b).collect();
        x.iter().map(one).collect()
    }
}

impl Norm {
    fn load(source: &dyn Source, name: &str) -> Result<Norm> {
        Ok(Norm { scale: vector(source, &format!("{name}.weight"))?, bias: vector(source, &format!("{name}.bias"))? })
    }

    fn apply(&self, mut x: Rows) -> Rows {
        for row in &mut x {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let by = (variance + EPSILON).sqrt().recip();
            for ((value, scale), bias) in row.iter_mut().zip(&self.scale).zip(&self.bias) {
                *value = (*value - mean) * by * scale + bias;
            }
        }
        x
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x + y).collect()
}

fn sums(a: &Rows, b: &Rows) -> Rows {
    a.iter().zip(b).map(|(x, y)| sum(x, y)).collect()
}

fn vector(source: &dyn Source, name: &str) -> Result<Vec<f64>> {
    Ok(source.tensor(name)?.to_vec::<f32>()?.into_iter().map(f64::from).collect())
}

fn rows(source: &dyn Source, name: &str) -> Result<Rows> {
    let width = source.tensor(name)?.shape()[1];
    Ok(vector(source, name)?.chunks(width).map(<[f64]>::to_vec).collect())
}
