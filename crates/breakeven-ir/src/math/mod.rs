//! f32 functions made of the primitives that every device has, so that all devices compute the same thing.
//!
//! Each is within the tolerance that its row in `maps` states, for every f32.

mod exp;
mod log;
mod power;
mod special;
mod trig;

pub use exp::{cosh, exp, exp2, expm1, sinh, tanh};
pub use log::{ln, log1p, log2, log10};
pub use power::pow;
pub use special::{erf, erfc};
pub use trig::{acos, asin, atan, atan2, cos, sin, tan};
