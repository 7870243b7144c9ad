//! Which stores the agent opens and closes, as a task of an event loop.
//!
//! The task itself neither reads stores nor waits for them: threads do, and report events. So an owner that asks for
//! its store is answered at once.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pinnace_engine::PollTarget;
use pinnace_eventloop::{Interest, Next, Task};
use pinnace_sys::inotify::{Change, Inotify};

use super::drain::Drain;
use super::handover::{OwnerRequest, RequestListener, RequestNews};
use super::plan::{OpenedWatch, Plan, Secrets, problem_of, read};
use super::stores::{Fingerprint, OpenStore, Seen, StoreEntry, StorePhase, entries_of, fingerprint, look_at};
use super::{OnProblem, Problem, Reporter};
use crate::Error;
use crate::environment::random;
use crate::registry::{Id, Members, Watch};

/// Between two looks at all stores, for changes that no notification reports, and for problems that have passed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Between two checks for progress, while stores wait for others to be closed.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The most owners that ask at the same time; others try again a few times.
const REQUESTS_MAX: usize = 256;

/// A directory of stores.
pub struct StoreFolder {
    pub path: PathBuf,
    requests: RequestListener,
    watch: Option<i32>,
    /// Keeps other agents out.
    _lock: File,
}

impl StoreFolder {
    pub fn open(path: &Path) -> Result<StoreFolder, Error> {
        let failed = |error: io::Error| Error::Io(error.kind());
        let lock = File::open(path).map_err(failed)?;
        if fingerprint(path).map_err(failed)?.is_some() {
            return Err(Error::Setting("a store, and not a directory of stores"));
        }
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let requests = RequestListener::open(path).map_err(failed)?;
        Ok(StoreFolder { path: path.to_owned(), requests, watch: None, _lock: lock })
    }
}

/// What threads report.
pub enum Event {
    /// A store was read: what there is to send, and the watches of its registries.
    Read { store: PathBuf, read: Fingerprint, found: Result<(Plan, Vec<OpenedWatch>), Problem> },
    /// A store was closed.
    Closed { store: PathBuf, outcome: Result<(), Error> },
    /// An error of an open store.
    Problem(PathBuf, Error),
}

#[derive(Clone)]
pub enum AgentToken {
    Changes,
    Listener(usize),
    Request(u64),
}

/// A registry that is observed for the sake of stores.
struct Observed {
    watch: Arc<Watch>,
    id: Id,
    members: Arc<Mutex<Arc<Members>>>,
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.watch.unobserve(self.id);
    }
}

/// What the task begins with.
pub struct Setup {
    pub folders: Vec<StoreFolder>,
    pub interest: Interest<AgentToken>,
    pub events: Receiver<Event>,
    pub reporter: Reporter,
    pub secrets: Secrets,
    pub most_open: usize,
    pub on_problem: OnProblem,
}

pub struct AgentTask {
    setup: Setup,
    /// None: this user has too many; stores are looked at regularly.
    inotify: Option<Inotify>,
    watched: HashMap<i32, PathBuf>,
    stores: HashMap<PathBuf, StoreEntry>,
    registries: HashMap<String, Observed>,
    waiting_owners: HashMap<u64, OwnerRequest>,
    last_request: u64,
    is_reading: bool,
    /// When to list the directories again.
    list_at: Instant,
}

impl AgentTask {
    pub fn new(mut setup: Setup) -> io::Result<AgentTask> {
        let inotify = Inotify::new().ok();
        let mut watched = HashMap::new();
        let failed = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        if let Some(inotify) = &inotify {
            setup.interest.add(PollTarget::Fd(inotify.as_raw_fd()), AgentToken::Changes).map_err(failed)?;
        }
        for (index, folder) in setup.folders.iter_mut().enumerate() {
            let requests = folder.requests.listener().as_raw_fd();
            setup.interest.add(PollTarget::Fd(requests), AgentToken::Listener(index)).map_err(failed)?;
            folder.watch = inotify.as_ref().and_then(|inotify| inotify.watch_entries(&folder.path).ok());
            watched.extend(folder.watch.map(|number| (number, folder.path.clone())));
        }
        let (stores, registries, waiting_owners, last_request, is_reading) = Default::default();
        let list_at = Instant::now();
        Ok(AgentTask {
            setup,
            inotify,
            watched,
            stores,
            registries,
            waiting_owners,
            last_request,
            is_reading,
            list_at,
        })
    }

