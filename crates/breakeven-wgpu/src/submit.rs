//! One submission: uploads staged, steps encoded, one submit, callbacks asked for.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use breakeven_device::{Activity, Binding, Buffer, DeviceError, ReadCell, Recorder, Result, Timing};

use crate::counters::count;
use crate::flight::{Load, Marks, Staged, Submission};
use crate::hold::Held;
use crate::in_place::{self, Upload};
use crate::memory::{Gpu, Raw, WgpuMemory};
use crate::pieces::{Piece, parts};
use crate::prepared::{Groups, Ready, Step, WgpuPrepared};
use crate::staging::Clock;
use crate::tape::{Reel, Tape, watch};

/// The buffers of a binding as the driver's, in order of slots.
pub(crate) fn raws<'a>(gpu: &Arc<Gpu>, binding: &'a Binding, slots: usize) -> Result<Vec<&'a Raw>> {
    let one = |(slot, buffer): (usize, &'a Buffer)| match buffer.memory::<WgpuMemory>() {
        Some(memory) if memory.is_of(gpu) => Ok(memory.raw()),
        _ => Err(DeviceError::Driver(format!("the buffer of slot {slot} belongs to another device"))),
    };
    let raws: Vec<&Raw> = binding.buffers.iter().enumerate().map(one).collect::<Result<_>>()?;
    if raws.len() < slots {
        return Err(DeviceError::Driver(format!("{slots} slots are used and {} are bound", raws.len())));
    }
    Ok(raws)
}

/// For each slot, the first that stands for the same buffer; `None` when all differ.
pub(crate) fn shared_slots(raws: &[&Raw]) -> Option<Vec<usize>> {
    let first = |raw: &&Raw| raws.iter().position(|r| r.id == raw.id).expect("it is there itself");
    let slots: Vec<usize> = raws.iter().map(first).collect();
    slots.iter().enumerate().any(|(i, &s)| i != s).then_some(slots)
}

/// Bytes that a submission moves between host and device.
pub(crate) fn link_bytes(work: &WgpuPrepared, binding: &Binding) -> u64 {
    let one = |step: &Step| match step {
        Step::Upload { upload, .. } => binding.uploads.get(*upload).map_or(0, |b| b.len() as u64),
        Step::Download { bytes, .. } => *bytes,
        Step::Pass(_) | Step::Copy { .. } => 0,
    };
    work.steps.iter().map(one).sum()
}

/// Encodes and submits; gives what has to be held until it ends. Parts of uploads go ahead as soon as they are staged and are
/// given to `sent`: if this fails then, they are on their way nevertheless.
pub(crate) fn submit(
    gpu: &Arc<Gpu>,
    work: &WgpuPrepared,
    binding: &Binding,
    sent: impl Fn(Submission),
) -> Result<Submission> {
    let raws = raws(gpu, binding, work.slots)?;
    let scratch = if work.scratch > 0 { Some(gpu.alloc(work.scratch)?) } else { None };
    let scratch_raw = scratch.as_ref().and_then(|b| b.memory::<WgpuMemory>()).map(WgpuMemory::raw);
    let held = Held::new(binding.buffers.iter().cloned().chain(scratch.clone()).collect());
    let leading = leading(work, binding)?;
    let (first, steps) = work.steps.split_at(leading.len());
    let eyes = Eyes { recorder: binding.recorder.as_ref(), leading: first };
    let (whole, mut timing, mut bytes) = (Marks::new(gpu), Timing::default(), link_bytes(work, binding));
    let start = Instant::now();
    // What is written in place counts until the end too: its buffer is held until then, so that many uploads in a row would hold many.
    let leading = in_place::write(gpu, &raws, leading, |upload, act| eyes.watch(gpu, upload, act))?;
    timing.upload += start.elapsed();
    let mut parts = parts(leading.into_iter(), gpu.options.chunk_bytes);
    let last = parts.pop().unwrap_or_default();
    for part in &parts {
        let start = Instant::now();
        let (load, moved) = (stage(gpu, part, &eyes)?, part.iter().map(|p| p.bytes.len() as u64).sum());
        timing.upload += start.elapsed();
        let marks = Marks::of_part(&whole);
        let index = send(gpu, &load, &marks, |encoder| encode_uploads(encoder, gpu, &raws, &load.uploads))?;
        bytes -= moved;
        sent(Submission { index, marks, timing: Timing::default(), bytes: moved, load, held: held.clone() });
    }
    let start = Instant::now();
    let mut load = stage_steps(gpu, steps, binding, stage(gpu, &last, &eyes)?)?;
    timing.upload += start.elapsed();
    let start = Instant::now();
    let groups = work.groups(gpu, &raws, scratch_raw).inspect_err(|_| gpu.staging.forget(&load))?;
    let has_pass = steps.iter().any(|s| matches!(s, Step::Pass(_)));
    load.tape = Tape::new(gpu, binding, steps, (first, &load.uploads[..last.len()]));
    load.clock = if has_pass && binding.timed && load.tape.is_none() { gpu.staging.clock(gpu) } else { None };
    let index = send(gpu, &load, &whole, |encoder| encode(encoder, gpu, steps, &raws, &groups, (last.len(), &load)))?;
    timing.dispatch = Some(start.elapsed());
    Ok(Submission { index, marks: whole, timing, bytes, load, held })
}

