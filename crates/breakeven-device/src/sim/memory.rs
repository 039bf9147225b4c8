//! Memory of a simulated device, which knows when it was last written and read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Binding, DeviceError, Result};

/// Bytes of one buffer.
#[derive(Debug)]
pub(super) struct SimMemory {
    cell: Mutex<Cell>,
    books: Books,
    reserved: u64,
}

/// What a device's memory is used for; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Books(Arc<Mutex<Used>>);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub live: u64,
    /// Let go and not given back.
    pub kept: u64,
    pub keeps: bool,
}

impl Books {
    pub fn new(keeps: bool) -> Books {
        Books(Arc::new(Mutex::new(Used { keeps, ..Used::default() })))
    }

    pub fn read(&self) -> Used {
        *self.lock()
    }

    /// Gives back what was kept.
    pub fn trim(&self) {
        self.lock().kept = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// Memory full of NaN, counted as live until it is dropped.
    pub fn poisoned(bytes: u64, books: Books) -> SimMemory {
        books.lock().live += bytes;
        let cell = Cell { bytes: vec![0xFF; bytes as usize], written: Duration::ZERO, read: Duration::ZERO };
        SimMemory { cell: Mutex::new(cell), books, reserved: bytes }
    }

    /// Memory that holds these bytes from the start.
    pub fn holding(bytes: &[u8], books: Books) -> SimMemory {
        let memory = SimMemory::poisoned(bytes.len() as u64, books);
        memory.lock().bytes.copy_from_slice(bytes);
        memory
    }

    /// True when it is counted there.
    pub fn is_of(&self, books: &Books) -> bool {
        Arc::ptr_eq(&self.books.0, &books.0)
    }

    pub fn lock(&self) -> MutexGuard<'_, Cell> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SimMemory {
    fn drop(&mut self) {
        let mut used = self.books.lock();
        used.live -= self.reserved;
        if used.keeps {
            used.kept += self.reserved;
        }
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
