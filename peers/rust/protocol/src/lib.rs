//! What a contestant of the race says and hears: JSON lines on standard input and output, as `python/worker.py` tells.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;

/// What is raced.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    pub op: String,
    pub shapes: Vec<Vec<usize>>,
    pub dtype: String,
    pub params: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Ask {
    Prepare { case: Case, inputs: Vec<String> },
    Result { path: String },
    Block { seconds: f64 },
}

/// A case that is ready to run.
pub trait Work {
    /// Computes it once, with a new result that is dropped.
    fn run(&mut self);
    /// Computes it once and gives the bytes of the result.
    fn result(&mut self) -> Vec<u8>;
}

/// A sample is at least so long; short runs are repeated within it.
const SAMPLE: Duration = Duration::from_micros(20);

/// Answers what comes in until there is no more. `prepare` gives `None` for a case that it does not have.
pub fn serve(mut prepare: impl FnMut(&Case, &[Vec<u8>]) -> Option<Box<dyn Work>>) -> Result<(), Box<dyn Error>> {
    let mut work: Option<Box<dyn Work>> = None;
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?)? {
            Ask::Prepare { case, inputs } => {
                drop(work.take());
                let inputs = inputs.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
                work = prepare(&case, &inputs);
                match work {
                    Some(_) => serde_json::json!({"ok": true}),
                    None => serde_json::json!({"cannot": case.op}),
                }
            }
            Ask::Result { path } => {
                std::fs::write(Path::new(&path), work.as_mut().ok_or("nothing is prepared")?.result())?;
                serde_json::json!({"ok": true})
            }
            Ask::Block { seconds } => {
                let times = block(&mut **work.as_mut().ok_or("nothing is prepared")?, seconds);
                serde_json::json!({ "seconds": times })
            }
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Times of one run, each the mean over a sample.
fn block(work: &mut dyn Work, seconds: f64) -> Vec<f64> {
    let begun = Instant::now();
    work.run();
    // The first run of a block finds cold caches, so it says only roughly how many make a sample.
    let mut repeats = (SAMPLE.as_secs_f64() / begun.elapsed().as_secs_f64()).max(1.0) as u32;
    let mut times = Vec::new();
    while times.len() < 3 || begun.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        for _ in 0..repeats {
            work.run();
        }
        let taken = start.elapsed();
        if taken < SAMPLE / 2 && times.is_empty() {
            repeats *= 2;
            continue;
        }
        times.push(taken.as_secs_f64() / f64::from(repeats));
    }
    times
}

/// Threads that may be used: the program's one argument.
pub fn threads() -> usize {
    std::env::args().nth(1).and_then(|n| n.parse().ok()).expect("the number of threads is the one argument")
}

/// Little-endian numbers.
pub fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Little-endian numbers.
pub fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect()
}
