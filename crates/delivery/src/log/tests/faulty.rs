//! A storage in memory that fails as disks do: a power cut loses unsynced sectors, all or some of them; an operation
//! fails; bytes rot.

use std::collections::{BTreeMap, BTreeSet};
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

/// Sectors by number; those that are missing are zeros.
type Sectors = BTreeMap<usize, Arc<[u8; SECTOR]>>;

#[derive(Default, Clone)]
struct Content {
    len: usize,
    /// The content as read now.
    seen: Sectors,
    /// The content certainly on the disk.
    durable: Sectors,
    /// Sectors written since the last sync.
    unsynced: BTreeSet<usize>,
}

impl Content {
    fn read(&self, into: &mut [u8], at: usize) {
        into.fill(0);
        let end = at + into.len();
        for (number, sector) in self.seen.range(at / SECTOR..end.div_ceil(SECTOR)) {
            let begin = number * SECTOR;
            let (from, to) = (begin.max(at), (begin + SECTOR).min(end));
            into[from - at..to - at].copy_from_slice(&sector[from - begin..to - begin]);
        }
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        for number in at / SECTOR..end.div_ceil(SECTOR) {
            let begin = number * SECTOR;
            let (from, to) = (begin.max(at), (begin + SECTOR).min(end));
            let sector = Arc::make_mut(self.seen.entry(number).or_insert_with(|| Arc::new([0; SECTOR])));
            sector[from - begin..to - begin].copy_from_slice(&bytes[from - at..to - at]);
            self.unsynced.insert(number);
        }
    }

    /// Brings a sector to the disk.
    fn keep(&mut self, number: usize) {
        if let Some(sector) = self.seen.get(&number) {
            self.durable.insert(number, sector.clone());
        }
    }
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
            for sector in std::mem::take(&mut content.unsynced) {
                if kept == 2 || (kept == 1 && !next(random).is_multiple_of(2)) {
                    content.keep(sector);
                }
            }
            content.seen.clone_from(&content.durable);
        }
        disk.fails_in = None;
    }

    /// The disk after its process was killed: everything written is there. All later operations on `self` fail.
    pub fn left_by_kill(&self) -> Faulty {
        let left = self.copy();
        self.disk().fails_in = Some((0, ErrorKind::Other));
        left
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

    /// Ends what `fail_in` began, unless the disk is dead.
    pub fn stop_failing(&self) {
        let mut disk = self.disk();
        disk.fails_in = disk.fails_in.filter(|(left, _)| *left == 0);
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
        let all = |content: &Content| {
            let mut bytes = vec![0; content.len];
            content.read(&mut bytes, 0);
            bytes
        };
        self.disk().files.iter().map(|(name, content)| (name.clone(), all(content))).collect()
    }

    /// Changes a file, including what is on the disk.
    pub fn spoil(&self, name: &str, spoil: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        let content = disk.files.get_mut(name).unwrap();
        let mut bytes = vec![0; content.len];
        content.read(&mut bytes, 0);
        spoil(&mut bytes);
        (content.len, content.seen) = (bytes.len(), Sectors::new());
        content.write(&bytes, 0);
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
        if disk.files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if let Some(kind) = disk.refuses {
            return Err(kind.into());
        }
        let taken: u64 = disk.files.values().map(|content| content.len as u64).sum();
        if disk.space.is_some_and(|space| taken + bytes > space) {
            return Err(ErrorKind::StorageFull.into());
        }
        disk.files.insert(name.to_owned(), Content { len: bytes as usize, ..Content::default() });
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
        Ok(self.disk.disk().file(&self.name)?.len as u64)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        let content = disk.file(&self.name)?;
        if at as usize + into.len() > content.len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        content.read(into, at as usize);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        disk.step()?;
        let (at, content) = (at as usize, disk.file(&self.name)?);
        assert!(at + bytes.len() <= content.len, "a log stays within its files");
        content.write(bytes, at);
        Ok(())
    }

    /// A failed sync forgets the unsynced data, as kernels do.
    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk.disk();
        let outcome = disk.step();
        let content = disk.file(&self.name)?;
        let unsynced = std::mem::take(&mut content.unsynced);
        outcome?;
        unsynced.into_iter().for_each(|sector| content.keep(sector));
        Ok(())
    }
}
