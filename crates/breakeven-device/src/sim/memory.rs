//! Memory of a simulated device, which knows when it was last written and read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Binding, DeviceError, Result};

/// Bytes of one buffer.
#[derive(Debug)]
pub(super) struct SimMemory {
    cell: Mutex<Cell>,
    used: Arc<Mutex<u64>>,
    reserved: u64,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub bytes: Vec<u8>,
    /// When its last write ends, in virtual time.
    pub written: Duration,
    /// When its last read ends.
    pub read: Duration,
}

impl SimMemory {
    /// Memory full of NaN, counted in `used` until it is dropped.
    pub fn poisoned(bytes: u64, used: Arc<Mutex<u64>>) -> SimMemory {
        *used.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        let cell = Cell { bytes: vec![0xFF; bytes as usize], written: Duration::ZERO, read: Duration::ZERO };
        SimMemory { cell: Mutex::new(cell), used, reserved: bytes }
    }

    /// Memory that holds these bytes from the start.
    pub fn holding(bytes: &[u8], used: Arc<Mutex<u64>>) -> SimMemory {
        let memory = SimMemory::poisoned(bytes.len() as u64, used);
        memory.lock().bytes.copy_from_slice(bytes);
        memory
    }

    /// True when it is counted there.
    pub fn is_of(&self, used: &Arc<Mutex<u64>>) -> bool {
        Arc::ptr_eq(&self.used, used)
    }

    pub fn lock(&self) -> MutexGuard<'_, Cell> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SimMemory {
    fn drop(&mut self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.reserved;
    }
}

/// The memory bound to `slot`.
pub(super) fn memory(binding: &Binding, slot: usize) -> Result<&SimMemory> {
    let buffer = binding.buffers.get(slot);
    buffer
        .and_then(|b| b.memory())
        .ok_or_else(|| DeviceError::Driver(format!("slot {slot} is not bound to this device")))
}

/// A copy of what slot holds, read from `start` to `end`.
pub(super) fn read(binding: &Binding, slot: usize, start: Duration, end: Duration) -> Result<Vec<u8>> {
    let mut cell = memory(binding, slot)?.lock();
    if cell.written > start {
        return Err(hazard(slot, "read before it was written"));
    }
    cell.read = cell.read.max(end);
    Ok(cell.bytes.clone())
}

/// Put bytes at the start of a slot, between `start` and `end`.
pub(super) fn write(binding: &Binding, slot: usize, bytes: &[u8], start: Duration, end: Duration) -> Result<()> {
    let mut cell = memory(binding, slot)?.lock();
    if cell.written > start || cell.read > start {
        return Err(hazard(slot, "written while it was in use"));
    }
    let room = cell.bytes.len();
    let Some(place) = cell.bytes.get_mut(..bytes.len()) else {
        return Err(DeviceError::Driver(format!("{} bytes do not fit slot {slot} of {room}", bytes.len())));
    };
    place.copy_from_slice(bytes);
    cell.written = end;
    Ok(())
}

fn hazard(slot: usize, what: &str) -> DeviceError {
    DeviceError::Driver(format!("hazard: slot {slot} was {what}; an `after` ticket is missing"))
}
