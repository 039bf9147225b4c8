//! What one cell of a study is: an operation at a size, on a device, in a mode, and how measuring it ended.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::StudyError;

/// What is measured, apart from its result. Two cells of a run never have the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// The operation by the name that users know: "gelu", "matmul".
    pub operation: String,
    /// Elements of the first operand, the size by which curves are drawn.
    pub elements: u64,
    /// The shape in words: "1000x1000".
    pub shape: String,
    /// The type of the elements: "f32".
    pub dtype: String,
    /// The device that was asked for: "cpu", "wgpu:0".
    pub device: String,
    /// How it is called.
    pub mode: Mode,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} on {}, {}", self.operation, self.shape, self.dtype, self.device, self.mode)
    }
}

/// From where to where a call is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The first call of a new process, from the host's memory to the host's memory, with the engine that it builds, drivers that it loads,
    /// the device that it opens and what has to be compiled.
    Cold,
    /// The first call of a size in a new engine whose devices are open and which did the same at another size: planned anew, without buffers.
    First,
    /// From the host's memory to the host's memory.
    Host,
    /// From the host's memory to the device, where the result stays.
    Upload,
    /// From the device's memory to the device's memory.
    Resident,
    /// So many calls in a row, each on the result of the one before, without reading between.
    Chain(u32),
    /// A call after so many milliseconds of rest.
    Idle(u32),
    /// Nothing but the copies to the device and back.
    Copy,
    /// Nothing but the kernel, by the device's own clock.
    Kernel,
}

/// Calls of a chain that can be asked for: each is a step of one plan.
const LONGEST_CHAIN: u32 = 1000;
/// Milliseconds of rest that can be asked for, which come before each of some thirty calls.
const LONGEST_REST: u32 = 60_000;

impl Mode {
    /// As a user asks for it, which has an end; files of others may hold more.
    ///
    /// # Errors
    /// What is no mode, or would take too long.
    pub fn asked(text: &str) -> Result<Mode, StudyError> {
        match text.parse()? {
            Mode::Chain(calls) if calls > LONGEST_CHAIN => Err(unknown(text)),
            Mode::Idle(milliseconds) if milliseconds > LONGEST_REST => Err(unknown(text)),
            mode => Ok(mode),
        }
    }
}

fn unknown(text: &str) -> StudyError {
    StudyError::Word { text: text.into(), what: "mode", known: MODES }
}
const MODES: &str = "cold, first, host, upload, resident, chain-k (k calls in a row, 1 to 1000), idle-k (after k milliseconds, 60000 at most), copy, kernel";

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Cold => f.write_str("cold"),
            Mode::First => f.write_str("first"),
            Mode::Host => f.write_str("host"),
            Mode::Upload => f.write_str("upload"),
            Mode::Resident => f.write_str("resident"),
            Mode::Chain(calls) => write!(f, "chain-{calls}"),
            Mode::Idle(milliseconds) => write!(f, "idle-{milliseconds}"),
            Mode::Copy => f.write_str("copy"),
            Mode::Kernel => f.write_str("kernel"),
        }
    }
}

impl FromStr for Mode {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Mode, StudyError> {
        let unknown = || unknown(text);
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| unknown());
        // Without a call there is nothing to time.
        let at_least_one = |calls: u32| if calls > 0 { Ok(calls) } else { Err(unknown()) };
        Ok(match text {
            "cold" => Mode::Cold,
            "first" => Mode::First,
            "host" => Mode::Host,
            "upload" => Mode::Upload,
            "resident" => Mode::Resident,
            "copy" => Mode::Copy,
            "kernel" => Mode::Kernel,
            _ => match text.split_once('-') {
                Some(("chain", calls)) => Mode::Chain(number(calls).and_then(at_least_one)?),
                Some(("idle", milliseconds)) => Mode::Idle(number(milliseconds)?),
                _ => return Err(unknown()),
            },
        })
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How measuring a cell ended. Only `Ok` earns a time, a rate or a place in a break-even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured, and the output is what the reference says.
    Ok,
    /// It ran and its output is wrong.
    Wrong,
    /// The process that measured it ended.
    Crash,
    /// It did not end within its deadline.
    Timeout,
    /// The device was lost.
    Lost,
    /// The device says that it cannot run it.
    Unsupported,
    /// It was not tried.
    Skipped,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::Wrong => "wrong",
            Status::Crash => "crash",
            Status::Timeout => "timeout",
            Status::Lost => "lost",
            Status::Unsupported => "unsupported",
            Status::Skipped => "skipped",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_are_written() {
        let modes = [Mode::Cold, Mode::First, Mode::Host, Mode::Upload, Mode::Resident, Mode::Copy, Mode::Kernel];
        for mode in modes.into_iter().chain([Mode::Chain(8), Mode::Idle(250)]) {
            assert_eq!(mode.to_string().parse::<Mode>().expect("written by us"), mode);
        }
        for text in ["warm", "chain-", "chain", "chain-0", "idle-x", "chain--1", ""] {
            assert!(text.parse::<Mode>().unwrap_err().to_string().contains("chain-k"), "{text}");
        }
        for text in ["chain-1001", "idle-60001", "warm"] {
            assert!(Mode::asked(text).unwrap_err().to_string().contains("1 to 1000"), "{text}");
        }
        assert_eq!(Mode::asked("chain-1000").unwrap(), Mode::Chain(1000));
        assert_eq!("chain-2000".parse::<Mode>().unwrap(), Mode::Chain(2000), "a file may hold it");
    }
}
