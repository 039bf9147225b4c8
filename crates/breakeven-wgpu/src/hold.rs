//! Buffers that work of the device may touch, counted.

use breakeven_device::Buffer;

use crate::errors::lock;
use crate::memory::WgpuMemory;

/// Buffers of one submission, from before it is encoded until it has ended. Each counts as used as often as it stands here.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Buffer>);

impl Held {
    /// Waits for whoever copies to or from one of them in place.
    pub fn new(buffers: Vec<Buffer>) -> Held {
        let held = Held(buffers);
        held.each(|uses| *uses += 1);
        held
    }

    fn each(&self, act: impl Fn(&mut usize)) {
        let memory = self.0.iter().filter_map(|buffer| buffer.memory::<WgpuMemory>());
        memory.filter_map(WgpuMemory::uses).for_each(|uses| act(&mut lock(uses)));
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        Held::new(self.0.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.each(|uses| *uses -= 1);
    }
}
