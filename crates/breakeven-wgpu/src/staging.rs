//! Host-visible memory that copies pass through, kept between submissions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakeven_device::{DeviceError, HostBytes, HostMemory, Pool, PoolClass, PoolCounters, Result, Timing, size_class};

use crate::backend::WgpuOptions;
use crate::counters::count;
use crate::errors::lock;
use crate::flight::Load;
use crate::lend::{Lent, Loans};
use crate::memory::Gpu;

/// Bytes of the host's memory that each pool keeps waiting.
const MOST: u64 = 1 << 30;

/// Buffers for writing, mapped while they wait, and for reading.
#[derive(Debug)]
pub(crate) struct Staging {
    write: Mutex<Pool<wgpu::Buffer>>,
    read: Mutex<Pool<wgpu::Buffer>>,
    pub loans: Loans,
    clocks: Mutex<Pool<Clock>>,
}

/// Clocks that wait: many threads' with a stream each. Others are made anew, which is nothing beside the work that is measured.
const CLOCKS: u64 = 32;

/// What two marks take in each of its buffers, together.
const CLOCK_BYTES: u64 = 2 * 2 * 8;

/// What measures the kernels of one submission: by a mark before and one after them, or by two for each.
#[derive(Debug)]
pub(crate) struct Clock {
    marks: u32,
    /// When it was taken: what it measures came after.
    taken: Duration,
    pub queries: wgpu::QuerySet,
    pub resolve: wgpu::Buffer,
    pub read: wgpu::Buffer,
}

impl Staging {
    pub fn new(options: &WgpuOptions) -> Staging {
        let pool = || Mutex::new(Pool::new(options.pool_bytes.unwrap_or(MOST).min(MOST), options.pool_age));
        let clocks = Mutex::new(Pool::new(CLOCKS * size_class(CLOCK_BYTES), options.pool_age));
        Staging { write: pool(), read: pool(), loans: Loans::new(options.lent_bytes), clocks }
    }

    /// Memory that holds `bytes`, ready to be copied from; none where there is nothing to copy.
    pub fn fill(&self, gpu: &Gpu, bytes: &[u8]) -> Result<Option<wgpu::Buffer>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let wanted = bytes.len() as u64;
        let pooled = lock(&self.write).take(wanted);
        let buffer = if let Some(buffer) = pooled {
            buffer
        } else {
            let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
            let made = gpu.create_buffer(wanted, usage, true)?;
            count(&gpu.counts.staging);
            lock(&self.write).made(wanted);
            made
        };
        write(gpu, bytes, &buffer).inspect_err(|_| self.forget_write(wanted))?;
        buffer.unmap();
        Ok(Some(buffer))
    }

    /// Memory that `bytes` can be copied to.
    pub fn for_read(&self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
        if let Some(buffer) = lock(&self.read).take(bytes) {
            return Ok(buffer);
        }
        let made = gpu.create_buffer(bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST, false)?;
        count(&gpu.counts.staging);
        lock(&self.read).made(bytes);
        Ok(made)
    }

    /// Takes back memory for writing that is mapped again.
    pub fn put_write(&self, bytes: u64, buffer: wgpu::Buffer, now: Duration) {
        let gone = lock(&self.write).put(bytes, buffer, now);
        gone.iter().for_each(wgpu::Buffer::destroy);
    }

    /// Counts all memory of a submission as gone, which was not made or failed.
    pub fn forget(&self, load: &Load) {
        load.uploads.iter().filter(|staged| staged.buffer.is_some()).for_each(|staged| self.forget_write(staged.bytes));
        load.reads.iter().filter(|(_, _, buffer)| buffer.is_some()).for_each(|(_, bytes, _)| self.forget_read(*bytes));
        load.clock.iter().for_each(|_| lock(&self.clocks).forget(CLOCK_BYTES));
    }

    fn forget_write(&self, bytes: u64) {
        lock(&self.write).forget(bytes);
    }

    /// What mapped memory holds: lent, and taken back when nobody looks any more, or copied, and taken back at once.
    pub fn take_read(&self, gpu: &Arc<Gpu>, bytes: u64, buffer: wgpu::Buffer) -> Result<HostBytes> {
        let view = buffer.slice(..bytes.next_multiple_of(16)).get_mapped_range().map_err(|e| {
            self.forget_read(bytes);
            DeviceError::Driver(format!("what was read cannot be seen: {e}"))
        })?;
        match Lent::new(gpu, &buffer, view, bytes) {
            Ok(lent) => Ok(HostBytes::constant(lent)),
            Err(view) => {
                let mut memory = HostMemory::zeroed(bytes as usize);
                gpu.options.copier.copy(&view[..bytes as usize], &mut memory);
                drop(view);
                buffer.unmap();
                self.put_read(bytes, buffer, gpu.now());
                Ok(memory.into())
            }
        }
    }

    /// What the pools for writing and for reading did and hold.
    pub fn counters(&self) -> [PoolCounters; 2] {
        [&self.write, &self.read].map(|pool| lock(pool).counters())
    }

    /// The same by size class.
    pub fn classes(&self) -> [Vec<PoolClass>; 2] {
        [&self.write, &self.read].map(|pool| lock(pool).classes())
    }

    /// Counts memory for reading as gone: its device is lost.
    pub fn forget_read(&self, bytes: u64) {
        lock(&self.read).forget(bytes);
    }

    /// Takes back memory for reading that is not mapped.
    pub fn put_read(&self, bytes: u64, buffer: wgpu::Buffer, now: Duration) {
        let gone = lock(&self.read).put(bytes, buffer, now);
        gone.iter().for_each(wgpu::Buffer::destroy);
    }

    /// A clock, where the device has one.
    pub fn clock(&self, gpu: &Gpu) -> Option<Clock> {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return None;
        }
        let waiting = lock(&self.clocks).take(CLOCK_BYTES);
        let clock = waiting.or_else(|| self.new_clock(gpu))?;
        Some(Clock { taken: gpu.now(), ..clock })
    }

    fn new_clock(&self, gpu: &Gpu) -> Option<Clock> {
        let made = gpu.guarded(|| make_clock(&gpu.device, 2)).ok()?;
        lock(&self.clocks).made(CLOCK_BYTES);
        Some(made)
    }

    /// Takes back a clock whose memory is not mapped.
    pub fn put_clock(&self, clock: Clock, now: Duration) {
        let gone = lock(&self.clocks).put(CLOCK_BYTES, clock, now);
        gone.iter().for_each(Clock::destroy);
    }

    /// Gives back what has waited since before `before`.
    pub fn trim(&self, before: Duration) {
        for pool in [&self.write, &self.read] {
            let gone = lock(pool).trim(before);
            gone.iter().for_each(wgpu::Buffer::destroy);
        }
        let gone = lock(&self.clocks).trim(before);
        gone.iter().for_each(Clock::destroy);
    }
}

