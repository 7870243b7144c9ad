//! Holes of files on this host: where they are, and how zeros become some.

use std::os::fd::OwnedFd;

use rustix::fs::{self, FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::disk::write_all;
use crate::error::FileError;

/// What becomes of zeros that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    Written,
    Holes,
}

/// Zeros become a hole if so many octets, which begin at a multiple of this, are zeros.
const HOLE: usize = 16 << 10;

/// The next hole from `offset` on. None: there is none, or the file system does not tell.
pub fn next(file: &OwnedFd, offset: u64) -> Result<Option<(u64, u64)>, FileError> {
    let size = fs::fstat(file)?.st_size as u64;
    let first = match fs::seek(file, SeekFrom::Hole(offset)) {
        // The end of each file counts as one.
        Ok(first) if first < size => first,
        Ok(_) | Err(Errno::NXIO | Errno::INVAL) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match fs::seek(file, SeekFrom::Data(first)) {
        Ok(end) => Ok(Some((first, end))),
        Err(Errno::NXIO) => Ok(Some((first, size))),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes octets, and makes holes of zeros, also where something else was before.
pub fn write(file: &OwnedFd, mut offset: u64, mut octets: &[u8]) -> Result<(), FileError> {
    let piece = |offset: u64, octets: &[u8]| octets.len().min(HOLE - (offset % HOLE as u64) as usize);
    let is_hole = |octets: &[u8]| octets.len() == HOLE && octets.iter().all(|octet| *octet == 0);
    while !octets.is_empty() {
        let mut len = piece(offset, octets);
        let makes_hole = is_hole(&octets[..len]);
        while len < octets.len() {
            let more = piece(offset + len as u64, &octets[len..]);
            if is_hole(&octets[len..len + more]) != makes_hole {
                break;
            }
            len += more;
        }
        let (now, rest) = octets.split_at(len);
        match makes_hole {
            true => punch(file, offset, now)?,
            false => write_all(file, offset, now)?,
        }
        (offset, octets) = (offset + len as u64, rest);
    }
    Ok(())
}

/// Makes a hole; where the file system cannot, writes the zeros.
fn punch(file: &OwnedFd, offset: u64, zeros: &[u8]) -> Result<(), FileError> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fs::fallocate(file, flags, offset, zeros.len() as u64) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_all(file, offset, zeros),
        outcome => Ok(outcome?),
    }
}
