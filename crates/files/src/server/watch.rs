//! Watches the folders that clients follow, with a thread for each folder.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::lock;
use crate::dialogue::changes::{Changes, Settling};
use crate::error::{Code, FileError};
use crate::tree::{Folder, Hint, TreePath, Watch};

/// The threads that watch folders.
#[derive(Clone, Default)]
pub struct Watchers(Arc<Mutex<Vec<Running>>>);

struct Running {
    stop: Sender<ToWatcher>,
    thread: JoinHandle<()>,
}

enum ToWatcher {
    Hint(Hint),
    Stop,
}

/// Watches one folder.
struct FolderWatcher {
    folder: Arc<dyn Folder>,
    watch: Option<Box<dyn Watch>>,
    settling: Settling,
    changes: Weak<Changes>,
    hints: Receiver<ToWatcher>,
    /// When everything is told again, if hints are missing; and how often.
    rescan_at: Option<Instant>,
    rescan: Duration,
}

impl Watchers {
    /// The changes of a folder, which is watched from the first subscriber on.
    pub fn changes_of(&self, folder: &Arc<dyn Folder>, quiet: Duration, rescan: Duration) -> Arc<Changes> {
        let (watchers, folder) = (self.clone(), folder.clone());
        Arc::new_cyclic(|changes: &Weak<Changes>| {
            let changes = changes.clone();
            Changes::new(Box::new(move || {
                let (settling, (sender, hints)) = (Settling::new(quiet), channel());
                let (folder, changes) = (folder.clone(), changes.clone());
                let watcher =
                    FolderWatcher { folder, watch: None, settling, changes, hints, rescan_at: None, rescan };
                watchers.start(watcher, sender)
            }))
        })
    }

    /// Starts to watch. What the system cannot watch is listed from time to time. Error: Invalid, the folder is none
    /// that changes are known of; Limit, no memory for a thread.
    fn start(&self, mut watcher: FolderWatcher, sender: Sender<ToWatcher>) -> Result<(), FileError> {
        let hints = sender.clone();
        let hint = move |hint| {
            let _ = hints.send(ToWatcher::Hint(hint));
        };
        match watcher.folder.watch(Box::new(hint)) {
            Ok(watch) => watcher.watch = Some(watch),
            Err(error) if error.code == Code::Invalid => return Err(error),
            Err(_) => watcher.be_blind(),
        }
        let thread = pinnace_sys::thread::start("files-watch", move || watcher.run());
        let thread = thread.map_err(|_| FileError::new(Code::Limit, "no memory for a thread"))?;
        lock(&self.0).push(Running { stop: sender, thread });
        Ok(())
    }

    /// Ends all threads.
    pub fn stop(&self) {
        for running in std::mem::take(&mut *lock(&self.0)) {
            let _ = running.stop.send(ToWatcher::Stop);
            let _ = running.thread.join();
        }
    }
}

impl FolderWatcher {
    fn run(mut self) {
        loop {
            let due = self.settling.next_due().into_iter().chain(self.rescan_at).min();
            let hint = match due {
                Some(at) => self.hints.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => self.hints.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match hint {
                Ok(ToWatcher::Hint(hint)) => self.on_hint(hint),
                Ok(ToWatcher::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            while let Ok(next) = self.hints.try_recv() {
                match next {
                    ToWatcher::Hint(hint) => self.on_hint(hint),
                    ToWatcher::Stop => return,
                }
            }
            self.tell();
        }
    }

    fn on_hint(&mut self, hint: Hint) {
        match &hint {
            Hint::Directory(path) | Hint::Named(path) | Hint::Moved { to: path, .. } => self.cover(path),
            Hint::Blind => self.be_blind(),
            Hint::Written(_) | Hint::Settled(_) | Hint::Lost => {}
        }
        self.settling.on_hint(hint, Instant::now());
    }

    /// A directory that is new is listed after it is watched.
    fn cover(&mut self, path: &TreePath) {
        let Some(watch) = self.watch.as_mut().filter(|_| self.folder.directory(path).is_ok()) else { return };
        match watch.cover(path) {
            Err(error) if error.code != Code::NotFound => self.be_blind(),
            _ => {}
        }
    }

    fn be_blind(&mut self) {
        self.rescan_at.get_or_insert_with(|| Instant::now() + self.rescan);
    }

    fn tell(&mut self) {
        let now = Instant::now();
        let settled = self.settling.take(now);
        let is_due = self.rescan_at.is_some_and(|at| at <= now);
        if is_due {
            self.rescan_at = Some(now + self.rescan);
        }
        let Some(changes) = self.changes.upgrade() else { return };
        match settled.filter(|_| !is_due) {
            Some(settled) if settled.is_empty() => {}
            Some(settled) => changes.tell(Some(&settled)),
            None => changes.tell(None),
        }
    }
}
