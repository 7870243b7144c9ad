//! The limit of the disk: sequential writes, each followed by fdatasync(2), into a preallocated file that was written
//! in full before, like the files of the log.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::words::{cpu_ns, now_ns, number, text};

const FILE_BYTES: u64 = 64 << 20;
/// Offset of the first write: a segment of the log has a page before its batches.
const BEGIN: u64 = 4096;

pub struct Disk {
    path: PathBuf,
    file: File,
    at: u64,
}

impl Disk {
    /// Creates a file of zeros, and syncs it.
    pub fn new(dir: &Path) -> Result<Disk, Box<dyn Error>> {
        fs::create_dir_all(dir)?;
        let path = dir.join("probe");
        let file = OpenOptions::new().create_new(true).write(true).open(&path)?;
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            file.write_all_at(&[0; 1 << 20], at)?;
        }
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
        Ok(Disk { path, file, at: BEGIN })
    }

    /// Writes after the previous write, or from the start if the file has no room left, and syncs.
    pub fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.at + bytes.len() as u64 > FILE_BYTES {
            self.at = BEGIN;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        self.file.sync_data()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The caller removes the directory.
        let _ = fs::remove_file(&self.path);
    }
}

/// Prints `took_ns`, and the `bytes` written.
pub fn main() -> Outcome {
    let (bytes, writes) = (number("bytes")?, number("writes")?);
    let mut disk = Disk::new(Path::new(&text("dir")?))?;
    let body = vec![b'.'; bytes as usize];
    let (begin, cpu) = (now_ns(), cpu_ns());
    for _ in 0..writes {
        disk.append(&body)?;
    }
    println!("took_ns={} bytes={} cpu_ns={}", now_ns() - begin, bytes * writes, cpu_ns() - cpu);
    Ok(())
}
