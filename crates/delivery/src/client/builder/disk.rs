//! The disk limit of a store whose client sets none.

use std::path::Path;

use super::Builder;
use crate::Error;

/// The smallest disk limit of a store, in bytes.
pub(super) const LEAST: u64 = 4 << 20;
/// The largest default, in bytes.
const DEFAULT_MOST: u64 = 4 << 30;
/// The default is the file system's size divided by this.
const SHARES: u64 = 10;

impl Builder {
    /// Sets the default for the store in `path`, if no limit was set. Errors: Io, the file system cannot be asked.
    pub(super) fn choose_disk_limit(&mut self, path: &Path) -> Result<(), Error> {
        if self.disk_limit.is_none() {
            self.disk_limit = Some(default_for(file_system_bytes(path)?));
        }
        Ok(())
    }

    /// In bytes; u64::MAX: without limit, also as long as no default was chosen.
    pub(super) fn most_on_disk(&self) -> u64 {
        self.disk_limit.unwrap_or(u64::MAX)
    }
}

/// 0: the size is not known; a tmpfs without a limit and some network file systems do not tell it.
fn default_for(file_system_bytes: u64) -> u64 {
    match file_system_bytes {
        0 => DEFAULT_MOST,
        bytes => (bytes / SHARES).clamp(LEAST, DEFAULT_MOST),
    }
}

/// The size of the file system that holds `path`, or will: of the first of its parents that exists.
fn file_system_bytes(path: &Path) -> Result<u64, Error> {
    let absolute = std::path::absolute(path).map_err(|error| Error::Io(error.kind()))?;
    let existing = absolute.ancestors().find(|parent| parent.exists()).unwrap_or(Path::new("/"));
    pinnace_sys::files::file_system_bytes(existing)
        .map_err(|error| Error::Io(std::io::Error::from(error).kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_file_system_is_the_default() {
        for (bytes, limit) in [
            (0, 4 << 30),
            (1, 4 << 20),
            (100 << 20, 10 << 20),
            (10 << 30, 1 << 30),
            (40 << 30, 4 << 30),
            (u64::MAX, 4 << 30),
        ] {
            assert_eq!(default_for(bytes), limit, "{bytes}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_yet_has_the_file_system_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let size = |path: &Path| file_system_bytes(path).unwrap();
        assert_eq!(size(&dir.path().join("not/there")), size(dir.path()));
    }
}
