//! One raw sample: a call's wall time, its parts as far as they were measured, and what is known against it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::StudyError;

/// One timed call. What was not measured is `None`, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The round of the schedule in which it was taken, from 0.
    pub round: u32,
    /// Its place among the samples of its cell and round, from 0.
    pub index: u32,
    /// From just before the call until its result is there to be read, by the host's clock. This is the time of the call; the parts below
    /// explain it.
    pub wall_ns: u64,
    /// Getting memory for the result and what lies between.
    pub allocate_ns: Option<u64>,
    /// Copying operands to the device.
    pub upload_ns: Option<u64>,
    /// Encoding and submitting, until the host is free again. Says nothing of when the work ends.
    pub dispatch_ns: Option<u64>,
    /// Kernels, by the device's own clock.
    pub kernel_ns: Option<u64>,
    /// Copying the result back.
    pub read_ns: Option<u64>,
    /// Waiting for the device with nothing else to do.
    pub wait_ns: Option<u64>,
    /// What is known against it.
    pub flags: Flags,
}

/// Something known against a sample. Flagged samples are kept in the run folder, and no statistic is computed from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The processor's or the device's clock was lowered meanwhile.
    Throttled = 1,
    /// The device's clock gave nothing usable: both marks zero, the second before the first, or a counter that wrapped.
    BadClock = 2,
    /// Taken to warm up.
    WarmUp = 4,
    /// Taken to see its parts, by a longer way: its parts count, its wall time does not.
    InParts = 8,
}

const FLAGS: [(Flag, &str); 4] = [
    (Flag::Throttled, "throttled"),
    (Flag::BadClock, "bad-clock"),
    (Flag::WarmUp, "warm-up"),
    (Flag::InParts, "in-parts"),
];

/// A set of flags, written as "throttled+warm-up".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Flags(u8);

impl Flags {
    /// Nothing is known against it.
    pub const NONE: Flags = Flags(0);

    /// These and `flag`.
    pub fn with(self, flag: Flag) -> Flags {
        Flags(self.0 | flag as u8)
    }

    /// Whether `flag` is among them.
    pub fn has(self, flag: Flag) -> bool {
        self.0 & flag as u8 != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (_, name) in FLAGS.iter().filter(|(flag, _)| self.has(*flag)) {
            write!(f, "{between}{name}")?;
            between = "+";
        }
        Ok(())
    }
}

impl FromStr for Flags {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Flags, StudyError> {
        let unknown = || StudyError::Word {
            text: text.into(),
            what: "set of flags",
            known: "throttled, bad-clock, warm-up, in-parts",
        };
        text.split('+').filter(|word| !word.is_empty()).try_fold(Flags::NONE, |flags, word| {
            let flag = FLAGS.iter().find(|(_, name)| *name == word).ok_or_else(unknown)?;
            Ok(flags.with(flag.0))
        })
    }
}

impl From<Flags> for String {
    fn from(flags: Flags) -> String {
        flags.to_string()
    }
}

impl TryFrom<String> for Flags {
    type Error = StudyError;

    fn try_from(text: String) -> Result<Flags, StudyError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_they_are_written() {
        let both = Flags::NONE.with(Flag::Throttled).with(Flag::WarmUp);
        for (flags, text) in [(Flags::NONE, ""), (both, "throttled+warm-up")] {
            assert_eq!(flags.to_string(), text);
            assert_eq!(text.parse::<Flags>().expect("written by us"), flags);
        }
        assert!("hot".parse::<Flags>().is_err());
    }
}
