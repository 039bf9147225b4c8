//! Matrix products.

use breakeven::{DType, Tensor};

use super::{Operator, one};
use crate::call::{Call, Result};

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("Gemm", &["alpha", "beta", "broadcast", "transA", "transB"], gemm),
    one("MatMul", &[], |c| Ok(c.tensor(0)?.matmul(&c.tensor(1)?))),
];

/// `alpha * a @ b + beta * c`
fn gemm(call: &Call<'_>) -> Result<Tensor> {
    let turned = |index: usize, name: &str| -> Result<Tensor> {
        let x = call.tensor(index)?;
        Ok(if call.flag(name, false)? { x.t() } else { x })
    };
    let product = scaled(turned(0, "transA")?.matmul(&turned(1, "transB")?), call.float("alpha", 1.0)?);
    Ok(match call.optional(2)? {
        Some(added) => product + scaled(added, call.float("beta", 1.0)?),
        None => product,
    })
}

/// Integers are scaled by whole numbers alone, as the types allow.
fn scaled(x: Tensor, by: f64) -> Tensor {
    if by == 1.0 {
        return x;
    }
    let dtype = x.check().map_or(DType::F32, |spec| spec.dtype);
    (x * by).cast(dtype)
}
