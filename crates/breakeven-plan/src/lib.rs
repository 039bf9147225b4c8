//! Where and how to compute: profile, cost, fusion, placement, lowering, memory slots, explanation.
#![forbid(unsafe_code)]

mod class_curves;
mod cost;
mod counts;
mod curve;
mod decision;
mod emit;
mod error;
mod explain;
mod freeze;
mod fuse;
mod group;
mod index;
mod lower;
mod machine;
mod order;
mod pipeline;
mod place;
mod plan;
mod profile;
pub mod program;
mod prospect;
mod resolve;
mod route;
mod schedule;
mod slots;
mod stages;
mod verify;

pub use class_curves::{Between, ClassCurves, Mix};
pub use cost::CostModel;
pub use curve::{Cost, Curve, Knot};
pub use decision::{Decision, Flip, Parts, Reason, Split};
pub use error::PlanError;
pub use explain::describe;
pub use freeze::Frozen;
pub use fuse::fuse;
pub use machine::{DeviceId, DeviceView, Home, Machine, Place, Places, Policy, Source, never_lowers};
pub use pipeline::{Pass, plan, plan_observed};
pub use plan::{Counts, Output, OutputPlace, Plan, Slot, Step};
pub use profile::{DeviceProfile, Profile, ProfileError, Trust, class_name};
pub use prospect::Prospect;