/// Submits the copy of a part of `buffer` to the host.
pub(crate) fn read(gpu: &Arc<Gpu>, buffer: &Buffer, part: Range<u64>, cell: &ReadCell) -> Result<Submission> {
    let binding = Binding { buffers: vec![buffer.clone()], ..Binding::default() };
    let raw = raws(gpu, &binding, 1)?[0];
    let held = Held::new(binding.buffers.clone());
    let (start, bytes, marks) = (Instant::now(), part.end - part.start, Marks::new(gpu));
    let staging = gpu.staging.for_read(gpu, bytes)?;
    let load = Load { reads: vec![(cell.clone(), bytes, Some(staging.clone()))], ..Load::default() };
    let index = send(gpu, &load, &marks, |encoder| copy(encoder, (&raw.buffer, part.start), (&staging, 0), bytes))?;
    let timing = Timing { dispatch: Some(start.elapsed()), ..Timing::default() };
    Ok(Submission { index, marks, timing, bytes, load, held })
}

/// Slots and bytes of the uploads that come before everything else.
fn leading<'a>(work: &WgpuPrepared, binding: &'a Binding) -> Result<Vec<Upload<'a>>> {
    let uploads = work.steps.iter().map_while(|s| match s {
        Step::Upload { upload, slot, .. } => Some((*slot, *upload)),
        _ => None,
    });
    uploads.map(|(slot, upload)| Ok((slot, uploaded(binding, upload)?))).collect()
}

fn uploaded(binding: &Binding, upload: usize) -> Result<&[u8]> {
    binding.uploads.get(upload).map(|bytes| &**bytes).ok_or_else(|| unbound("upload", upload))
}

fn unbound(what: &str, index: usize) -> DeviceError {
    DeviceError::Driver(format!("{what} {index} is not bound"))
}

/// Who looks on while uploads are staged, where somebody does.
struct Eyes<'a> {
    recorder: Option<&'a Recorder>,
    leading: &'a [Step],
}

impl<'a> Eyes<'a> {
    /// The step of the segment that brings something to `slot` first.
    fn on(&self, slot: usize) -> Option<(&'a Recorder, usize)> {
        let step = |step: &Step| match step {
            Step::Upload { slot: to, of, .. } if *to == slot => Some(*of),
            _ => None,
        };
        self.recorder.zip(self.recorder.and_then(|_| self.leading.iter().find_map(step)))
    }

    fn watch<T>(&self, gpu: &Gpu, (slot, bytes): Upload<'_>, act: impl FnOnce() -> T) -> T {
        watch(gpu, self.on(slot), (Activity::Upload, bytes.len() as u64), act)
    }
}

