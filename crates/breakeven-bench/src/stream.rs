//! Batches that go to a device and come back: one by one, and as a stream at several depths.

use std::time::{Duration, Instant};

use breakeven::{DType, Deadline, DeviceId, Engine, HostBytes, Result, Spec, Tensor};

/// Elements of a batch: 64 MiB.
const ELEMENTS: usize = 16 << 20;
/// Batches of a stretch that is timed.
const BATCHES: usize = 12;
/// Of one that measures its depth, which is decided after 43: all of them are timed.
const DECIDED: usize = 96;

/// How batches come and go.
#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    Depth(usize),
    /// Used where the device wrote it.
    InPlace(usize),
    /// At the depth that the stream chooses.
    Measured,
}

const WAYS: [(&str, Way); 7] = [
    ("one by one", Way::OneByOne),
    ("stream, depth 1", Way::Depth(1)),
    ("depth 2", Way::Depth(2)),
    ("depth 3", Way::Depth(3)),
    ("depth 4", Way::Depth(4)),
    ("3, in place", Way::InPlace(3)),
    ("measured", Way::Measured),
];

/// Prints the time of a batch for each way; `device` must be open.
pub fn all(engine: &Engine, device: DeviceId) -> Result<()> {
    let source = Source::new(engine, device);
    let (mut best, mut chosen, mut out) = ([f64::MAX; WAYS.len()], Vec::new(), vec![0f32; ELEMENTS]);
    for _ in 0..3 {
        for ((_, way), best) in WAYS.iter().zip(&mut best) {
            let count = if matches!(way, Way::Measured) { DECIDED } else { BATCHES };
            let begun = Instant::now();
            chosen.extend(source.stretch(*way, count, &mut out)?);
            *best = best.min(begun.elapsed().as_secs_f64() / count as f64);
        }
    }
    println!("  batches of 64 MiB from and to the host's memory, ms each, best of 3 stretches of {BATCHES}:");
    for ((way, _), time) in WAYS.iter().zip(&best) {
        println!("    {way:<16} {:>7.3}  {:.2}x", time * 1e3, best[0] / time);
    }
    println!("    measured: stretches of {DECIDED}, which chose the depths {chosen:?}");
    Ok(())
}

/// Where batches come from.
struct Source<'a> {
    engine: &'a Engine,
    device: DeviceId,
    /// Two sets of bytes in turn, so that none is on the device already.
    given: [HostBytes; 2],
}

impl<'a> Source<'a> {
    fn new(engine: &'a Engine, device: DeviceId) -> Source<'a> {
        let given = [0, 1].map(|b| HostBytes::from_vec((0..ELEMENTS).map(|i| value(i + b)).collect::<Vec<_>>()));
        Source { engine, device, given }
    }

    /// So many batches there and back; the depth at the end if the stream chose it.
    fn stretch(&self, way: Way, count: usize, out: &mut [f32]) -> Result<Option<usize>> {
        let mut stream = self.engine.stream(0..count, |batch| Ok(self.work(batch)));
        match way {
            Way::OneByOne => (0..count).try_for_each(|batch| read(&self.work(batch), batch, out))?,
            Way::Depth(depth) => read_all(stream.depth(depth), out)?,
            Way::InPlace(depth) => use_all(stream.depth(depth))?,
            Way::Measured => {
                read_all(&mut stream, out)?;
                return Ok(Some(stream.current_depth()));
            }
        }
        Ok(None)
    }

    fn work(&self, batch: usize) -> Tensor {
        let x = self.engine.from_bytes(self.given[batch % 2].clone(), Spec::new(DType::F32, [ELEMENTS]));
        (x * 2.0 + 1.0).relu().on(self.device)
    }
}

fn read_all(results: impl Iterator<Item = Result<Tensor>>, out: &mut [f32]) -> Result<()> {
    results.enumerate().try_for_each(|(batch, result)| read(&result?, batch, out))
}

fn use_all(results: impl Iterator<Item = Result<Tensor>>) -> Result<()> {
    for (batch, result) in results.enumerate() {
        let lent = result?.host_bytes()?;
        check(lent.elements(), batch);
    }
    Ok(())
}

fn read(result: &Tensor, batch: usize, out: &mut [f32]) -> Result<()> {
    result.read_into(out, Deadline::after(Duration::from_mins(1)))?;
    check(out, batch);
    Ok(())
}

fn check(out: &[f32], batch: usize) {
    let expected = |i: usize| (value(i + batch % 2) * 2.0 + 1.0).max(0.0);
    let is_right = (0..ELEMENTS).step_by(65_537).all(|i| out[i] == expected(i));
    assert!(is_right, "a batch is wrong, so its time means nothing");
}

/// Element `i` of the first set of bytes, and element `i - 1` of the second.
fn value(i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5
}
