//! Room for what is to come: on the host, checked before a number that a caller or a file gave becomes an allocation of ours, and on
//! devices, checked before a plan runs.

use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Device, DeviceError, Memory};
use breakeven_ir::{CallError, Spec};
use breakeven_plan::{DeviceId, Plan};

use crate::devices::Snapshot;
use crate::failure::Failure;
use crate::planned::{Planned, Turn};
use crate::{Engine, Error, Result};

impl Engine {
    /// Fails where the elements of `spec` are more than may be held.
    pub(crate) fn room(&self, spec: &Spec) -> Result<()> {
        let lacks = |source| Error::Device { device: "cpu".to_owned(), source };
        self.has_room(spec.bytes()).map_err(lacks)
    }

    /// Fails where `operation` needs a list of so many elements of so many bytes on the host, and that may not be held.
    pub(crate) fn room_for(
        &self,
        operation: &'static str,
        count: usize,
        each: usize,
    ) -> std::result::Result<(), CallError> {
        let bytes = (count as u64).saturating_mul(each as u64);
        self.has_room(bytes).map_err(|error| CallError::new(operation, format!("needs a list on the host: {error}")))
    }

    /// Fails where so many bytes on the host are more than this engine may hold: to be asked before a number of a caller's or a
    /// file's becomes memory.
    pub fn has_room(&self, bytes: u64) -> std::result::Result<(), DeviceError> {
        let limit = self.memory_limit().unwrap_or(u64::MAX).min(isize::MAX as u64);
        if bytes <= limit { Ok(()) } else { Err(DeviceError::OutOfMemory { wanted: bytes, left: Some(limit) }) }
    }
}

impl Snapshot {
    /// The plan for the next run, or the leading one, where there is no room for a trial; fails where there is none for that either. Where
    /// somebody insists on a device, its driver decides.
    pub(crate) fn with_room(&self, planned: &Arc<Planned>, turn: Turn) -> std::result::Result<Turn, Failure> {
        if !planned.made_for.policy.is_free() {
            return Ok(turn);
        }
        match self.short_of(turn.executable().plan()) {
            None => Ok(turn),
            Some(_) if turn.is_trial() => {
                // With it, the trial is put off.
                drop(turn);
                self.with_room(planned, planned.lead())
            }
            Some((id, error)) => Err(Failure::Short(id, error)),
        }
    }

    /// A device that has less memory left than a plan has to take there: it would fail in the midst of it.
    fn short_of(&self, plan: &Plan) -> Option<(DeviceId, DeviceError)> {
        let mut takes = plan.counts.taken_bytes.iter().enumerate().skip(1).filter(|(_, bytes)| **bytes > 0);
        takes.find_map(|(id, &wanted)| {
            let left = left_for(&*self.device(DeviceId(id))?, wanted).filter(|left| *left < wanted)?;
            Some((DeviceId(id), DeviceError::OutOfMemory { wanted, left: Some(left) }))
        })
    }
}

/// Bytes that are left on a device, where that is known. Where a driver counts them, it counts what waits for copies too, which is given
/// back when that can be what keeps `wanted` bytes from fitting.
fn left_for(device: &dyn Device, wanted: u64) -> Option<u64> {
    let memory = device.memory();
    let left = left(&memory)?;
    if left >= wanted || left.saturating_add(besides(&memory)) < wanted {
        return Some(left);
    }
    device.trim(Duration::ZERO);
    Some(self::left(&device.memory()).map_or(left, |now| now.max(left)))
}

/// What more work may have. What waits in the pool is there for it, however little others leave.
fn left(memory: &Memory) -> Option<u64> {
    memory.left_bytes().map(|left| left.max(memory.pool.pooled_bytes))
}

/// What the driver counts and the pool does not.
fn besides(memory: &Memory) -> u64 {
    memory.held_bytes().saturating_sub(memory.pool.live_bytes)
}

#[cfg(test)]
mod tests {
    use breakeven_device::PoolCounters;

    use super::*;

    fn memory(budget: u64, used: Option<u64>, (live_bytes, pooled_bytes): (u64, u64)) -> Memory {
        let pool = PoolCounters { live_bytes, pooled_bytes, ..PoolCounters::default() };
        Memory { pool, used, budget: Some(budget), ..Memory::default() }
    }

    #[test]
    fn what_waits_in_the_pool_is_left_even_where_others_have_taken_the_rest() {
        let check = |memory: Memory, want: [u64; 2]| assert_eq!([left(&memory).unwrap(), besides(&memory)], want);
        check(memory(100, None, (30, 20)), [70, 0]);
        check(memory(100, Some(60), (30, 20)), [60, 10]);
        check(memory(40, Some(60), (30, 20)), [20, 10]);
        check(memory(10, Some(60), (30, 20)), [20, 10]);
        check(memory(10, Some(60), (30, 0)), [0, 30]);
        assert_eq!(left(&Memory::default()), None);
    }
}
