//! Memory of a run: reserved once for all of its steps, which follow each other, or lent by the caller.

use breakeven_device::{Buffer, Derived, DeviceError, HostBytes, Result};
use smallvec::SmallVec;

use crate::memory::{CpuMemory, Hold, in_use, read_only};

/// Memory that a slot of a segment stands for, and how the run may use it until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    start: *mut u8,
    bytes: usize,
    is_writable: bool,
    owner: Owner<'a>,
}

/// Who holds the bytes.
#[derive(Debug)]
enum Owner<'a> {
    /// Somebody who lent them to this run alone.
    Lender,
    /// The same, who can tell whether they ever change.
    Host(&'a HostBytes),
    /// Memory of the device, which this slot reserves.
    Reserved(Hold<'a>),
    /// Memory of the device, which another slot of the run reserves, for writing where this one may be written.
    Known(&'a CpuMemory),
}

/// Why a slot cannot be used as a step wants it: small, since every launch asks for each operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Unbound(usize),
    Foreign(usize),
    /// It has so many bytes.
    Short(usize),
    ReadOnly,
    Written,
}

impl From<Refusal> for DeviceError {
    #[cold]
    fn from(refusal: Refusal) -> DeviceError {
        match refusal {
            Refusal::Unbound(slot) => DeviceError::Driver(format!("slot {slot} is not bound")),
            Refusal::Foreign(slot) => DeviceError::Driver(format!("the buffer in slot {slot} is of another device")),
            Refusal::Short(bytes) => DeviceError::Driver(format!("a slot of {bytes} bytes is too short")),
            Refusal::ReadOnly => read_only(),
            Refusal::Written => in_use("read while it is written"),
        }
    }
}

/// How the steps of a segment use a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub slot: usize,
    pub is_written: bool,
}

/// Slots by number; none where memory is another device's, or no step uses it.
#[derive(Debug, Default)]
pub(crate) struct Slots<'a>(SmallVec<[Option<Slot<'a>>; 6]>);

impl<'a> Slots<'a> {
    /// Adds the next slot.
    pub fn push(&mut self, slot: Option<Slot<'a>>) {
        self.0.push(slot);
    }

    /// The slot of this number.
    #[inline]
    pub fn get(&self, slot: usize) -> std::result::Result<&Slot<'a>, Refusal> {
        match self.0.get(slot) {
            Some(Some(memory)) => Ok(memory),
            Some(None) => Err(Refusal::Foreign(slot)),
            None => Err(Refusal::Unbound(slot)),
        }
    }

    /// Reserves what `uses` names, each slot once and the written ones first, until these slots are dropped. Fails where somebody
    /// else uses it.
    pub fn reserve(&mut self, buffers: &'a [Buffer], uses: &[Use]) -> Result<()> {
        self.0.resize_with(buffers.len(), || None);
        for &Use { slot, is_written } in uses {
            let Some(memory) = buffers.get(slot).and_then(Buffer::memory::<CpuMemory>) else { continue };
            let reserved = if is_written { memory.hold_to_write() } else { memory.hold_to_read() };
            let owner = match reserved {
                Ok(hold) => Owner::Reserved(hold),
                Err(_) if self.holds(memory, is_written) => Owner::Known(memory),
                Err(error) => return Err(error),
            };
            self.0[slot] = Some(Slot { start: memory.start(), bytes: memory.bytes(), is_writable: is_written, owner });
        }
        Ok(())
    }

    /// Whether memory stands in more than one of them, and may be written.
    pub fn has_twins(&self) -> bool {
        self.0.iter().flatten().any(|slot| matches!(slot.owner, Owner::Known(_)))
    }

    /// One of these slots reserves `memory`, and for writing where it is to be written.
    fn holds(&self, memory: &CpuMemory, is_written: bool) -> bool {
        let is_it = |hold: &Hold<'_>| std::ptr::eq(hold.memory(), memory) && hold.is_written() >= is_written;
        self.0.iter().flatten().any(|slot| matches!(&slot.owner, Owner::Reserved(hold) if is_it(hold)))
    }
}

