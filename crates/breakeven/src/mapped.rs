//! A file mapped into memory, read-only: the one place of this crate with unsafe code.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use breakeven_device::HostBytes;
use memmap2::Mmap;

use crate::{Error, Result};

/// The bytes of the file at `path`, read from disk only where they are looked at.
///
/// While they live, no other program may truncate the file: as with every mapped file, the system then ends the process
/// that reads the missing part. Replacing the file by renaming another is fine. What others write into the file itself may be
/// seen, late or never.
pub fn map_file(path: &Path) -> Result<HostBytes> {
    let problem = |error: std::io::Error| Error::file(path, format!("cannot be read: {error}"));
    let file = File::open(path).map_err(problem)?;
    let about = file.metadata().map_err(problem)?;
    if !about.is_file() {
        return Err(Error::file(path, "is not a file"));
    }
    if about.len() == 0 {
        return Ok(HostBytes::from_vec(Vec::<u8>::new()));
    }
    // SAFETY: the map is private and never written through. Its bytes are only read as plain data for which every bit
    // pattern is valid, so a file that another program changes meanwhile can give wrong numbers, but no invalid value.
    // That no program truncates it is the contract stated above.
    let map = unsafe { Mmap::map(&file) }.map_err(problem)?;
    // Whether a private map shows what others write to the file is left open anyway.
    Ok(HostBytes::constant(map))
}
