//! A software adapter that says it is none, so that work is placed there which does not name it; and it may be destroyed at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceInfo, DeviceKind, Lane, Memory, MemoryKind, Prepared, Result, Segment,
    Status, Ticket, Timing,
};
use breakeven_ir::{Caps, Kernel, Unsupported};
use breakeven_wgpu::WgpuDevice;

#[derive(Debug)]
pub struct Card {
    pub device: Arc<WgpuDevice>,
    pub info: DeviceInfo,
    /// Submissions until it is destroyed, with the last of them on its way.
    pub left: Arc<AtomicU64>,
}

/// As the engine sees it: nobody asks a simulated device whether it computes as it should.
pub fn posed(info: DeviceInfo) -> DeviceInfo {
    DeviceInfo { kind: DeviceKind::Simulated, ..info }
}

impl Device for Card {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding, lane: Lane, after: &[Ticket]) -> Result<Ticket> {
        let ticket = self.device.submit(work, binding, lane, after)?;
        // Below zero it is too large ever to come there again.
        if self.left.fetch_sub(1, SeqCst) == 1 {
            self.device.destroy();
        }
        Ok(ticket)
    }

    fn caps(&self) -> &Caps {
        self.device.caps()
    }

    fn supports(&self, kernel: &Kernel) -> std::result::Result<(), Unsupported> {
        self.device.supports(kernel)
    }

    fn lowers(&self, kernel: &Kernel) -> Option<&'static str> {
        self.device.lowers(kernel)
    }

    fn workspace_bytes(&self, kernel: &Kernel) -> u64 {
        self.device.workspace_bytes(kernel)
    }

    fn alloc(&self, bytes: u64, kind: MemoryKind) -> Result<Buffer> {
        self.device.alloc(bytes, kind)
    }

    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>> {
        self.device.prepare(segment)
    }

    fn prepare_while(&self, segment: &Segment, is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<Arc<dyn Prepared>> {
        self.device.prepare_while(segment, is_wanted)
    }

    fn compiles(&self, segment: &Segment) -> bool {
        self.device.compiles(segment)
    }

    fn poll(&self, ticket: Ticket) -> Status {
        self.device.poll(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Deadline) -> Result<Timing> {
        self.device.wait(ticket, deadline)
    }

    fn drain(&self, deadline: Deadline) -> Result<()> {
        self.device.drain(deadline)
    }

    fn drain_while(&self, deadline: Deadline, is_wanted: &dyn Fn() -> bool) -> Result<()> {
        self.device.drain_while(deadline, is_wanted)
    }

    fn owns(&self, buffer: &Buffer) -> bool {
        self.device.owns(buffer)
    }

    fn memory(&self) -> Memory {
        self.device.memory()
    }

    fn trim(&self, age: Duration) {
        self.device.trim(age);
    }

    fn now(&self) -> Duration {
        self.device.now()
    }

    fn read_into(&self, buffer: &Buffer, to: &mut [u8], deadline: Deadline) -> Option<Result<()>> {
        self.device.read_into(buffer, to, deadline)
    }
}
