//! Whole graphs: random ones, their meaning in double precision, and plans carried out on a device kernel by kernel.

mod carry;
mod evaluate;
mod random;
mod write;

pub use carry::{Carrier, plan_for};
pub use evaluate::evaluate;
pub use random::{Nature, data, graph, typed};
pub use write::Write;
