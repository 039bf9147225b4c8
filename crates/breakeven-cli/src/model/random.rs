//! Inputs made from a seed, by the shapes that a model states.

use std::collections::HashMap;

use anyhow::bail;
use breakeven::{DType, Engine, Shape, Tensor};
use breakeven_onnx::{Dim, Model, PortKind};

/// Makes every input of `model` that is not there: normal floats, integers and truth values of 0 and 1.
pub fn fill(
    inputs: &mut HashMap<String, Tensor>,
    model: &Model,
    host: &Engine,
    seed: u64,
    extents: &HashMap<String, usize>,
) -> anyhow::Result<()> {
    let names: Vec<&Dim> = model.inputs().iter().flat_map(|port| dims(&port.kind)).collect();
    if let Some(unknown) = extents.keys().find(|name| !names.contains(&&Dim::Named((*name).clone()))) {
        let known: Vec<String> = names.iter().filter(|d| matches!(d, Dim::Named(_))).map(ToString::to_string).collect();
        bail!("--dim {unknown}: the model has no such dimension, but {}", known.join(", "));
    }
    for (index, port) in model.inputs().iter().enumerate() {
        if inputs.contains_key(&port.name) {
            continue;
        }
        let PortKind::Tensor { dtype, .. } = &port.kind else {
            bail!("input '{}' is {}, which --random does not make", port.name, port.kind);
        };
        let extent = |dim: &Dim| match dim {
            Dim::Fixed(extent) => *extent,
            Dim::Named(name) => extents.get(name).copied().unwrap_or(1),
            Dim::Any => 1,
        };
        let shape = Shape::new(&dims(&port.kind).iter().map(extent).collect::<Vec<_>>())?;
        inputs.insert(port.name.clone(), make(host, *dtype, shape, seed.wrapping_add(index as u64)));
    }
    Ok(())
}

fn dims(kind: &PortKind) -> &[Dim] {
    if let PortKind::Tensor { dims: Some(dims), .. } = kind { dims } else { &[] }
}

fn make(host: &Engine, dtype: DType, shape: Shape, seed: u64) -> Tensor {
    if dtype.is_float() {
        return host.normal(seed, shape).cast(dtype);
    }
    let heads = host.uniform(seed, shape);
    heads.less(&heads.scalar(0.5)).cast(dtype)
}