/// Copies pieces into staging memory.
fn stage(gpu: &Gpu, pieces: &[Piece<'_>], eyes: &Eyes<'_>) -> Result<Load> {
    let mut load = Load::default();
    let mut add = |piece: &Piece<'_>| eyes.watch(gpu, (piece.slot, piece.bytes), || add_piece(gpu, &mut load, piece));
    pieces.iter().try_for_each(&mut add).inspect_err(|_| gpu.staging.forget(&load))?;
    Ok(load)
}

fn add_piece(gpu: &Gpu, load: &mut Load, piece: &Piece<'_>) -> Result<()> {
    let buffer = gpu.staging.fill(gpu, piece.bytes)?;
    load.uploads.push(Staged { slot: piece.slot, at: piece.at, bytes: piece.bytes.len() as u64, buffer });
    Ok(())
}

/// Copies the uploads among `steps` into staging memory, and takes staging memory for reads.
fn stage_steps(gpu: &Gpu, steps: &[Step], binding: &Binding, mut load: Load) -> Result<Load> {
    let mut add = |step: &Step| match step {
        Step::Upload { upload, slot, of } => {
            let piece = Piece { slot: *slot, at: 0, bytes: uploaded(binding, *upload)? };
            let eyes = binding.recorder.as_ref().map(|recorder| (recorder, *of));
            watch(gpu, eyes, (Activity::Upload, piece.bytes.len() as u64), || add_piece(gpu, &mut load, &piece))
        }
        Step::Download { bytes, read, .. } => {
            let cell = binding.reads.get(*read).ok_or_else(|| unbound("read", *read))?;
            let buffer = if *bytes > 0 { Some(gpu.staging.for_read(gpu, *bytes)?) } else { None };
            load.reads.push((cell.clone(), *bytes, buffer));
            Ok(())
        }
        Step::Pass(_) | Step::Copy { .. } => Ok(()),
    };
    let added = steps.iter().try_for_each(&mut add);
    added.inspect_err(|_| gpu.staging.forget(&load))?;
    Ok(load)
}

/// Submits what `encode` encodes and asks to be told of its end.
fn send(
    gpu: &Gpu,
    load: &Load,
    marks: &Arc<Marks>,
    encode: impl FnOnce(&mut wgpu::CommandEncoder),
) -> Result<wgpu::SubmissionIndex> {
    let sent = gpu.guarded(|| {
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        encode(&mut encoder);
        let index = gpu.queue.submit([encoder.finish()]);
        ask(gpu, load, marks);
        index
    });
    let index = sent.inspect_err(|_| gpu.staging.forget(load))?;
    count(&gpu.counts.submits);
    Ok(index)
}

fn encode_uploads(encoder: &mut wgpu::CommandEncoder, gpu: &Gpu, raws: &[&Raw], uploads: &[Staged]) {
    for staged in uploads {
        let Some(buffer) = &staged.buffer else { continue };
        copy(encoder, (buffer, 0), (&raws[staged.slot].buffer, staged.at), staged.bytes);
        if staged.at == 0 {
            count(&gpu.counts.uploads);
        }
    }
}

fn encode(
    encoder: &mut wgpu::CommandEncoder,
    gpu: &Gpu,
    steps: &[Step],
    raws: &[&Raw],
    groups: &Groups,
    (leading, load): (usize, &Load),
) {
    let (leading, mut uploads) = load.uploads.split_at(leading);
    let (mut reads, mut groups) = (load.reads.iter(), groups.iter());
    let mut reel = load.tape.as_deref().map(Tape::reel);
    if !leading.is_empty() {
        Reel::copy(reel.as_mut(), encoder, |encoder| encode_uploads(encoder, gpu, raws, leading));
    }
    let is_pass = |s: &Step| matches!(s, Step::Pass(_));
    let (first, last) = (steps.iter().position(is_pass), steps.iter().rposition(is_pass));
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Upload { .. } => {
                let (own, others) = uploads.split_at(1);
                Reel::copy(reel.as_mut(), encoder, |encoder| encode_uploads(encoder, gpu, raws, own));
                uploads = others;
            }
            Step::Copy { from, to, bytes, .. } => Reel::copy(reel.as_mut(), encoder, |encoder| {
                if raws[*from].id != raws[*to].id {
                    copy(encoder, (&raws[*from].buffer, 0), (&raws[*to].buffer, 0), *bytes);
                }
            }),
            Step::Download { slot, .. } => Reel::copy(reel.as_mut(), encoder, |encoder| {
                if let Some((_, bytes, Some(staging))) = reads.next() {
                    copy(encoder, (&raws[*slot].buffer, 0), (staging, 0), *bytes);
                    count(&gpu.counts.reads);
                }
            }),
            Step::Pass(pass) => {
                let marks = load.clock.as_ref().and_then(|c| pass_marks(c, first == Some(i), last == Some(i)));
                for (part, own) in parted(pass, reel.as_mut()) {
                    encode_pass(encoder, gpu, part, &mut groups, own.or(marks.clone()));
                }
            }
        }
    }
    load.clock.iter().for_each(|clock| clock.bring(encoder));
    if let Some(reel) = reel {
        reel.end(encoder);
    }
}

