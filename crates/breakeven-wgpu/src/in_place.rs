//! Bytes that are written to and read from the device's own memory where they lie, where the host has it too.
//!
//! wgpu maps a buffer when the work on it has ended, and refuses work on a buffer that is mapped or waits for it. So a buffer is
//! mapped here only while nothing submitted holds it, and its count of uses stays locked as long: whoever is about to submit work on
//! it waits for a copy on the host and for nothing of the device. What cannot be had at once is not waited for.
//!
//! A request to map that waits for work must not be withdrawn and made anew: wgpu keeps the first in the list of that work, and maps
//! the buffer for the second when that ends, under work that came in between.

use std::sync::MutexGuard;

use breakeven_device::Result;

use crate::counters::count;
use crate::memory::{Gpu, Raw};
use crate::staging;

/// Bytes on their way to a slot.
pub(crate) type Upload<'a> = (usize, &'a [u8]);

/// A buffer that no work holds but the caller's, and none can until this is dropped; it may be mapped meanwhile.
struct Idle<'a> {
    gpu: &'a Gpu,
    raw: &'a Raw,
    bytes: u64,
    is_asked: bool,
    _uses: MutexGuard<'a, usize>,
}

/// Writes those of `uploads` whose buffers are idle but for the submission that holds `raws` and does nothing before; gives the
/// others back, in order. Each is written by `watch`, or while it looks on.
pub(crate) fn write<'a>(
    gpu: &Gpu,
    raws: &[&Raw],
    uploads: Vec<Upload<'a>>,
    watch: impl Fn(Upload<'a>, &dyn Fn() -> Result<()>) -> Result<()>,
) -> Result<Vec<Upload<'a>>> {
    if !gpu.is_shared {
        return Ok(uploads);
    }
    let mut claims = claim(gpu, raws, &uploads);
    map(gpu, claims.iter_mut().flatten(), wgpu::MapMode::Write)?;
    let mut left = Vec::new();
    for (upload, idle) in uploads.into_iter().zip(claims) {
        match idle.filter(Idle::is_mapped) {
            Some(idle) => watch(upload, &|| idle.write(upload.1))?,
            None => left.push(upload),
        }
    }
    Ok(left)
}

/// Brings the first bytes of a buffer to `to`; false where work is pending on it.
pub(crate) fn read(gpu: &Gpu, raw: &Raw, to: &mut [u8]) -> Result<bool> {
    let Some(mut idle) = Idle::new(gpu, raw, 0, to.len()).filter(|_| gpu.is_shared) else { return Ok(false) };
    map(gpu, [&mut idle].into_iter(), wgpu::MapMode::Read)?;
    let Ok(view) = idle.range().get_mapped_range() else { return Ok(false) };
    gpu.options.copier.copy(&view[..to.len()], to);
    count(&gpu.counts.reads);
    count(&gpu.counts.in_place);
    Ok(true)
}

/// Fills memory that was never given out, or not since it came back; false where it has to be filled otherwise.
pub(crate) fn fill(gpu: &Gpu, raw: &Raw, bytes: &[u8]) -> Result<bool> {
    let Some(mut idle) = Idle::new(gpu, raw, 0, bytes.len()).filter(|_| gpu.is_shared) else { return Ok(false) };
    map(gpu, [&mut idle].into_iter(), wgpu::MapMode::Write)?;
    let is_mapped = idle.is_mapped();
    if is_mapped {
        staging::write(gpu, bytes, &raw.buffer)?;
    }
    Ok(is_mapped)
}

/// The buffer of each upload, where it can be written now. What is left for later is overtaken by nothing that is meant for the same
/// buffer.
fn claim<'a>(gpu: &'a Gpu, raws: &[&'a Raw], uploads: &[Upload<'_>]) -> Vec<Option<Idle<'a>>> {
    let mut seen = Vec::new();
    let mut one = |&(slot, bytes): &Upload<'_>| {
        let raw = raws[slot];
        let is_first = !seen.contains(&raw.id);
        seen.push(raw.id);
        let own = raws.iter().filter(|other| other.id == raw.id).count();
        Idle::new(gpu, raw, own, bytes.len()).filter(|_| is_first)
    };
    uploads.iter().map(&mut one).collect()
}

/// Asks for all of them at once. After the next poll they are mapped, unless work is pending on them after all.
fn map<'a: 'b, 'b>(gpu: &Gpu, idle: impl Iterator<Item = &'b mut Idle<'a>>, mode: wgpu::MapMode) -> Result<()> {
    let mut idle = idle.peekable();
    if idle.peek().is_none() {
        return Ok(());
    }
    gpu.guarded(|| {
        idle.for_each(|idle| {
            idle.range().map_async(mode, |_| ());
            idle.is_asked = true;
        });
        drop(gpu.device.poll(wgpu::PollType::Poll));
    })
}

impl<'a> Idle<'a> {
    /// Where the buffer has `own` uses alone and so many bytes, of which there are some.
    fn new(gpu: &'a Gpu, raw: &'a Raw, own: usize, bytes: usize) -> Option<Idle<'a>> {
        let bytes = (bytes as u64).next_multiple_of(16);
        let uses = raw.uses.try_lock().ok().filter(|uses| **uses == own)?;
        (1..=raw.buffer.size()).contains(&bytes).then_some(Idle { gpu, raw, bytes, is_asked: false, _uses: uses })
    }

    fn range(&self) -> wgpu::BufferSlice<'_> {
        self.raw.buffer.slice(..self.bytes)
    }

    fn is_mapped(&self) -> bool {
        self.range().get_mapped_range().is_ok()
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        staging::write(self.gpu, bytes, &self.raw.buffer)?;
        count(&self.gpu.counts.uploads);
        count(&self.gpu.counts.in_place);
        Ok(())
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        if self.is_asked {
            // One that could not be mapped is not, and whoever asked knows that.
            drop(self.gpu.guarded(|| self.raw.buffer.unmap()));
        }
    }
}