/// Copies into mapped memory.
pub(crate) fn write(gpu: &Gpu, bytes: &[u8], buffer: &wgpu::Buffer) -> Result<()> {
    let range = buffer.slice(..bytes.len().next_multiple_of(16) as u64).get_mapped_range_mut();
    let mut view = range.map_err(|e| DeviceError::Driver(format!("mapped memory cannot be written: {e}")))?;
    let place = view.slice(..bytes.len()).as_raw_element_ptr();
    // SAFETY: so many bytes are mapped there for as long as the view lives, wgpu has set them once, and it gives nobody else a
    // view of them meanwhile.
    let to = unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), bytes.len()) };
    // The bus is slower than memory, so half of the threads fill it, and the others stay with whoever computes.
    gpu.options.copier.copy_beside(bytes, to);
    Ok(())
}

/// A clock with so many marks.
pub(crate) fn make_clock(device: &wgpu::Device, marks: u32) -> Clock {
    let size = 8 * u64::from(marks);
    let buffer =
        |usage| device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
    let kind = wgpu::QueryType::Timestamp;
    Clock {
        marks,
        taken: Duration::ZERO,
        queries: device.create_query_set(&wgpu::QuerySetDescriptor { label: None, ty: kind, count: marks }),
        resolve: buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
        read: buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
    }
}

impl Clock {
    fn destroy(&self) {
        [&self.resolve, &self.read].into_iter().for_each(wgpu::Buffer::destroy);
        self.queries.destroy();
    }

    /// Brings the marks to memory that the host sees.
    pub fn bring(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..self.marks, &self.resolve, 0);
        encoder.copy_buffer_to_buffer(&self.resolve, 0, &self.read, 0, 8 * u64::from(self.marks));
    }

    /// The marks, in ticks, from mapped memory, which is unmapped.
    pub fn marks(&self) -> Option<Vec<u64>> {
        let view = self.read.slice(..).get_mapped_range().ok()?;
        let marks = view.chunks_exact(8).filter_map(|mark| mark.try_into().ok().map(u64::from_le_bytes)).collect();
        drop(view);
        self.read.unmap();
        Some(marks)
    }

    /// Time between its two marks, which were made by `now`; `None` when the device measured nonsense.
    pub fn read(&self, period: f32, now: Duration) -> Option<Duration> {
        let marks = self.marks()?;
        let pair = (*marks.first()?, *marks.get(1)?);
        Timing::between(pair, f64::from(period), now.saturating_sub(self.taken))
    }
}

#[cfg(test)]
mod tests {
    use breakeven_device::{Backend, Device};

    use super::*;
    use crate::{WgpuBackend, WgpuDevice};

    /// The software adapters that tell their time.
    fn devices() -> Vec<WgpuDevice> {
        let backend = WgpuBackend::new(WgpuOptions::default());
        assert!(!backend.list().is_empty(), "no software Vulkan adapter: install mesa-vulkan-drivers");
        let opened = backend.software_adapters().into_iter().map(|index| backend.open_device(index).unwrap());
        opened.filter(|device| device.gpu().device.features().contains(wgpu::Features::TIMESTAMP_QUERY)).collect()
    }

    /// How many clocks wait once so many that were in use are back.
    fn waiting(device: &WgpuDevice, count: u64) -> u64 {
        let (gpu, clocks) = (device.gpu(), || lock(&device.gpu().staging.clocks).classes());
        let taken: Vec<Clock> = (0..count).map(|_| gpu.staging.clock(gpu).unwrap()).collect();
        assert!(clocks()[0].live == count, "{:?}", clocks());
        for clock in taken {
            gpu.staging.put_clock(clock, gpu.now());
        }
        assert!(clocks().len() == 1 && clocks()[0].live == 0, "{:?}", clocks());
        clocks()[0].waiting
    }

    #[test]
    fn clocks_wait_for_the_next_until_they_are_trimmed() {
        let devices = devices();
        assert!(!devices.is_empty(), "lavapipe tells its time");
        for device in devices {
            assert_eq!((waiting(&device, 3), waiting(&device, 5)), (3, 5));
            device.trim(Duration::from_mins(1));
            assert_eq!(waiting(&device, 0), 5, "they are not as old");
            device.trim(Duration::ZERO);
            assert_eq!(waiting(&device, 0), 0);
        }
    }

    #[test]
    fn a_thousand_clocks_leave_as_many_as_may_wait() {
        for device in devices() {
            assert_eq!(waiting(&device, 1000), CLOCKS);
        }
    }
}
