//! One submission: uploads staged, steps encoded, one submit, callbacks asked for.

use std::sync::Arc;
use std::time::Instant;

use breakeven_device::{Binding, Buffer, DeviceError, Result, Timing};

use crate::counters::count;
use crate::flight::{Load, Marks, Submission};
use crate::memory::{Gpu, Raw, WgpuMemory};
use crate::prepared::{Groups, Step, WgpuPrepared};
use crate::staging::Clock;

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

/// Encodes and submits; gives what has to be held until it ends.
pub(crate) fn submit(gpu: &Arc<Gpu>, work: &WgpuPrepared, binding: &Binding) -> Result<Submission> {
    let raws = raws(gpu, binding, work.slots)?;
    let mut held: Vec<Buffer> = binding.buffers.clone();
    let scratch = if work.scratch > 0 { Some(gpu.alloc(work.scratch)?) } else { None };
    let scratch_raw = scratch.as_ref().and_then(|b| b.memory::<WgpuMemory>()).map(WgpuMemory::raw);
    let mut timing = Timing::default();
    let start = Instant::now();
    let mut load = stage(gpu, work, binding)?;
    timing.upload = start.elapsed();
    let start = Instant::now();
    let groups = work.groups(gpu, &raws, scratch_raw)?;
    let has_pass = work.steps.iter().any(|s| matches!(s, Step::Pass(_)));
    load.clock = if has_pass && binding.timed { gpu.staging.clock(gpu) } else { None };
    let marks = Arc::new(Marks::default());
    let index = gpu.guarded(|| {
        let commands = encode(gpu, work, &raws, &groups, &load);
        let index = gpu.queue.submit([commands]);
        ask(gpu, &load, &marks);
        index
    })?;
    count(&gpu.counts.submits);
    timing.dispatch = start.elapsed();
    held.extend(scratch);
    Ok(Submission { index, marks, timing, bytes: link_bytes(work, binding), load, held })
}

/// Copies uploads into staging memory and takes staging memory for reads.
fn stage(gpu: &Gpu, work: &WgpuPrepared, binding: &Binding) -> Result<Load> {
    let mut load = Load::default();
    for step in &work.steps {
        match step {
            Step::Upload { upload, .. } => {
                let bytes = binding.uploads.get(*upload).ok_or_else(|| unbound("upload", *upload))?;
                if !bytes.is_empty() {
                    load.uploads.push((bytes.len() as u64, gpu.staging.fill(gpu, bytes)?));
                }
            }
            Step::Download { bytes, read, .. } => {
                let cell = binding.reads.get(*read).ok_or_else(|| unbound("read", *read))?;
                let buffer = if *bytes > 0 { Some(gpu.staging.for_read(gpu, *bytes)?) } else { None };
                load.reads.push((cell.clone(), *bytes, buffer));
            }
            Step::Pass(_) | Step::Copy { .. } => {}
        }
    }
    Ok(load)
}

fn unbound(what: &str, index: usize) -> DeviceError {
    DeviceError::Driver(format!("{what} {index} is not bound"))
}

fn encode(gpu: &Gpu, work: &WgpuPrepared, raws: &[&Raw], groups: &Groups, load: &Load) -> wgpu::CommandBuffer {
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
    let mut uploads = load.uploads.iter();
    let mut reads = load.reads.iter();
    let mut groups = groups.iter();
    let is_pass = |s: &Step| matches!(s, Step::Pass(_));
    let (first, last) = (work.steps.iter().position(is_pass), work.steps.iter().rposition(is_pass));
    for (i, step) in work.steps.iter().enumerate() {
        match step {
            Step::Upload { upload: _, slot } => {
                if let Some((bytes, staging)) = uploads.next() {
                    copy(&mut encoder, staging, &raws[*slot].buffer, *bytes);
                    count(&gpu.counts.uploads);
                }
            }
            Step::Copy { from, to, bytes } if raws[*from].id != raws[*to].id => {
                copy(&mut encoder, &raws[*from].buffer, &raws[*to].buffer, *bytes);
            }
            Step::Copy { .. } => {}
            Step::Download { slot, .. } => {
                if let Some((_, bytes, Some(staging))) = reads.next() {
                    copy(&mut encoder, &raws[*slot].buffer, staging, *bytes);
                    count(&gpu.counts.reads);
                }
            }
            Step::Pass(pass) => {
                let marks = load.clock.as_ref().map(|clock| pass_marks(clock, first == Some(i), last == Some(i)));
                let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes: marks.flatten() };
                let mut encoded = encoder.begin_compute_pass(&descriptor);
                count(&gpu.counts.passes);
                for (ready, group) in pass.iter().zip(&mut groups) {
                    encoded.set_pipeline(&ready.pipeline.compute);
                    encoded.set_bind_group(0, group, &[]);
                    let [x, y, z] = ready.grid;
                    encoded.dispatch_workgroups(x, y, z);
                    count(&gpu.counts.dispatches);
                }
            }
        }
    }
    if let Some(clock) = &load.clock {
        encoder.resolve_query_set(&clock.queries, 0..2, &clock.resolve, 0);
        encoder.copy_buffer_to_buffer(&clock.resolve, 0, &clock.read, 0, 16);
    }
    encoder.finish()
}

/// Buffers are padded to 16 bytes, so whole words may be copied.
fn copy(encoder: &mut wgpu::CommandEncoder, from: &wgpu::Buffer, to: &wgpu::Buffer, bytes: u64) {
    if bytes > 0 {
        encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes.next_multiple_of(4));
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
    load.uploads.iter().for_each(|(_, buffer)| map(buffer, wgpu::MapMode::Write));
    load.reads.iter().filter_map(|(_, _, b)| b.as_ref()).for_each(|buffer| map(buffer, wgpu::MapMode::Read));
    load.clock.iter().for_each(|clock| map(&clock.read, wgpu::MapMode::Read));
}
