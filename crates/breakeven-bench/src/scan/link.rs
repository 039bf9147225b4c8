//! The way between the host's memory and a device's, without any kernel: through the seam that plans use.

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Deadline, Device, HostBytes};
use breakeven_device::{Binding, Lane, MemoryKind, Prepared, ReadCell, Result, Segment, SegmentStep};

use super::clock::Clock;

/// Uploads and one read, prepared once.
pub struct Link {
    device: Arc<dyn Device>,
    up: Arc<dyn Prepared>,
    binding: Binding,
    /// Memory of the caller that is read into, touched before.
    out: Vec<u8>,
}

impl Link {
    /// To bring these operands and read so many bytes back.
    pub fn new(device: &Arc<dyn Device>, operands: Vec<HostBytes>, read: u64) -> Result<Link> {
        let mut buffers = operands
            .iter()
            .map(|bytes| device.alloc(bytes.len() as u64, MemoryKind::Resident))
            .collect::<Result<Vec<_>>>()?;
        let uploads = (0..operands.len()).map(|i| SegmentStep::Upload { upload: i, slot: i }).collect();
        let up = device.prepare(&Segment { steps: uploads })?;
        buffers.push(device.alloc(read, MemoryKind::Resident)?);
        let binding = Binding { buffers, uploads: operands, ..Binding::default() };
        Ok(Link { device: device.clone(), up, binding, out: vec![1; read as usize] })
    }

    /// Time of bringing the operands.
    pub fn upload(&mut self, clock: &dyn Clock, deadline: Deadline) -> Result<Duration> {
        let begun = clock.now();
        let ticket = self.device.submit(&self.up, self.binding.clone(), Lane::Compute, &[])?;
        self.device.wait(ticket, deadline)?;
        Ok(clock.since(begun))
    }

    /// Time of reading as many bytes as the result has.
    pub fn read(&mut self, clock: &dyn Clock, deadline: Deadline) -> Result<Duration> {
        let buffer = self.binding.buffers.last().expect("the result's is the last").clone();
        let begun = clock.now();
        match self.device.read_into(&buffer, &mut self.out, deadline) {
            Some(read) => read?,
            None => self.download(&buffer, deadline)?,
        }
        Ok(clock.since(begun))
    }

    /// A device that has no short way gives bytes of its own, which are copied.
    fn download(&mut self, buffer: &breakeven_device::Buffer, deadline: Deadline) -> Result<()> {
        let bytes = self.out.len() as u64;
        let step = SegmentStep::Download { slot: 0, bytes, read: 0 };
        let work = self.device.prepare(&Segment { steps: vec![step] })?;
        let cell = ReadCell::new();
        let binding = Binding { buffers: vec![buffer.clone()], reads: vec![cell.clone()], ..Binding::default() };
        let ticket = self.device.submit(&work, binding, Lane::Compute, &[])?;
        self.device.wait(ticket, deadline)?;
        let read = cell.take().expect("a download that is done has filled its cell");
        self.device.copy_on_host(&read, &mut self.out);
        Ok(())
    }
}
