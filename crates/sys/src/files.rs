//! What std does not say of files.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::Errno;

/// The number of names of an open file; 0: it was removed.
///
/// Only this is asked for. A file whose times are asked for gets new ones with its next write, by a finer clock (Linux
/// 6.13), and each sync then writes them too.
pub fn link_count(file: impl AsFd) -> Result<u32, Errno> {
    Ok(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK)?.stx_nlink)
}
