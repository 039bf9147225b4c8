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

/// A read is cut into so many pieces at least, so that all but the last of them are copied while the device writes,
const PIECES: u64 = 4;
/// unless they were shorter than this: what a submission takes has to be little beside moving them.
const LEAST: u64 = 2 << 20;

/// Bytes of the pieces that a read of so many is cut into, of at most `most`; `None` where it is one piece.
pub(crate) fn piece_of(bytes: u64, most: u64) -> Option<usize> {
    // Copies start at words.
    let piece = bytes.div_ceil(PIECES).max(LEAST).min(most.max(1)).next_multiple_of(16);
    (piece < bytes).then_some(piece as usize)
}

/// Fills `to` with the first bytes of `buffer`, so many at a time.
pub(crate) fn read_into(
    device: &WgpuDevice,
    buffer: &Buffer,
    to: &mut [u8],
    piece: usize,
    deadline: Deadline,
) -> Result<()> {
    if to.len() as u64 > buffer.bytes() {
        let (wanted, held) = (to.len(), buffer.bytes());
        return Err(DeviceError::Driver(format!("{wanted} bytes are wanted of a buffer that holds {held}")));
    }
    count(&device.gpu().counts.reads);
    let mut pieces = to.chunks_mut(piece).zip((0..).step_by(piece)).peekable();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reads_are_cut_and_short_ones_are_not() {
        let most = 16 << 20;
        for (bytes, piece) in [(0, None), (LEAST, None), (LEAST + 1, Some(LEAST)), (3 * LEAST, Some(LEAST))] {
            assert_eq!(piece_of(bytes, most), piece.map(|piece| piece as usize), "{bytes}");
        }
        for (mib, piece) in [(8, 2), (16, 4), (32, 8), (64, 16), (1024, 16)] {
            assert_eq!(piece_of(mib << 20, most), Some(piece << 20), "{mib} MiB");
        }
        assert_eq!(piece_of((8 << 20) + 4, most), Some((2 << 20) + 16), "a piece starts at a word");
        assert_eq!([piece_of(40, 1), piece_of(16, 0)], [Some(16), None], "as the options say");
    }
}
