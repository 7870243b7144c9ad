//! Reads a log without its lock and without changing it, even while another process writes to it.
//!
//! A read may combine two states of the log, which looks like damage. The caller then reads again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::recovery::{Recovered, recover};
use super::scan::scan;
use super::storage::ENDING;
use super::{Damage, File, LogError, Replay, Storage};

/// A directory, read-only.
struct Untouched(PathBuf);

/// A log that was read.
pub struct View(Recovered);

impl View {
    /// Reads the log of a directory. Errors: Damaged, also if a file was used again while it was read.
    pub fn read(path: &Path, replay: &mut dyn Replay) -> Result<View, LogError> {
        let found = recover(&Untouched(path.to_owned()), false, replay)?;
        for (&segment, file) in &found.segments {
            if !file.is_there()? {
                return Err(LogError::Damaged(vec![Damage::Missing { segment }]));
            }
        }
        Ok(View(found))
    }

    /// Visits the kind and payload of each record of a segment. Errors: Damaged, the segment has changed since the log
    /// was read.
    pub fn visit(&self, segment: u64, visit: &mut dyn FnMut(u8, &[u8])) -> Result<(), LogError> {
        let Some(end) = self.0.ends.get(&segment).copied() else { return Ok(()) };
        let Some(file) = self.0.segments.get(&segment) else { return Ok(()) };
        match scan(file, end, false, &mut |_, kind, payload| visit(kind, payload))?.end {
            at if at < end => {
                let file = file.name.clone();
                Err(LogError::Damaged(vec![Damage::Batches { segment, file, at }]))
            }
            _ => Ok(()),
        }
    }
}

impl Storage for Untouched {
    fn list(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().flatten().filter(|name| name.ends_with(ENDING)).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(fs::File::open(self.0.join(name))?))
    }

    fn create(&self, _: &str, _: u64) -> io::Result<Box<dyn File>> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Does nothing: recovery ignores an unfinished file, and it stays.
    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
