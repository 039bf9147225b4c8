//! What others published: their tables as rows that are marked as theirs, and their claims held against rows that were measured.

mod aidotnet;
mod claims;
mod part;
mod supervm;
mod table;
mod trueno;
mod volta;

pub use claims::{CLAIMS, Claim, held_against};
pub use table::Report;

use crate::Run;

/// Every report that is known here, as a run with source `published`.
pub fn runs() -> Vec<Run> {
    reports().iter().map(|report| report.run().expect("the tables are read in the tests")).collect()
}

/// Every report that is known here.
pub fn reports() -> Vec<Report> {
    vec![
        trueno::NOVEMBER_17,
        trueno::NOVEMBER_23,
        supervm::VECTOR_ADD,
        supervm::WINDOWS,
        supervm::BATCHES,
        aidotnet::TORCH_SHARP,
        aidotnet::TENSORFLOW,
        volta::BATCHES,
    ]
}
