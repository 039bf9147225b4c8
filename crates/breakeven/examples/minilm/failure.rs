//! Why the demo ends early, and the exit code that says so.

use std::fmt;

use breakeven::Error;

/// What went wrong, as one sentence.
#[derive(Debug)]
pub enum Failure {
    /// What the user gave is wrong: exit code 2.
    Input(String),
    /// A check or a device failed: exit code 1.
    Check(String),
}

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Input(_) => 2,
            Failure::Check(_) => 1,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::File { .. } | Error::Setting { .. } | Error::Call(_) => Failure::Input(error.to_string()),
            _ => Failure::Check(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(sentence) | Failure::Check(sentence) => f.write_str(sentence),
        }
    }
}
