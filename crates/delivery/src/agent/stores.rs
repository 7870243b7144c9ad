//! What an agent knows of a store.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::Problem;
use super::drain::Drain;
use super::plan::Plan;
use crate::Error;

/// How soon a store is looked at after its process has closed a file of it, and once more if it is still locked: a
/// process that ends closes its files first, and the kernel reports that before it releases the lock.
pub const LOOK_AFTER: Duration = Duration::from_millis(20);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// How long a store may be open without progress while others wait; twice as long each time, up to the maximum. Each
/// opening begins an epoch, and receivers know only the latest ones.
const IDLE_FIRST: Duration = Duration::from_secs(5);
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// The names and modification times of a store's files.
pub type Fingerprint = Vec<(OsString, SystemTime, u64)>;

/// What the agent does with a store.
pub enum StorePhase {
    /// Nothing, until it changes: a process has it open, nothing is pending, or there is a problem.
    Idle,
    /// It is to be read.
    Unread,
    /// A thread reads it.
    Reading,
    /// It has pending messages, and is to be opened when a receiver is there.
    Ready(Plan),
    Open(OpenStore),
}

/// A store that the agent has open.
pub struct OpenStore {
    pub drain: Drain,
    pub plan: Plan,
    /// It is being closed, and not since it is drained.
    pub is_stopped: bool,
    /// The number of pending messages when last looked at, and when it changed.
    pending: u64,
    changed_at: Instant,
    progressed: bool,
}

pub struct StoreEntry {
    pub phase: StorePhase,
    /// The number of its watch; None: it cannot be watched, and is only looked at regularly.
    pub watch: Option<i32>,
    /// When to look at it next.
    pub look_at: Option<Instant>,
    /// It could not be opened: it is not looked at before.
    pub rests_until: Option<Instant>,
    /// It was locked when last looked at because of a change.
    looked_once: bool,
    /// What its files were when it was last read with a result that lasts.
    pub read: Option<Fingerprint>,
    /// Its problem, which was reported.
    pub problem: Option<Problem>,
    /// When it last became ready, for fairness.
    pub ready_since: Instant,
    idle_max: Duration,
}

impl StoreEntry {
    pub fn new(watch: Option<i32>) -> StoreEntry {
        StoreEntry {
            phase: StorePhase::Idle,
            watch,
            look_at: Some(Instant::now()),
            rests_until: None,
            looked_once: false,
            read: None,
            problem: None,
            ready_since: Instant::now(),
            idle_max: IDLE_FIRST,
        }
    }

    /// Something has changed: it is looked at soon.
    pub fn look_soon(&mut self) {
        let soon = Instant::now() + LOOK_AFTER;
        let at = self.rests_until.filter(|until| *until > soon).unwrap_or(soon);
        self.look_at = Some(self.look_at.map_or(at, |before| before.min(at)));
        self.looked_once = false;
    }

    /// A process has it open.
    pub fn is_locked(&mut self) {
        self.phase = StorePhase::Idle;
        self.read = None;
        self.look_at = (!self.looked_once).then(|| Instant::now() + LOOK_AGAIN_AFTER);
        self.looked_once = true;
    }

    pub fn is_ready(&mut self, plan: Plan) {
        (self.phase, self.ready_since) = (StorePhase::Ready(plan), Instant::now());
    }

    /// Notes how much is pending in an open store. Returns true if it made no progress for too long.
    pub fn is_idle(&mut self) -> bool {
        let StorePhase::Open(open) = &mut self.phase else { return false };
        let pending = open.drain.pending();
        if pending != open.pending {
            open.progressed |= pending < open.pending;
            (open.pending, open.changed_at) = (pending, Instant::now());
        }
        !open.is_stopped && open.changed_at.elapsed() >= self.idle_max
    }

    /// It was closed because others waited.
    pub fn was_stopped(&mut self, progressed: bool) {
        self.idle_max = if progressed { IDLE_FIRST } else { (self.idle_max * 2).min(IDLE_MAX) };
    }
}

impl OpenStore {
    pub fn new(drain: Drain, plan: Plan) -> OpenStore {
        let (is_stopped, pending, progressed) = Default::default();
        OpenStore { drain, plan, is_stopped, pending, changed_at: Instant::now(), progressed }
    }

    pub fn has_progressed(&self) -> bool {
        self.progressed
    }

    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.drain.stop();
    }
}

/// Returns true if a process has the store open. It takes the lock for a moment.
fn is_locked(store: &Path) -> io::Result<bool> {
    match File::open(store)?.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What identifies the state of a store's files; None: it has no log.
pub fn fingerprint(store: &Path) -> io::Result<Option<Fingerprint>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) => files.push((entry.file_name(), metadata.modified()?, metadata.len())),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    files.sort_unstable();
    Ok(files.iter().any(|(name, ..)| name.as_encoded_bytes().ends_with(b".log")).then_some(files))
}

/// The directories in a directory.
pub fn entries_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// What a look at a store shows.
pub enum Seen {
    Locked,
    /// It has no log, or is gone.
    NoStore,
    Files(Fingerprint),
}

pub fn look_at(store: &Path) -> Result<Seen, Problem> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(Seen::NoStore),
        kind => Err(Problem::Error(Error::Io(kind))),
    };
    match fs::metadata(store) {
        Ok(metadata) if metadata.uid() != pinnace_sys::process::user() => return Err(Problem::OtherUser),
        Ok(_) => {}
        Err(error) => return failed(error),
    }
    match is_locked(store) {
        Ok(true) => return Ok(Seen::Locked),
        Ok(false) => {}
        Err(error) => return failed(error),
    }
    match fingerprint(store) {
        Ok(files) => Ok(files.map_or(Seen::NoStore, Seen::Files)),
        Err(error) => failed(error),
    }
}