    fn changed(&mut self) {
        let changes = self.inotify.as_ref().map_or(Ok(Vec::new()), Inotify::changes);
        // A failure to read is as a loss of notifications.
        for change in changes.unwrap_or_else(|_| vec![Change::Overflow]) {
            match change {
                Change::Overflow => self.list_at = Instant::now(),
                Change::In(number, name) => match self.watched.get(&number) {
                    Some(path) if self.stores.contains_key(path) => {
                        self.stores.get_mut(path).into_iter().for_each(StoreEntry::look_soon);
                    }
                    Some(folder) => {
                        // What has this name now may be another directory, which needs a watch of its own.
                        let path = name.map(|name| folder.join(name));
                        path.iter().for_each(|path| self.forget(path));
                        self.list_at = Instant::now();
                    }
                    None => {}
                },
            }
        }
    }

    /// Forgets a store that nothing is done with.
    fn forget(&mut self, store: &Path) {
        if !self.stores.get(store).is_some_and(|entry| matches!(entry.phase, StorePhase::Idle)) {
            return;
        }
        if let Some(number) = self.stores.remove(store).and_then(|entry| entry.watch) {
            self.watched.remove(&number);
            self.inotify.iter().for_each(|inotify| inotify.unwatch(number));
        }
    }

    /// Finds new stores, and forgets those that were removed.
    fn list(&mut self) {
        let mut found = Vec::new();
        for folder in &self.setup.folders {
            match entries_of(&folder.path) {
                Ok(entries) => found.extend(entries),
                Err(error) => {
                    let error = Problem::Error(Error::Io(error.kind()));
                    (self.setup.on_problem)(&folder.path, &error);
                    found.extend(self.stores.keys().filter(|store| store.starts_with(&folder.path)).cloned());
                }
            }
        }
        let is_gone =
            |path: &PathBuf, of: &StoreEntry| matches!(of.phase, StorePhase::Idle) && !found.contains(path);
        let gone: Vec<PathBuf> =
            self.stores.iter().filter(|(path, of)| is_gone(path, of)).map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.forget(path));
        for path in found {
            if let Some(entry) = self.stores.get_mut(&path) {
                entry.look_soon();
                continue;
            }
            let watch = self.inotify.as_ref().and_then(|inotify| inotify.watch_closed_files(&path).ok());
            self.watched.extend(watch.map(|number| (number, path.clone())));
            self.stores.insert(path, StoreEntry::new(watch));
        }
    }

    /// Looks whether a store is to be read.
    fn look(&mut self, path: &Path) {
        let is_asked = self.is_asked_for(path);
        let Some(entry) = self.stores.get_mut(path) else { return };
        entry.look_at = None;
        if is_asked || matches!(entry.phase, StorePhase::Open(_) | StorePhase::Reading | StorePhase::Unread) {
            return;
        }
        let seen = match look_at(path) {
            Ok(Seen::Locked) => return entry.is_locked(),
            Ok(Seen::Files(seen)) => seen,
            Ok(Seen::NoStore) => {
                entry.phase = StorePhase::Idle;
                return;
            }
            Err(problem) => {
                entry.phase = StorePhase::Idle;
                return self.has_problem(path, problem);
            }
        };
        if entry.read.as_ref() != Some(&seen) {
            entry.phase = StorePhase::Unread;
        }
    }

    /// Reads the next store.
    fn read_next(&mut self) {
        if self.is_reading {
            return;
        }
        let Some((path, entry)) =
            self.stores.iter_mut().find(|(_, entry)| matches!(entry.phase, StorePhase::Unread))
        else {
            return;
        };
        let (store, secrets) = (path.clone(), self.setup.secrets.clone());
        let reporter = self.setup.reporter.clone();
        let read = move || {
            let (read, found) = read(&store, &secrets);
            reporter.tell(Event::Read { store, read, found });
        };
        match pinnace_sys::thread::start("pinnace-look", read) {
            Ok(_) => (entry.phase, self.is_reading) = (StorePhase::Reading, true),
            Err(error) => {
                let path = path.clone();
                entry.phase = StorePhase::Idle;
                self.has_problem(&path, Problem::Error(Error::Io(error.kind())));
            }
        }
    }

    fn was_read(
        &mut self,
        store: &Path,
        read: Fingerprint,
        found: Result<(Plan, Vec<OpenedWatch>), Problem>,
    ) {
        self.is_reading = false;
        let Some(entry) = self.stores.get_mut(store) else { return };
        entry.phase = StorePhase::Idle;
        match found {
            Ok((plan, watches)) => {
                entry.read = Some(read);
                if !plan.clients.is_empty() {
                    entry.is_ready(plan);
                }
                watches.into_iter().for_each(|(url, watch)| self.observe(url, watch));
            }
            Err(problem) => {
                // Damage stays; what else it was may pass without a change of the files.
                let lasts = matches!(problem, Problem::Error(Error::Damaged(_)));
                entry.read = lasts.then_some(read);
                self.has_problem(store, problem);
            }
        }
    }

    fn observe(&mut self, url: String, watch: Arc<Watch>) {
        let Ok(id) = random() else { return };
        self.registries.entry(url).or_insert_with(|| {
            let members = Arc::new(Mutex::new(Arc::default()));
            let (known, doorbell) = (members.clone(), self.setup.reporter.doorbell.clone());
            let tell = move |all: &Arc<Members>| {
                *known.lock().unwrap_or_else(PoisonError::into_inner) = all.clone();
                doorbell.ring();
            };
            watch.observe(id, Box::new(tell), Default::default(), Duration::ZERO);
            Observed { watch, id, members }
        });
    }

    /// Reports a problem, unless it is the same as before.
    fn has_problem(&mut self, store: &Path, problem: Problem) {
        let Some(entry) = self.stores.get_mut(store) else { return };
        if entry.problem.as_ref() != Some(&problem) {
            (self.setup.on_problem)(store, &problem);
            entry.problem = Some(problem);
        }
    }

    fn is_asked_for(&self, store: &Path) -> bool {
        self.waiting_owners.values().any(|request| request.store.as_deref() == Some(store))
    }

    /// Returns true if a receiver is there for a pending message of a store.
    fn has_receiver(&self, plan: &Plan) -> bool {
        plan.clients.iter().any(|client| {
            let observed = match client.registry(&self.setup.secrets) {
                Ok(url) => url.and_then(|url| self.registries.get(&url)),
                Err(_) => return false,
            };
            let members =
                observed.map(|of| of.members.lock().unwrap_or_else(PoisonError::into_inner).clone());
            client.has_receiver(members.as_deref())
        })
    }

    /// Opens the stores that are ready, those first that have been ready for longest. Returns true if some have to wait
    /// until others are closed.
    fn open_ready(&mut self) -> bool {
        let ready = self.stores.iter().filter_map(|(path, entry)| match &entry.phase {
            StorePhase::Ready(plan) if !self.is_asked_for(path) && self.has_receiver(plan) => {
                Some((entry.ready_since, path.clone()))
            }
            _ => None,
        });
        let mut ready: Vec<(Instant, PathBuf)> = ready.collect();
        ready.sort_unstable();
        let open = self.stores.values().filter(|entry| matches!(entry.phase, StorePhase::Open(_))).count();
        let room = self.setup.most_open.saturating_sub(open);
        ready.iter().take(room).for_each(|(_, path)| self.open(path));
        ready.len() > room
    }

    fn open(&mut self, path: &Path) {
        let Some(entry) = self.stores.get_mut(path) else { return };
        let StorePhase::Ready(plan) = std::mem::replace(&mut entry.phase, StorePhase::Idle) else { return };
        let builders: Result<Vec<_>, _> = plan
            .clients
            .iter()
            .map(|client| client.builder(path, &self.setup.secrets).map_err(|missing| (client, missing)))
            .collect();
        let problem = match builders {
            Ok(builders) => match Drain::start(path, builders, &self.setup.reporter) {
                Ok(drain) => {
                    entry.phase = StorePhase::Open(OpenStore::new(drain, plan));
                    return;
                }
                Err(error) => Problem::Error(Error::Io(error.kind())),
            },
            Err((client, missing)) => problem_of(&client.name, missing),
        };
        self.cannot_open(path, problem);
    }

    /// It is tried again later, since the cause may pass without a change of the store.
    fn cannot_open(&mut self, store: &Path, problem: Problem) {
        if let Some(entry) = self.stores.get_mut(store) {
            (entry.phase, entry.read) = (StorePhase::Idle, None);
            entry.look_at = Some(Instant::now() + LOOK_EVERY);
            entry.rests_until = entry.look_at;
        }
        self.has_problem(store, problem);
    }

    fn was_closed(&mut self, store: &Path, outcome: Result<(), Error>) {
        let is_asked = self.is_asked_for(store);
        let Some(entry) = self.stores.get_mut(store) else { return };
        if let StorePhase::Open(open) = std::mem::replace(&mut entry.phase, StorePhase::Idle)
            && open.is_stopped
            && !is_asked
        {
            entry.was_stopped(open.has_progressed());
            entry.is_ready(open.plan);
        }
        entry.read = None;
        entry.look_soon();
        match outcome {
            // Its owner was faster.
            Err(Error::InUse) => entry.is_locked(),
            Err(error) => self.cannot_open(store, Problem::Error(error)),
            Ok(()) => entry.problem = None,
        }
        for request in self.waiting_owners.values().filter(|request| request.store.as_deref() == Some(store))
        {
            request.answer(true);
        }
    }

    fn accept(&mut self, folder: usize) {
        while let Some(request) = self.setup.folders[folder].requests.accept() {
            if self.waiting_owners.len() >= REQUESTS_MAX {
                // Its owner sees the end of the connection.
                continue;
            }
            self.last_request += 1;
            let (number, target) = (self.last_request, PollTarget::Fd(request.connection().as_raw_fd()));
            if self.setup.interest.add(target, AgentToken::Request(number)).is_ok() {
                self.waiting_owners.insert(number, request);
                self.receive(number);
            }
        }
    }

    fn receive(&mut self, number: u64) {
        let Some(request) = self.waiting_owners.get_mut(&number) else { return };
        match request.receive() {
            RequestNews::Nothing => {}
            RequestNews::Question => {
                match request.store.as_ref().and_then(|store| self.stores.get_mut(store)) {
                    Some(StoreEntry { phase: StorePhase::Open(open), .. }) => open.stop(),
                    _ => request.answer(false),
                }
            }
            RequestNews::End => {
                let Some(request) = self.waiting_owners.remove(&number) else { return };
                let _ = self.setup.interest.remove(PollTarget::Fd(request.connection().as_raw_fd()));
                if let Some(entry) = request.store.as_ref().and_then(|store| self.stores.get_mut(store)) {
                    entry.look_soon();
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Read { store, read, found } => self.was_read(&store, read, found),
            Event::Closed { store, outcome } => self.was_closed(&store, outcome),
            Event::Problem(store, error) => {
                self.has_problem(&store, Problem::Error(error.clone()));
                if let Some(StoreEntry { phase: StorePhase::Open(open), .. }) = self.stores.get_mut(&store)
                    && matches!(error, Error::Failed(_))
                {
                    open.drain.stop();
                }
            }
        }
    }
}

impl Task for AgentTask {
    type Token = AgentToken;
    type Command = ();

    fn on_ready(&mut self, token: AgentToken) {
        match token {
            AgentToken::Changes => self.changed(),
            AgentToken::Listener(folder) => self.accept(folder),
            AgentToken::Request(number) => self.receive(number),
        }
    }

    fn on_command(&mut self, (): ()) {}

    fn work(&mut self) -> Next {
        while let Ok(event) = self.setup.events.try_recv() {
            self.on_event(event);
        }
        let now = Instant::now();
        if self.list_at <= now {
            self.list();
            self.list_at = now + LOOK_EVERY;
        }
        let due = self.stores.iter().filter(|(_, entry)| entry.look_at.is_some_and(|at| at <= now));
        for path in due.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.look(&path);
        }
        self.read_next();
        let some_wait = self.open_ready();
        let mut next = self.list_at;
        if some_wait {
            if let Some(StoreEntry { phase: StorePhase::Open(open), .. }) =
                self.stores.values_mut().find_map(|entry| entry.is_idle().then_some(entry))
            {
                open.stop();
            }
            next = next.min(now + PROGRESS_EVERY);
        }
        Next::Wait(self.stores.values().filter_map(|entry| entry.look_at).chain([next]).min())
    }
}

impl Drop for AgentTask {
    /// Closes all stores before the connections of those that ask for them.
    fn drop(&mut self) {
        for entry in self.stores.values() {
            if let StorePhase::Open(open) = &entry.phase {
                open.drain.stop();
            }
        }
        self.stores.clear();
    }
}
