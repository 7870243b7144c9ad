//! A storage in memory that fails as disks do: a power cut loses unsynced sectors, all or some of them; an operation
//! fails; bytes rot.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::log::storage::{File, Storage};

/// The unit of an atomic write.
const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub struct Faulty(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    files: BTreeMap<String, Content>,
    /// Counts writes, syncs and creations down to the one that fails, with this error.
    fails_in: Option<(u64, ErrorKind)>,
    /// If set, no file can be created.
    refuses: Option<ErrorKind>,
    /// The most bytes of all files.
    space: Option<u64>,
    random: u64,
}

#[derive(Default, Clone)]
struct Content {
    /// The content as read now.
    seen: Vec<u8>,
    /// The content certainly on the disk.
    durable: Vec<u8>,
    /// Unsynced writes: offset and length.
    unsynced: Vec<(usize, usize)>,
}

struct Open {
    disk: Faulty,
    name: String,
}

impl Faulty {
    pub fn new(seed: u64) -> Faulty {
        let faulty = Faulty::default();
        faulty.disk().random = seed | 1;
        faulty
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    /// Keeps some of the sectors written since the last sync, and loses the others.
    pub fn cut_power(&self) {
        let mut disk = self.disk();
        let Disk { files, random, .. } = &mut *disk;
        for content in files.values_mut() {
            let kept = next(random) % 3;
            for (at, len) in std::mem::take(&mut content.unsynced) {
                let sectors = at / SECTOR..=(at + len - 1) / SECTOR;
                for sector in sectors {
                    if kept == 0 || (kept == 1 && next(random).is_multiple_of(2)) {
                        continue;
                    }
                    let range = sector * SECTOR..((sector + 1) * SECTOR).min(content.seen.len());
                    content.durable[range.clone()].copy_from_slice(&content.seen[range]);
                }
            }
            content.seen.clone_from(&content.durable);
        }
        disk.fails_in = None;
    }

    /// The disk after a power cut. All later operations on `self` fail.
    pub fn left_by_power(&self) -> Faulty {
        let mut disk = self.disk();
        disk.fails_in = Some((0, ErrorKind::Other));
        let (files, random) = (disk.files.clone(), next(&mut disk.random));
        drop(disk);
        let left = Faulty(Arc::new(Mutex::new(Disk { files, random, ..Disk::default() })));
        left.cut_power();
        left
    }

    /// Returns true if all operations fail from now on.
    pub fn is_dead(&self) -> bool {
        matches!(self.disk().fails_in, Some((0, _)))
    }

    /// Makes the operation after `count` more fail.
    pub fn fail_in(&self, count: u64, kind: ErrorKind) {
        self.disk().fails_in = Some((count, kind));
    }

    /// Makes creation of files fail with this error.
    pub fn refuse_files(&self, kind: Option<ErrorKind>) {
        self.disk().refuses = kind;
    }

    pub fn set_space(&self, bytes: Option<u64>) {
        self.disk().space = bytes;
    }

    /// All files, with their bytes.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.disk().files.iter().map(|(name, content)| (name.clone(), content.seen.clone())).collect()
    }

    /// Changes a file, including what is on the disk.
    pub fn spoil(&self, name: &str, spoil: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        let content = disk.files.get_mut(name).unwrap();
        spoil(&mut content.seen);
        content.durable.clone_from(&content.seen);
        content.unsynced.clear();
    }

    /// An independent copy.
    pub fn copy(&self) -> Faulty {
        let disk = self.disk();
        let files = disk.files.clone();
        Faulty(Arc::new(Mutex::new(Disk { files, random: disk.random, ..Disk::default() })))
    }
}

impl Disk {
    fn step(&mut self) -> io::Result<()> {
        if let Some((left, kind)) = &mut self.fails_in {
            if *left == 0 {
                return Err((*kind).into());
            }
            *left -= 1;
        }
        Ok(())
    }

    fn file(&mut self, name: &str) -> io::Result<&mut Content> {
        self.files.get_mut(name).ok_or(ErrorKind::NotFound.into())
    }
}

/// xorshift64.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Storage for Faulty {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk().files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.disk().file(name)?;
        Ok(Box::new(Open { disk: self.clone(), name: name.to_owned() }))
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>> {
        let mut disk = self.disk();
        disk.step()?;
        if let Some(kind) = disk.refuses {
            return Err(kind.into());
        }
        let taken: u64 = disk.files.values().map(|content| content.seen.len() as u64).sum();
        if disk.space.is_some_and(|space| taken + bytes > space) {
            return Err(ErrorKind::StorageFull.into());
        }
        let zeros = vec![0; bytes as usize];
        let content = Content { seen: zeros.clone(), durable: zeros, unsynced: Vec::new() };
        disk.files.insert(name.to_owned(), content);
        Ok(Box::new(Open { disk: self.clone(), name: name.to_owned() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.files.remove(name).map(|_| ()).ok_or(ErrorKind::NotFound.into())
    }
}

impl File for Open {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.disk().file(&self.name)?.seen.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        let content = disk.file(&self.name)?;
        let from = content.seen.get(at as usize..at as usize + into.len());
        into.copy_from_slice(from.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        disk.step()?;
        let (at, content) = (at as usize, disk.file(&self.name)?);
        assert!(at + bytes.len() <= content.seen.len(), "a log stays within its files");
        content.seen[at..at + bytes.len()].copy_from_slice(bytes);
        if !bytes.is_empty() {
            content.unsynced.push((at, bytes.len()));
        }
        Ok(())
    }

    /// A failed sync forgets the unsynced data, as kernels do.
    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk.disk();
        let outcome = disk.step();
        let content = disk.file(&self.name)?;
        let unsynced = std::mem::take(&mut content.unsynced);
        outcome?;
        for (at, len) in unsynced {
            content.durable[at..at + len].copy_from_slice(&content.seen[at..at + len]);
        }
        Ok(())
    }
}