/// Dispatches that share a pass: all of them, or those of one launch, each with marks of its own.
fn parted<'a>(
    pass: &'a [Ready],
    reel: Option<&mut Reel<'a>>,
) -> Vec<(&'a [Ready], Option<wgpu::ComputePassTimestampWrites<'a>>)> {
    match reel {
        None => vec![(pass, None)],
        Some(reel) => {
            pass.chunk_by(|a, b| Arc::ptr_eq(&a.launches, &b.launches)).map(|part| (part, reel.pass())).collect()
        }
    }
}

fn encode_pass<'a>(
    encoder: &mut wgpu::CommandEncoder,
    gpu: &Gpu,
    pass: &[Ready],
    groups: &mut impl Iterator<Item = &'a wgpu::BindGroup>,
    timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
) {
    let mut encoded = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
    count(&gpu.counts.passes);
    let mut bound = None;
    for (ready, group) in pass.iter().zip(groups) {
        if !bound.replace(&ready.pipeline).is_some_and(|last| Arc::ptr_eq(last, &ready.pipeline)) {
            encoded.set_pipeline(&ready.pipeline.compute);
        }
        encoded.set_bind_group(0, group, &[]);
        let [x, y, z] = ready.grid;
        encoded.dispatch_workgroups(x, y, z);
        count(&gpu.counts.dispatches);
    }
}

/// Buffers are padded to 16 bytes, so whole words may be copied.
fn copy(encoder: &mut wgpu::CommandEncoder, from: (&wgpu::Buffer, u64), to: (&wgpu::Buffer, u64), bytes: u64) {
    if bytes > 0 {
        encoder.copy_buffer_to_buffer(from.0, from.1, to.0, to.1, bytes.next_multiple_of(4));
    }
}

fn pass_marks(clock: &Clock, first: bool, last: bool) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
    (first || last).then(|| wgpu::ComputePassTimestampWrites {
        query_set: &clock.queries,
        beginning_of_pass_write_index: first.then_some(0),
        end_of_pass_write_index: last.then_some(1),
    })
}

/// Asks to be told when the work is done and host-visible memory can be seen.
fn ask(gpu: &Gpu, load: &Load, marks: &Arc<Marks>) {
    let done = marks.add();
    gpu.queue.on_submitted_work_done(move || done.answer(true));
    let map = |buffer: &wgpu::Buffer, mode| {
        let mark = marks.add();
        buffer.slice(..).map_async(mode, move |result| mark.answer(result.is_ok()));
    };
    load.uploads
        .iter()
        .filter_map(|staged| staged.buffer.as_ref())
        .for_each(|buffer| map(buffer, wgpu::MapMode::Write));
    load.reads.iter().filter_map(|(_, _, b)| b.as_ref()).for_each(|buffer| map(buffer, wgpu::MapMode::Read));
    load.clock.iter().for_each(|clock| map(&clock.read, wgpu::MapMode::Read));
    load.tape.iter().flat_map(|tape| tape.memory()).for_each(|memory| map(memory, wgpu::MapMode::Read));
}
