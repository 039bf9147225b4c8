//! What a submission that is recorded writes down: marks around each launch and each copy, and what these stand for.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Activity, Binding, Clock as Whose, Recorder, Span, Timing};

use crate::errors::lock;
use crate::flight::Staged;
use crate::memory::Gpu;
use crate::prepared::Step;
use crate::staging::{Clock, make_clock};

/// Marks of one submission, in the order in which they are encoded.
#[derive(Debug)]
pub(crate) struct Tape {
    recorder: Recorder,
    /// Each has room for [`PAIRS`]; none where the device does not tell its time.
    clocks: Vec<Clock>,
    /// What is between the marks of each pair.
    marked: Vec<Marked>,
    /// Steps of the segment that are read, in the order of the reads.
    reads: Vec<usize>,
    /// Copies are marked too, which takes marks outside of passes.
    marks_copies: bool,
    sent: Duration,
}

#[derive(Debug)]
struct Marked {
    activity: Activity,
    steps: Vec<usize>,
    bytes: u64,
}

/// Pairs of marks of one set of queries.
const PAIRS: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;

impl Tape {
    /// For `steps` after the uploads `staged`, which are sent with them and are among `leading`; made just before they are encoded.
    pub fn new(
        gpu: &Gpu,
        binding: &Binding,
        steps: &[Step],
        (leading, staged): (&[Step], &[Staged]),
    ) -> Option<Box<Tape>> {
        let recorder = binding.recorder.clone()?;
        let features = gpu.device.features();
        let has = |feature| features.contains(feature);
        let marks_copies = has(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
        let marked = if has(wgpu::Features::TIMESTAMP_QUERY) {
            let uploads = if marks_copies { first(leading, staged) } else { None };
            uploads.into_iter().chain(marked(steps, binding, marks_copies)).collect()
        } else {
            Vec::new()
        };
        let make = |pairs: &[Marked]| make_clock(&gpu.device, 2 * pairs.len() as u32);
        // What cannot be measured is said to be so.
        let clocks = gpu.guarded(|| marked.chunks(PAIRS).map(make).collect()).unwrap_or_default();
        let read = |step: &Step| if let Step::Download { of, .. } = step { Some(*of) } else { None };
        let reads = steps.iter().filter_map(read).collect();
        Some(Box::new(Tape { recorder, clocks, marked, reads, marks_copies, sent: gpu.now() }))
    }

    /// The marks, to be taken one pair after the other.
    pub fn reel(&self) -> Reel<'_> {
        Reel { tape: self, next: 0 }
    }

    /// Memory that marks are read from.
    pub fn memory(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        self.clocks.iter().map(|clock| &clock.read)
    }

    /// Writes down what the device measured, from mapped memory; the time of all kernels that it told of, without copies.
    pub fn finish(&self, gpu: &Gpu) -> Option<Duration> {
        let ticks: Option<Vec<Vec<u64>>> = self.clocks.iter().map(Clock::marks).collect();
        let pairs: Vec<(u64, u64)> = ticks?.concat().chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let mut until = lock(&gpu.recorded_until);
        let window = self.sent.max(*until)..gpu.now();
        let placed = placed(&pairs, gpu.queue.get_timestamp_period().into(), window);
        for (marked, time) in self.marked.iter().zip(&placed) {
            let Some(Range { start, end }) = time.clone() else { continue };
            *until = end.max(*until);
            let Marked { activity, steps, bytes } = marked;
            let (activity, steps, bytes) = (*activity, steps.clone(), *bytes);
            self.recorder.write(Span { activity, steps, bytes, start, end, clock: Whose::Device });
        }
        self.recorder.drop_times(placed.iter().filter(|time| time.is_none()).count());
        of_kernels(self.marked.iter().map(|marked| marked.activity).zip(&placed))
    }

    /// Reads the `nth` result under a recorder's eyes.
    pub fn read<T>(tape: Option<&Tape>, gpu: &Gpu, (nth, bytes): (usize, u64), act: impl FnOnce() -> T) -> T {
        let watched = tape.map(|tape| (&tape.recorder, tape.reads[nth]));
        watch(gpu, watched, (Activity::Download, bytes), act)
    }
}

/// Does something for a step of the segment, and writes down when where that is wanted.
pub(crate) fn watch<T>(
    gpu: &Gpu,
    recorder: Option<(&Recorder, usize)>,
    (activity, bytes): (Activity, u64),
    act: impl FnOnce() -> T,
) -> T {
    let Some((recorder, step)) = recorder else { return act() };
    let start = gpu.now();
    let done = act();
    recorder.write(Span { activity, steps: vec![step], bytes, start, end: gpu.now(), clock: Whose::Host });
    done
}

/// Uploads that lead, as one.
fn first(leading: &[Step], staged: &[Staged]) -> Option<Marked> {
    let of = |step: &Step| match step {
        Step::Upload { slot, of, .. } => staged.iter().any(|staged| staged.slot == *slot).then_some(*of),
        _ => None,
    };
    let (steps, bytes) = (leading.iter().filter_map(of).collect(), staged.iter().map(|staged| staged.bytes).sum());
    (!staged.is_empty()).then_some(Marked { activity: Activity::Transfer, steps, bytes })
}

