//! What was read, handed out where it lies: staging memory stays mapped until nobody looks at it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::count;
use crate::memory::Gpu;

/// Bytes that are handed out, at most so many.
#[derive(Debug)]
pub(crate) struct Loans {
    bytes: AtomicU64,
    most: u64,
}

/// A buffer that somebody reads. It keeps its device open, as every buffer does, since its memory goes with that. Losing or
/// destroying the device takes nothing away: wgpu keeps the memory of a mapped buffer for as long as there is a handle to it,
/// unless somebody destroys the buffer itself, which nobody does while it is not in a pool.
pub(crate) struct Lent {
    /// Goes before its buffer is unmapped.
    view: Option<wgpu::BufferView>,
    buffer: Option<wgpu::Buffer>,
    bytes: u64,
    gpu: Arc<Gpu>,
}

/// Elements of every type may lie at multiples of it.
const ALIGNMENT: usize = 16;

impl Loans {
    pub fn new(most: u64) -> Loans {
        Loans { bytes: AtomicU64::new(0), most }
    }

    /// Bytes handed out now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether so many more may be handed out; they are counted then.
    fn grants(&self, bytes: u64) -> bool {
        let more = |lent: u64| lent.checked_add(bytes).filter(|all| *all <= self.most);
        self.bytes.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

impl Lent {
    /// The first `bytes` of a mapped buffer; the view itself where they have to be copied instead.
    pub fn new(
        gpu: &Arc<Gpu>,
        buffer: &wgpu::Buffer,
        view: wgpu::BufferView,
        bytes: u64,
    ) -> Result<Lent, wgpu::BufferView> {
        let is_aligned = (view.as_ptr() as usize).is_multiple_of(ALIGNMENT);
        if bytes < gpu.options.lend_from || !is_aligned || !gpu.staging.loans.grants(bytes) {
            return Err(view);
        }
        count(&gpu.counts.lent);
        Ok(Lent { view: Some(view), buffer: Some(buffer.clone()), bytes, gpu: gpu.clone() })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        let view = self.view.as_ref().expect("it goes when this is dropped");
        &view[..self.bytes as usize]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        drop(self.view.take());
        self.gpu.staging.loans.bytes.fetch_sub(self.bytes, Relaxed);
        let Some(buffer) = self.buffer.take() else { return };
        // On a lost device there is nothing to be told: the memory goes with the last handle.
        match self.gpu.guarded(|| buffer.unmap()) {
            Ok(()) => self.gpu.staging.put_read(self.bytes, buffer, self.gpu.now()),
            Err(_) => self.gpu.staging.forget_read(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WgpuBackend, WgpuOptions};

    /// A buffer that was written by the device and mapped.
    fn lend(gpu: &Arc<Gpu>) -> Lent {
        let buffer = gpu.staging.for_read(gpu, 4096).unwrap();
        gpu.queue.write_buffer(&buffer, 0, &[7; 4096]);
        gpu.queue.submit([]);
        buffer.slice(..).map_async(wgpu::MapMode::Read, |mapped| mapped.unwrap());
        gpu.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let view = buffer.get_mapped_range(..4096).unwrap();
        Lent::new(gpu, &buffer, view, 4096).expect("it is aligned and within bounds")
    }

    #[test]
    fn wgpu_keeps_memory_that_is_looked_at_when_it_frees_what_a_lost_device_held() {
        let backend = WgpuBackend::new(WgpuOptions { lend_from: 1, ..WgpuOptions::default() });
        for index in backend.software_adapters() {
            let device = backend.open_device(index).unwrap();
            let lent = lend(device.gpu());
            device.gpu().device.destroy();
            // Asked again when all work is done, wgpu frees every buffer that it knows of.
            for _ in 0..2 {
                drop(device.gpu().device.poll(wgpu::PollType::Poll));
            }
            assert!(device.gpu().verdict.check().is_err(), "the device is lost");
            assert!(lent.as_ref().iter().all(|byte| *byte == 7));
            drop(device);
            assert!(lent.as_ref().iter().all(|byte| *byte == 7));
        }
    }
}
