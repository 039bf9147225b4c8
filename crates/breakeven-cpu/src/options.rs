//! How to open a CPU device.

use std::fs::File;
use std::io::Read;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::{Bf16Isa, Isa};

/// What a caller may ask of a CPU device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuOptions {
    /// Threads that work on one submission, the caller's included; all of the machine's where not said.
    pub threads: Option<usize>,
    /// Instructions to use; the best there are where not said.
    pub isa: Option<Isa>,
    /// Instructions for products of bf16 where a caller does with less than the highest precision; the best there are where not
    /// said.
    pub bf16: Option<Bf16Isa>,
    /// Bytes that it may hold at once, what waits in its pool included; all of the machine's memory where not said.
    pub memory_bytes: Option<u64>,
    /// Fill memory with NaN whenever it is given out: for tests.
    pub poison: bool,
    /// Measured numbers.
    pub tuning: Tuning,
}

impl CpuOptions {
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get)).max(1)
    }

    pub(crate) fn memory_limit(&self) -> u64 {
        self.memory_bytes.or_else(machine_memory).unwrap_or(u64::MAX)
    }
}

/// Bytes of the machine, where the system says so. More is promised by many systems and ends the process when it is used.
fn machine_memory() -> Option<u64> {
    // The total is its first line; reading all of it costs a start ten system calls.
    let mut start = [0; 128];
    let filled = File::open("/proc/meminfo").and_then(|mut file| file.read(&mut start)).ok()?;
    let kibibytes = str::from_utf8(&start[..filled])
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?
        .trim()
        .strip_suffix("kB")?;
    kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Numbers that kernels are tuned by. None of them changes a result; a calibration measures `part_ns`, `wake_ns`, `copy_ns`,
/// `code_ns`, `stream_bytes` and those named `pack_` (see `Device::tune`), and these are what is used before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Nanoseconds of one thread that make a part worth handing to another one.
    pub part_ns: f64,
    /// Nanoseconds of work that make it worth waking threads that sleep.
    pub wake_ns: f64,
    /// Nanoseconds of one core primitive in a vector loop, by element.
    pub ns_per_flop: f64,
    /// Nanoseconds for each byte that a loop moves.
    pub ns_per_byte: f64,
    /// Nanoseconds in which one thread copies a byte that lies in no cache of its own.
    pub copy_ns: f64,
    /// Nanoseconds of one multiplication or addition in a matrix product.
    pub ns_per_product_flop: f64,
    /// The same in a product of tiles.
    pub ns_per_tile_flop: f64,
    /// How often a worker looks for the next job before it sleeps.
    pub spins: u32,
    /// Bytes that the pool keeps at most.
    pub pool_bytes: u64,
    /// How long the pool keeps what nobody asks for, as long as anything is computed.
    pub pool_age: Duration,
    /// Bytes of packed weights that are kept at most; they are given up before room is short.
    pub kept_bytes: u64,
    /// Nanoseconds that generating the code of an expression takes, in the measure of the estimate of what it would have
    /// saved: it is done once that is as many.
    pub code_ns: f64,
    /// Nanoseconds that each row of a launch takes by itself, whatever its length.
    pub row_ns: f64,
    /// Nanoseconds that a truth value takes longer in the loops of rows than in generated code.
    pub truth_ns: f64,
    /// The share of its arithmetic that generated code saves an expression.
    pub code_saves: f64,
    /// Bytes of generated code that are held at most.
    pub code_bytes: u64,
    /// Bytes of an output from which on it is written past the caches.
    pub stream_bytes: u64,
    /// Most rows of a product for which a right operand whose columns are neighbours is read where it lies, not packed; one that
    /// stays in the first-level cache is read so for any number of rows but 0.
    pub pack_rows: u64,
    /// The same where its lines fall on few sets of the first-level cache.
    pub pack_rows_of_few_sets: u64,
    /// Most panels of columns for which rows of the left operand are read where they lie.
    pub pack_panels: u64,
}

impl Default for Tuning {
    /// As measured on a two-core AVX-512 server: fork and join cost about 2 µs hot, 10 to 20 with threads that sleep, relu 0.08 ns for 8 bytes in cache,
    /// exp 0.4 ns for 20 primitives, a matrix product 95 GFLOP/s. Code took 10 to 40 µs to generate, a comparison 0.35 ns
    /// by its loop and 0.11 by its code, exp 0.66 and 0.25.
    fn default() -> Tuning {
        Tuning {
            part_ns: 3_000.0,
            wake_ns: 20_000.0,
            ns_per_flop: 0.02,
            ns_per_byte: 0.02,
            copy_ns: 0.08,
            ns_per_product_flop: 0.01,
            ns_per_tile_flop: 0.001,
            spins: 4_000,
            pool_bytes: 4 << 30,
            pool_age: Duration::from_mins(1),
            kept_bytes: 4 << 30,
            code_ns: 20_000.0,
            row_ns: 40.0,
            truth_ns: 0.2,
            code_saves: 0.5,
            code_bytes: 64 << 20,
            stream_bytes: 32 << 20,
            pack_rows: 256,
            pack_rows_of_few_sets: 96,
            pack_panels: 4,
        }
    }
}