/// What is marked, in the order of encoding: launches that share a pass, and copies.
fn marked(steps: &[Step], binding: &Binding, marks_copies: bool) -> Vec<Marked> {
    let bytes = |upload: usize| binding.uploads.get(upload).map_or(0, |bytes| bytes.len() as u64);
    let transfer = |steps: Vec<usize>, bytes| Marked { activity: Activity::Transfer, steps, bytes };
    let mut marked = Vec::new();
    for step in steps {
        match step {
            Step::Pass(pass) => {
                marked.extend(pass.chunk_by(|a, b| Arc::ptr_eq(&a.launches, &b.launches)).map(|part| Marked {
                    activity: Activity::Kernel,
                    steps: part[0].launches.to_vec(),
                    bytes: 0,
                }));
            }
            _ if !marks_copies => {}
            Step::Upload { upload, of, .. } => marked.push(transfer(vec![*of], bytes(*upload))),
            Step::Download { bytes, of, .. } => marked.push(transfer(vec![*of], *bytes)),
            Step::Copy { bytes, of, .. } => {
                marked.push(Marked { activity: Activity::Copy, steps: vec![*of], bytes: *bytes });
            }
        }
    }
    marked
}

/// Where encoding has come to on a tape.
pub(crate) struct Reel<'a> {
    tape: &'a Tape,
    next: usize,
}

impl<'a> Reel<'a> {
    fn pair(&mut self) -> Option<(&'a wgpu::QuerySet, u32)> {
        let at = self.next;
        self.next += 1;
        let clock = self.tape.clocks.get(at / PAIRS)?;
        Some((&clock.queries, 2 * (at % PAIRS) as u32))
    }

    /// The marks of the next pass.
    pub fn pass(&mut self) -> Option<wgpu::ComputePassTimestampWrites<'a>> {
        self.pair().map(|(query_set, first)| wgpu::ComputePassTimestampWrites {
            query_set,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        })
    }

    /// Puts marks around a copy, where that can be done.
    pub fn copy(
        reel: Option<&mut Self>,
        encoder: &mut wgpu::CommandEncoder,
        act: impl FnOnce(&mut wgpu::CommandEncoder),
    ) {
        let pair = reel.filter(|reel| reel.tape.marks_copies).and_then(Reel::pair);
        if let Some((queries, first)) = pair {
            encoder.write_timestamp(queries, first);
        }
        act(encoder);
        if let Some((queries, first)) = pair {
            encoder.write_timestamp(queries, first + 1);
        }
    }

    /// Brings the marks to memory that the host sees.
    pub fn end(self, encoder: &mut wgpu::CommandEncoder) {
        self.tape.clocks.iter().for_each(|clock| clock.bring(encoder));
    }
}

/// Pairs of ticks as times within `window`, which begins with the first of them; `None` for a pair that cannot be: with a zero, which
/// nobody wrote, that runs backwards or not at all, that begins before the first, or ends after the window.
fn placed(pairs: &[(u64, u64)], nanoseconds: f64, window: Range<Duration>) -> Vec<Option<Range<Duration>>> {
    let is_told = |&(start, end): &(u64, u64)| start != 0 && end > start;
    let zero = pairs.iter().find(|pair| is_told(pair)).map_or(0, |pair| pair.0);
    let most = window.end.saturating_sub(window.start);
    let at = |tick: u64| {
        let since = if tick == zero { Some(Duration::ZERO) } else { Timing::between((zero, tick), nanoseconds, most) };
        since.map(|since| window.start + since)
    };
    pairs.iter().map(|pair| is_told(pair).then(|| Some(at(pair.0)?..at(pair.1)?)).flatten()).collect()
}

/// The time of all kernels; none where there is none, and where one of them has no time: the others' would pass for all.
fn of_kernels<'a>(times: impl Iterator<Item = (Activity, &'a Option<Range<Duration>>)>) -> Option<Duration> {
    let kernels = times.filter(|(activity, _)| *activity == Activity::Kernel);
    let mut all = kernels.map(|(_, time)| time.as_ref().map(|time| time.end.saturating_sub(time.start))).peekable();
    all.peek()?;
    all.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_some_kernels_does_not_pass_for_that_of_all() {
        let us = Duration::from_micros;
        let (a, b) = (Some(us(1)..us(3)), Some(us(4)..us(9)));
        let check = |times: &[(Activity, &Option<Range<Duration>>)], want: Option<Duration>| {
            assert_eq!(of_kernels(times.iter().copied()), want, "{times:?}");
        };
        check(&[(Activity::Kernel, &a), (Activity::Kernel, &b)], Some(us(7)));
        check(&[(Activity::Kernel, &a), (Activity::Kernel, &None)], None);
        check(&[(Activity::Kernel, &a), (Activity::Download, &None)], Some(us(2)));
        check(&[(Activity::Download, &a)], None);
        check(&[], None);
    }

    fn check(pairs: &[(u64, u64)], want: &[Option<(u64, u64)>]) {
        let us = Duration::from_micros;
        let got = placed(pairs, 1000.0, us(50)..us(150));
        let want: Vec<_> = want.iter().map(|pair| pair.map(|(start, end)| us(start)..us(end))).collect();
        assert_eq!(got, want, "{pairs:?}");
    }

    #[test]
    fn the_first_tick_is_the_beginning_of_the_window() {
        check(&[], &[]);
        check(&[(7, 17), (17, 20), (30, 107)], &[Some((50, 60)), Some((60, 63)), Some((73, 150))]);
    }

    #[test]
    fn times_that_cannot_be_are_dropped() {
        check(&[(0, 9), (5, 0), (0, 0)], &[None, None, None]);
        check(&[(9, 9), (9, 8), (10, 11)], &[None, None, Some((50, 51))]);
        // The count began anew in between.
        check(&[(u64::MAX - 5, u64::MAX - 1), (3, 9)], &[Some((50, 54)), None]);
        check(&[(10, 20), (30, 200)], &[Some((50, 60)), None]);
    }
}
