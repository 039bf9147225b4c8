//! Where and how to compute: profile, cost, fusion, placement, lowering, memory slots, explanation.
#![forbid(unsafe_code)]

mod counts;
mod curve;
mod decision;
mod emit;
mod error;
mod fuse;
mod group;
mod index;
mod machine;
mod order;
mod pipeline;
mod plan;
mod profile;
pub mod program;
mod resolve;
mod schedule;
mod slots;

pub use curve::{Cost, Curve, Knot};
pub use decision::{Decision, Parts, Reason};
pub use error::PlanError;
pub use fuse::fuse;
pub use machine::{DeviceId, DeviceView, Home, Machine, Place, Policy, Source};
pub use pipeline::plan;
pub use plan::{Counts, Output, OutputPlace, Plan, Slot, Step};
pub use profile::{ClassCurves, DeviceProfile, Profile, ProfileError, Trust, class_name};
