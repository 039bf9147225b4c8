//! Convolutions: as products whose right operand is made of windows on the way, or term by term where an output channel has
//! few others beside it.

mod direct;
mod windows;

use breakeven_ir::{ConvKernel, Layout, MatMul, Operand, Precision, Shape, Unsupported};

use super::{Plan, Shaping, body_of, matmul, pack, quad_output};
use crate::wgsl::Tensor;
pub(super) use windows::Windows;

/// Fewest output channels of a group that fill enough of a tile of a product: more than half of the narrowest.
const FEWEST: usize = 9;
/// Longest sum that drivers are sure to carry out in one loop.
const LONGEST: usize = 1 << 17;

pub(super) fn plan(
    plan: &mut Plan,
    k: &ConvKernel,
    mut inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
    shaping: &Shaping,
) -> Result<(), Unsupported> {
    let dtype = k.accumulator();
    if dtype.bytes() == 8 {
        return Err(Unsupported(format!("WGSL has no 64-bit types, so there is no convolution of {dtype}")));
    }
    if let Some(product) = as_product(k) {
        // The weights are the left operand.
        inputs.swap(0, 1);
        inputs[0].layout = product.a.layout.clone();
        return matmul::plan_from(plan, &product, Some(Windows(k)), inputs, outs, shaping);
    }
    let out = outs.remove(0);
    let post = body_of(&k.post)?;
    let words = quad_output(plan, &out, ConvKernel::LEAD);
    let extras = inputs.split_off(2);
    direct::push(plan, k, &inputs, (extras, words.clone()), &post);
    pack(plan, words, out);
    Ok(())
}

/// The convolution as a batch of products of weights and windows, one for each image and group, where that pays. Its
/// right operand stands for what windows see.
fn as_product(k: &ConvKernel) -> Option<MatMul> {
    let (x, weight) = (&k.x.layout, &k.weight.layout);
    let (groups, m, terms) = (weight.shape[0], weight.shape[1], k.terms());
    let places: usize = k.out.layout.shape[ConvKernel::LEAD..].iter().product();
    let one_axis = Shape::new(&[groups, m, terms]).ok()?;
    let flat = weight.reshape(&one_axis)?;
    if m < FEWEST || terms == 0 || terms > LONGEST || x.shape.is_empty() {
        return None;
    }
    let over_images = Layout {
        shape: Shape::new(&[x.shape[0], groups, m, terms]).ok()?,
        offset: flat.offset,
        strides: [0].into_iter().chain(flat.strides.iter().copied()).collect(),
    };
    Some(MatMul {
        batch: Shape::from([x.shape[0], groups]),
        m,
        n: places,
        k: terms,
        a: Operand::new(k.weight.dtype, over_images),
        b: k.x.clone(),
        precision: Precision::Highest,
        post: k.post.clone(),
        params: k.params.clone(),
        inputs: k.inputs.clone(),
        out: k.out.clone(),
    })
}
