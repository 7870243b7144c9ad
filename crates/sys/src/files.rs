//! What std does not say of files.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statvfs, statx};

use crate::Errno;

/// The number of names of an open file; 0: it was removed.
///
/// Only this is asked for. A file whose times are asked for gets new ones with its next write, by a finer clock (Linux
/// 6.13), and each sync then writes them too.
pub fn link_count(file: impl AsFd) -> Result<u32, Errno> {
    Ok(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK)?.stx_nlink)
}

/// Total bytes of the file system that holds `path` (statvfs(3)); 0: it does not tell.
pub fn file_system_bytes(path: &Path) -> Result<u64, Errno> {
    let size = statvfs(path)?;
    Ok(size.f_blocks.saturating_mul(size.f_frsize))
}
