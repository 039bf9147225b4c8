//! The break-even study: operations, sizes, types, devices and ways of calling, each group in a process of its own.

mod cells;
pub mod child;
mod clock;
mod contention;
pub mod duel;
mod first;
mod limit;
mod link;
mod machine;
mod operation;
mod places;
pub mod preset;
mod process;
mod rounds;
mod scalar;
mod sensors;
mod sentinel;
pub mod simulated;
pub mod study;
mod subject;
pub mod task;
mod turn;

pub use clock::{Clock, HostClock};
pub use machine::fingerprint;
pub use operation::{OPERATIONS, Operation, Suite};
pub use process::end_with_parent;
pub use sensors::Sensors;

use breakeven::DeviceReport;

/// Why a study cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refuses.
    #[error(transparent)]
    Engine(#[from] breakeven::Error),
    /// A device refuses.
    #[error(transparent)]
    Device(#[from] breakeven::DeviceError),
    /// A child says why it cannot do what it was asked for.
    #[error("{0}")]
    Refused(String),
    /// The run folder.
    #[error(transparent)]
    Study(#[from] breakeven_study::StudyError),
    /// A file or a process.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A name that nothing has.
    #[error("there is no {what} `{name}`; known are {known}")]
    Name {
        /// What was looked for.
        what: &'static str,
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// Filters that exclude each other.
    #[error(
        "nothing is left to measure: the operations that are asked for have no size or mode among those asked for; their sizes are {sizes}"
    )]
    Nothing {
        /// The sizes of each operation, and what they count.
        sizes: String,
    },
    /// An interface of GPUs that there is not.
    #[error("`{name}` is not {known}")]
    Backend {
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
}

/// What the runner returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn operation(name: &str) -> Error {
        let known: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        Error::Name { what: "operation", name: name.to_owned(), known: known.join(", ") }
    }

    fn dtype(name: &str) -> Error {
        Error::Name { what: "type", name: name.to_owned(), known: "f32, f64, f16, bf16".to_owned() }
    }

    fn device(name: &str, reports: &[DeviceReport]) -> Error {
        let known: Vec<&str> = reports.iter().map(|report| report.name.as_str()).collect();
        Error::Name { what: "device", name: name.to_owned(), known: format!("{}, auto", known.join(", ")) }
    }
}
