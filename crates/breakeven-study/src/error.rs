//! What can be wrong with the files of a study.

use std::path::PathBuf;

/// Why a study could not be read, written or computed.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("{path}: {why}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its place.
        why: String,
    },
    /// A file of another version, or of another kind.
    #[error(
        "this file says it is '{found}', and this program reads '{wanted}': use the version of breakeven that wrote it, or measure again"
    )]
    Schema {
        /// The schema that the file names.
        found: String,
        /// The schema that was expected.
        wanted: String,
    },
    /// Text that names no mode, status or flag.
    #[error("'{text}' is not a {what}: known are {known}")]
    Word {
        /// What was read.
        text: String,
        /// What it should have been.
        what: &'static str,
        /// All that it could have been.
        known: &'static str,
    },
    /// A run of another machine.
    #[error("this run was begun on the machine {begun}, and this is {here}: begin a new run")]
    OtherMachine {
        /// Fingerprint of the run's machine.
        begun: String,
        /// Of this one.
        here: String,
    },
    /// Runs that cannot be put side by side.
    #[error("{0}")]
    Mixed(String),
}
