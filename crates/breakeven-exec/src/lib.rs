//! Carries out a plan on devices: binds buffers, submits, waits, times, reports what failed. Decides nothing.
#![forbid(unsafe_code)]

mod compile;
mod direct;
mod error;
mod inputs;
mod log;
mod run;
mod watch;

pub use compile::{Executable, Uncompiled};
pub use direct::Direct;
pub use error::ExecError;
pub use inputs::{Input, Inputs};
pub use log::{Event, Recording, What};
pub use run::{Outcome, OutputValue, Running, StageTiming};
pub use watch::Watch;
