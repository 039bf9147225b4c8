//! Operations made of others: nothing here is known to a planner or a device.

mod activation;
mod attention;
mod contract;
mod conv;
mod create;
mod normalise;
mod pad;
mod places;
mod pool;
mod random;
mod recurrent;
mod resize;
mod select;
mod windows;

use std::panic::Location;

use breakeven_ir::{CallError, Spec};

use crate::Tensor;

pub use activation::Activation;
pub use attention::Attention;
pub use contract::einsum;
pub use conv::{Conv, ConvTranspose};
pub use pad::Pad;
pub use pool::Pool;
pub use recurrent::{Gru, Lstm, Rnn, Sequence};
pub use resize::{Coordinates, Filter, Resize, Rounding};
pub use windows::Padding;

/// What `make` gives for inputs that are right, or a tensor that carries what is wrong with one of them or the call.
fn composed(
    inputs: &[&Tensor],
    at: &'static Location<'static>,
    make: impl FnOnce() -> Result<Tensor, CallError>,
) -> Tensor {
    if let Some(wrong) = inputs.iter().find(|t| t.0.spec.is_err()) {
        return (*wrong).clone();
    }
    let refuse = |error: CallError| {
        let specs: Vec<&Spec> = inputs.iter().map(|t| t.spec()).collect();
        let error = if error.operands.is_empty() { error.of(&specs) } else { error };
        Tensor::wrong(&inputs[0].0.engine, error.at(at))
    };
    make().unwrap_or_else(refuse)
}

/// Fails with `message` unless `holds`.
fn need(holds: bool, operation: &'static str, message: impl FnOnce() -> String) -> Result<(), CallError> {
    if holds { Ok(()) } else { Err(CallError::new(operation, message())) }
}

/// `t`, or what is wrong with the calls that made it.
fn right(t: &Tensor) -> Result<&Tensor, CallError> {
    t.0.spec.as_ref().map(|_| t).map_err(CallError::clone)
}

/// `given`, or `default` for each of `rank` axes where nothing was given.
fn each<T: Clone>(given: &[T], default: T, rank: usize, operation: &'static str) -> Result<Vec<T>, CallError> {
    match given.len() {
        0 => Ok(vec![default; rank]),
        n if n == rank => Ok(given.to_vec()),
        n => Err(CallError::new(operation, format!("{n} values were given for {rank} spatial axes"))),
    }
}
