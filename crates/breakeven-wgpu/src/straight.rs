//! Reads straight into the caller's memory: pieces are copied there while the device writes those that follow.

use std::collections::VecDeque;
use std::time::Duration;

use breakeven_device::{Buffer, Deadline, Device, DeviceError, ReadCell, Result, Ticket};

use crate::WgpuDevice;
use crate::counters::count;

/// Pieces on their way: one that is copied, one that is there, and one that the device writes.
const AHEAD: usize = 3;

/// How long to wait for others' work to end before asking again for room.
const NAP: Duration = Duration::from_micros(50);

/// Fills `to` with the first bytes of `buffer`.
pub(crate) fn read_into(device: &WgpuDevice, buffer: &Buffer, to: &mut [u8], deadline: Deadline) -> Result<()> {
    if to.len() as u64 > buffer.bytes() {
        let (wanted, held) = (to.len(), buffer.bytes());
        return Err(DeviceError::Driver(format!("{wanted} bytes are wanted of a buffer that holds {held}")));
    }
    count(&device.gpu().counts.reads);
    // Copies start at words.
    let chunk = device.gpu().options.chunk_bytes.max(1).next_multiple_of(16) as usize;
    let mut pieces = to.chunks_mut(chunk).zip((0..).step_by(chunk)).peekable();
    let mut ahead = VecDeque::with_capacity(AHEAD);
    loop {
        while let (true, Some((place, at))) = (ahead.len() < AHEAD, pieces.peek()) {
            let Some(read) = start(device, buffer, (*at, place.len() as u64), ahead.is_empty(), deadline)? else {
                break;
            };
            ahead.extend(pieces.next().map(|(place, _)| (read, place)));
        }
        let Some(((ticket, cell), place)) = ahead.pop_front() else { return Ok(()) };
        finish(device, ticket, &cell, place, deadline)?;
    }
}

/// Submits one piece; `None` when the device has no room for it until earlier ones have ended.
fn start(
    device: &WgpuDevice,
    buffer: &Buffer,
    (at, bytes): (u64, u64),
    is_only: bool,
    deadline: Deadline,
) -> Result<Option<(Ticket, ReadCell)>> {
    let cell = ReadCell::new();
    loop {
        match device.submit_read(buffer, at..at + bytes, &cell) {
            Err(DeviceError::Busy) if !is_only => return Ok(None),
            Err(DeviceError::Busy) if !deadline.has_passed() => std::thread::sleep(NAP),
            ticket => return Ok(Some((ticket?, cell))),
        }
    }
}

fn finish(device: &WgpuDevice, ticket: Ticket, cell: &ReadCell, place: &mut [u8], deadline: Deadline) -> Result<()> {
    device.wait(ticket, deadline)?;
    let bytes = cell.take().ok_or_else(|| DeviceError::Driver("a piece was not read".to_owned()))?;
    device.gpu().options.copier.copy(&bytes, place);
    Ok(())
}
