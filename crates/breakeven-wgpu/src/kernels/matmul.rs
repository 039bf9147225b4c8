//! Stub.

use breakeven_ir::{MatMul, Unsupported};

use super::Plan;
use crate::wgsl::Tensor;

pub(super) fn plan(_: &mut Plan, _: &MatMul, _: Vec<Tensor>, _: Vec<Tensor>) -> Result<(), Unsupported> {
    Err(Unsupported("it is not written yet".to_owned()))
}