impl<'a> Slot<'a> {
    /// Bytes that are lent to be read.
    pub fn to_read(bytes: &'a [u8]) -> Slot<'a> {
        Slot::read(bytes, Owner::Lender)
    }

    /// The same whose owner is known.
    pub fn of_host(bytes: &'a HostBytes) -> Slot<'a> {
        Slot::read(bytes, Owner::Host(bytes))
    }

    /// Bytes that are lent to be written.
    pub fn to_write(bytes: &'a mut [u8]) -> Slot<'a> {
        Slot { start: bytes.as_mut_ptr(), bytes: bytes.len(), is_writable: true, owner: Owner::Lender }
    }

    /// Memory of the device that nobody else knows of.
    pub fn of_own(memory: &'a mut CpuMemory) -> Slot<'a> {
        let (start, bytes, is_writable) = (memory.start(), memory.bytes(), memory.is_pooled());
        Slot { start, bytes, is_writable, owner: Owner::Lender }
    }

    fn read(bytes: &[u8], owner: Owner<'a>) -> Slot<'a> {
        Slot { start: bytes.as_ptr().cast_mut(), bytes: bytes.len(), is_writable: false, owner }
    }

    pub fn start(&self) -> *const u8 {
        self.start
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it is written now. Fails where it is only there to be read.
    #[inline]
    pub fn write(&self) -> std::result::Result<*mut u8, Refusal> {
        if !self.is_writable {
            return Err(Refusal::ReadOnly);
        }
        if let Some(memory) = self.memory() {
            memory.forget_derived();
        }
        Ok(self.start)
    }

    /// What was made of its bytes as they are now, and where among the bytes that this is kept with they start; `None` for bytes
    /// that others may write meanwhile.
    pub fn derived(&self) -> Option<(&'a Derived, usize)> {
        match &self.owner {
            Owner::Lender => None,
            Owner::Host(bytes) => bytes.derived(),
            Owner::Reserved(hold) => hold.memory().derived(),
            Owner::Known(memory) => memory.derived(),
        }
    }

    /// The device's memory that it is, where it is that.
    #[inline]
    fn memory(&self) -> Option<&'a CpuMemory> {
        match &self.owner {
            Owner::Reserved(hold) => Some(hold.memory()),
            Owner::Known(memory) => Some(memory),
            Owner::Lender | Owner::Host(_) => None,
        }
    }

    /// Fails where a step would read this while it writes `output`.
    #[inline]
    pub fn apart_from(&self, output: &Slot<'_>) -> std::result::Result<(), Refusal> {
        let is_same = self.start == output.start && self.bytes > 0 && output.bytes > 0;
        if is_same { Err(Refusal::Written) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuOptions;
    use crate::memory::Store;

    const READ: [Use; 2] = [Use { slot: 0, is_written: false }, Use { slot: 1, is_written: false }];
    const WRITE: [Use; 2] = [Use { slot: 1, is_written: true }, Use { slot: 0, is_written: false }];

    fn is_free(buffer: &Buffer) -> bool {
        Slots::default().reserve(std::slice::from_ref(buffer), &[Use { slot: 0, is_written: true }]).is_ok()
    }

    fn reserve<'a>(buffers: &'a [Buffer], uses: &[Use]) -> Result<Slots<'a>> {
        let mut slots = Slots::default();
        slots.reserve(buffers, uses).map(|()| slots)
    }

    #[test]
    fn a_run_holds_what_it_uses_until_it_ends() {
        let store = Store::new(&CpuOptions::default());
        let buffers = [100, 200, 300].map(|bytes| store.alloc(bytes).expect("it is small"));
        let slots = reserve(&buffers, &WRITE).expect("nobody else uses them");
        assert!(matches!(slots.get(2), Err(Refusal::Foreign(2))), "no step uses it");
        let [read, written] = [0, 1].map(|slot| slots.get(slot).expect("it is used"));
        assert!(read.write().is_err() && written.write().is_ok());
        assert_eq!((is_free(&buffers[0]), is_free(&buffers[1]), is_free(&buffers[2])), (false, false, true));
        drop(slots);
        assert!(buffers.iter().all(is_free));
    }

    #[test]
    fn memory_may_stand_in_two_slots_of_one_run_and_not_of_two() {
        let store = Store::new(&CpuOptions::default());
        let memory = store.alloc(100).expect("it is small");
        let buffers = [memory.clone(), memory.clone()];
        let slots = reserve(&buffers, &WRITE).expect("nobody else uses it");
        let [read, written] = [0, 1].map(|slot| slots.get(slot).expect("it is used"));
        assert!(read.apart_from(written).is_err(), "a step may not read what it writes");
        assert!(reserve(&buffers, &READ).is_err() && reserve(&buffers, &WRITE).is_err(), "the other run writes it");
        drop(slots);
        let readers = reserve(&buffers, &READ).expect("nobody else uses it");
        assert!(reserve(&buffers, &READ).is_ok(), "two may read it");
        assert!(reserve(&buffers, &WRITE).is_err(), "the other run reads it");
        drop(readers);
        assert!(is_free(&memory));
    }

    #[test]
    fn who_reserved_memory_for_reading_gets_no_slot_to_write_it() {
        let store = Store::new(&CpuOptions::default());
        let memory = store.alloc(100).expect("it is small");
        let buffers = [memory.clone(), memory.clone()];
        assert!(reserve(&buffers, &[READ[0], WRITE[0]]).is_err(), "others may read it too");
        assert!(is_free(&memory));
    }

    #[test]
    fn what_a_failed_run_reserved_is_free_again() {
        let store = Store::new(&CpuOptions::default());
        let buffers = [100, 200].map(|bytes| store.alloc(bytes).expect("it is small"));
        let other = reserve(&buffers[..1], &[Use { slot: 0, is_written: true }]).expect("nobody else uses it");
        assert!(reserve(&buffers, &WRITE).is_err());
        assert!(is_free(&buffers[1]) && !is_free(&buffers[0]));
        drop(other);
        assert!(is_free(&buffers[0]));
    }
}
