//! The thread that calls a registry, for all clients of this process that use it.
//!
//! Only this thread calls the registry, so a hanging registry blocks no other thread, and connected clients go on. It
//! renews leases in time, claims a name again if its lease was lost and no other client has it, and tells each client
//! the members when they change. An unreachable registry is retried; meanwhile a client counts as joined, and can ask
//! for the error ([`Trouble`]).

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::{Entry, Id, Member, Members, Registry, RegistryError, open};
use crate::environment::now;
use crate::process::PerProcess;

/// Between two polls for members.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// A lease is renewed this many times before it would end.
const RENEWALS: u32 = 4;
/// Before a failed call is retried.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// The most names claimed again before other work has its turn.
const CLAIMS_AT_ONCE: usize = 100;
/// How long joining or changing, and leaving, wait for the registry; and how long dropping the last handle waits for
/// the thread.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Called with all members.
pub type MembersCallback = Box<dyn Fn(&Arc<Members>) + Send>;

/// Why a client is not registered, or does not know the members; None: all is well.
#[derive(Clone, Default)]
pub struct Trouble(Arc<Mutex<Option<RegistryError>>>);

impl Trouble {
    pub fn current(&self) -> Option<RegistryError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, error: Option<RegistryError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// Controls the thread, which ends when this is dropped.
pub struct Watch {
    jobs: Mutex<Option<Sender<Job>>>,
    worker: Worker,
}

/// What calls the registry.
enum Worker {
    /// The thread. The channel carries no values, and is disconnected when the thread ends.
    Thread(Mutex<Receiver<()>>),
    /// No thread: the simulator calls `Watch::step`.
    #[cfg(test)]
    Stepped(Mutex<Stepped>),
}

#[cfg(test)]
struct Stepped {
    watcher: Watcher,
    jobs: Receiver<Job>,
    /// The registry answers nobody: jobs wait.
    hangs: bool,
}

enum Job {
    Join { entry: Entry, tell: MembersCallback, trouble: Trouble, reply: Reply },
    Change { entry: Entry, reply: Reply },
    Leave { name: String, id: Id, keeps_topics: bool, reply: Reply },
    Observe { observer: Observer, reply: Reply },
    Unobserve { id: Id },
}

type Reply = Sender<Result<(), RegistryError>>;

/// A client that has joined.
struct Joined {
    entry: Entry,
    /// The entry as others see it.
    member: Member,
    tell: MembersCallback,
    trouble: Trouble,
    /// The entry was claimed, and the name is not known to be lost.
    claimed: bool,
    /// Why its last call failed.
    error: Option<RegistryError>,
    /// When to renew or claim next.
    due: Instant,
    /// When it was last claimed again because the registry had a different entry.
    corrected: Option<Instant>,
}

/// A client that is told the members, and is none of them.
struct Observer {
    id: Id,
    tell: MembersCallback,
    trouble: Trouble,
}

/// Running watches, by the registry's address.
static RUNNING: PerProcess<HashMap<String, Weak<Watch>>> = PerProcess::new();

impl Watch {
    /// The watch of a registry, which is opened if no other client of this process has it open.
    pub fn open(url: &str) -> Result<Arc<Watch>, RegistryError> {
        RUNNING.with(|running| match running.get(url).and_then(Weak::upgrade) {
            Some(watch) => Ok(watch),
            None => {
                let watch = Watch::start(url)?;
                running.insert(url.to_owned(), Arc::downgrade(&watch));
                Ok(watch)
            }
        })
    }

    fn start(url: &str) -> Result<Arc<Watch>, RegistryError> {
        let (registry, (jobs, work), (alive, ended)) = (open(url)?, channel(), channel());
        let watcher = Watcher::new(registry);
        let started = pinnace_sys::thread::start("pinnace-names", move || {
            watcher.run(&work);
            drop(alive);
        });
        started.map_err(|error| RegistryError::io(&error, "starting a thread"))?;
        Ok(Arc::new(Watch { jobs: Mutex::new(Some(jobs)), worker: Worker::Thread(Mutex::new(ended)) }))
    }

    /// A watch without a thread.
    #[cfg(test)]
    pub fn stepped(registry: Box<dyn Registry>) -> Arc<Watch> {
        let (sender, jobs) = channel();
        let watcher = Watcher::new(registry);
        let worker = Worker::Stepped(Mutex::new(Stepped { watcher, jobs, hangs: false }));
        Arc::new(Watch { jobs: Mutex::new(Some(sender)), worker })
    }

    /// Does what the thread does each time that it wakes up.
    #[cfg(test)]
    pub fn step(&self) {
        let Worker::Stepped(stepped) = &self.worker else { return };
        let mut stepped = stepped.lock().unwrap_or_else(PoisonError::into_inner);
        let Stepped { watcher, jobs, hangs: false } = &mut *stepped else { return };
        jobs.try_iter().for_each(|job| watcher.on(job));
        watcher.work();
    }

    #[cfg(test)]
    pub fn set_hangs(&self, hangs: bool) {
        if let Worker::Stepped(stepped) = &self.worker {
            stepped.lock().unwrap_or_else(PoisonError::into_inner).hangs = hangs;
        }
    }

    /// Claims a name, now, or once the registry is reachable. Until `leave`, `tell` is called with the members, and
    /// `trouble` is kept up to date; if the registry answers, the first call of `tell` is before this returns. Error:
    /// one that a retry would not fix.
    pub fn join(&self, entry: Entry, tell: MembersCallback, trouble: Trouble) -> Result<(), RegistryError> {
        entry.check()?;
        trouble.set(Some(RegistryError::Unreachable("no answer yet".to_owned())));
        self.ask(JOIN_TIMEOUT, |reply| Job::Join { entry, tell, trouble, reply })
    }

    /// Changes the entry of a client that has joined, now or once the registry is reachable.
    pub fn change(&self, entry: Entry) -> Result<(), RegistryError> {
        entry.check()?;
        self.ask(JOIN_TIMEOUT, |reply| Job::Change { entry, reply })
    }

    /// Gives the name back. `keeps_topics`: the client still listens on them, and is away. A registry that does not
    /// answer keeps the name until the lease ends.
    pub fn leave(&self, name: &str, id: Id, keeps_topics: bool) {
        let _ = self.ask(LEAVE_TIMEOUT, |reply| {
            let name = name.to_owned();
            Job::Leave { name, id, keeps_topics, reply }
        });
    }

    /// Has `tell` called with the members, and `trouble` kept up to date, until `unobserve` with the same id, which is
    /// not registered. Returns once `tell` was called, or after `patience`.
    pub fn observe(&self, id: Id, tell: MembersCallback, trouble: Trouble, patience: Duration) {
        trouble.set(Some(RegistryError::Unreachable("no answer yet".to_owned())));
        let observer = Observer { id, tell, trouble };
        let _ = self.ask(patience, |reply| Job::Observe { observer, reply });
    }

    /// Ends `observe`, without waiting for the registry: `tell` may still be called a last time.
    pub fn unobserve(&self, id: Id) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = jobs.send(Job::Unobserve { id });
        }
    }

    /// Sends the thread a job. Ok also means: not done yet, but it will be.
    fn ask(&self, patience: Duration, job: impl FnOnce(Reply) -> Job) -> Result<(), RegistryError> {
        let (reply, answer) = channel();
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // A thread that has ended drops the job, and with it the reply.
            let _ = jobs.send(job(reply));
        }
        #[cfg(test)]
        let patience = if matches!(self.worker, Worker::Stepped(_)) { Duration::ZERO } else { patience };
        #[cfg(test)]
        self.step();
        match answer.recv_timeout(patience) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                let text = "the thread that asks the registry has ended".to_owned();
                Err(RegistryError::Io { kind: ErrorKind::BrokenPipe, text })
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        match &mut self.worker {
            // If the registry hangs, the thread ends once it answers or the call times out.
            Worker::Thread(ended) => {
                let _ = ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(END_TIMEOUT);
            }
            #[cfg(test)]
            Worker::Stepped(_) => {}
        }
    }
}

struct Watcher {
    registry: Box<dyn Registry>,
    joined: Vec<Joined>,
    observers: Vec<Observer>,
    members: Arc<Members>,
    /// Why the members are not known.
    blind: Option<RegistryError>,
}

impl Watcher {
    fn new(registry: Box<dyn Registry>) -> Watcher {
        let (joined, observers, members, blind) = Default::default();
        Watcher { registry, joined, observers, members, blind }
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(ASK_EVERY) {
                Ok(job) => self.on(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.work();
        }
    }

    /// Keeps the names and updates the members.
    fn work(&mut self) {
        let now = now();
        if self.joined.iter().any(|joined| !joined.claimed && joined.due <= now) {
            // The entry to be claimed must have a later version than the one that the registry shows.
            self.update();
        }
        self.keep();
        self.update();
        self.joined.iter().for_each(|joined| joined.say(self.blind.as_ref()));
        self.observers.iter().for_each(|observer| observer.say(self.blind.as_ref()));
    }

    fn on(&mut self, job: Job) {
        // The caller may have stopped waiting.
        let _ = match job {
            Job::Join { entry, tell, trouble, reply } => reply.send(self.join(entry, tell, trouble)),
            Job::Change { entry, reply } => reply.send(self.change(entry)),
            Job::Leave { name, id, keeps_topics, reply } => {
                self.joined.retain(|joined| joined.entry.name != name || joined.entry.id != id);
                reply.send(match keeps_topics {
                    true => self.registry.detach(&name, &id),
                    false => self.registry.release(&name, &id),
                })
            }
            Job::Observe { observer, reply } => {
                self.observe(observer);
                reply.send(Ok(()))
            }
            Job::Unobserve { id } => {
                self.observers.retain(|observer| observer.id != id);
                return;
            }
        };
    }

    fn observe(&mut self, observer: Observer) {
        self.update();
        (observer.tell)(&self.members);
        observer.say(self.blind.as_ref());
        self.observers.push(observer);
    }

    fn join(&mut self, entry: Entry, tell: MembersCallback, trouble: Trouble) -> Result<(), RegistryError> {
        self.update();
        let entry = self.with_later_version(entry);
        let (member, due) = (entry.to_member(), now());
        let mut joined =
            Joined { entry, member, tell, trouble, claimed: false, error: None, due, corrected: None };
        let claimed = self.registry.claim(&joined.entry);
        joined.note(claimed);
        if let Some(error) = joined.error.as_ref().filter(|error| !error.may_pass()) {
            return Err(error.clone());
        }
        self.update();
        (joined.tell)(&self.members);
        joined.say(self.blind.as_ref());
        self.joined.push(joined);
        Ok(())
    }

    /// The entry with a version above that of the one which the registry shows: the client may have been restored from
    /// an old copy of its store, which counts from there.
    fn with_later_version(&self, mut entry: Entry) -> Entry {
        let own = self.joined.iter().find(|joined| joined.is_of(&entry)).map(|joined| joined.entry.version);
        let shown = self.members.find(&entry.name).map(|member| member.version);
        entry.version = own.into_iter().chain(shown).map(|version| version + 1).fold(entry.version, u64::max);
        entry
    }

    fn change(&mut self, entry: Entry) -> Result<(), RegistryError> {
        let entry = self.with_later_version(entry);
        let claimed = self.registry.claim(&entry);
        let own = self.joined.iter_mut().find(|joined| joined.is_of(&entry));
        match (claimed, own) {
            (Err(error), _) if !error.may_pass() => return Err(error),
            (claimed, Some(joined)) => {
                (joined.member, joined.entry, joined.claimed) = (entry.to_member(), entry, false);
                joined.note(claimed);
            }
            (claimed, None) => return claimed,
        }
        self.update();
        Ok(())
    }

    /// Renews leases that are due, and claims names that are not claimed or were lost.
    fn keep(&mut self) {
        let now = now();
        let (registry, is_due) = (&mut self.registry, |joined: &&mut Joined| joined.due <= now);
        let mut held: Vec<&mut Joined> =
            self.joined.iter_mut().filter(is_due).filter(|one| one.claimed).collect();
        let names: Vec<_> =
            held.iter().map(|joined| (joined.entry.name.as_str(), &joined.entry.id)).collect();
        let renewed = if names.is_empty() { Vec::new() } else { registry.renew_all(&names) };
        for (joined, renewed) in held.iter_mut().zip(renewed) {
            joined.note(renewed);
        }
        let lost = self.joined.iter_mut().filter(is_due).filter(|joined| !joined.claimed);
        let mut absent = None;
        for joined in lost.take(CLAIMS_AT_ONCE) {
            // Wait only once for an unreachable registry.
            let claimed = absent.clone().map_or_else(|| registry.claim(&joined.entry), Err);
            absent = claimed.clone().err().filter(RegistryError::may_pass);
            joined.note(claimed);
        }
    }

    /// Updates the members. If the registry does not answer, they stay as they were.
    fn update(&mut self) {
        let seen = self.registry.members();
        self.blind = seen.as_ref().err().cloned();
        let Ok(Some(members)) = seen else { return };
        self.members = Arc::new(members);
        for joined in &mut self.joined {
            let shown = self.members.find(&joined.entry.name);
            if let Some(later) =
                shown.filter(|shown| **shown != joined.member && shown.version >= joined.member.version)
            {
                joined.entry.version = later.version + 1;
                joined.member = joined.entry.to_member();
            }
            match self.members.get(&joined.entry.name) {
                Some(own) if *own == joined.member => {}
                own => joined.correct(own.is_none()),
            }
            (joined.tell)(&self.members);
        }
        self.observers.iter().for_each(|observer| (observer.tell)(&self.members));
    }
}

impl Observer {
    /// Updates the client's `Trouble`.
    fn say(&self, blind: Option<&RegistryError>) {
        self.trouble.set(blind.cloned());
    }
}

impl Joined {
    fn is_of(&self, entry: &Entry) -> bool {
        self.entry.name == entry.name && self.entry.id == entry.id
    }

    /// Records the result of a renewal or claim, and schedules the next.
    fn note(&mut self, done: Result<(), RegistryError>) {
        let in_good_time = self.entry.lease / RENEWALS;
        match done {
            Ok(()) => {
                (self.claimed, self.error) = (true, None);
                self.due = now() + in_good_time;
            }
            // It stays due, to be claimed.
            Err(RegistryError::Lost) => self.claimed = false,
            Err(error) => {
                self.claimed &= error != RegistryError::NameTaken;
                self.due = now() + in_good_time.min(RETRY_AFTER);
                self.error = Some(error);
            }
        }
    }

    /// Schedules a claim at once: the registry has lost the entry, or has an older one, or its lease had expired. If
    /// another client uses the same id, the delay keeps the two from overwriting each other endlessly.
    fn correct(&mut self, forgotten: bool) {
        if self.claimed {
            let now = now();
            let later = self.corrected.map(|at| at + self.entry.lease / RENEWALS).filter(|_| !forgotten);
            (self.claimed, self.due) = (false, later.map_or(now, |later| later.max(now)));
            self.corrected = Some(self.due);
        }
    }

    /// Updates the client's `Trouble`.
    fn say(&self, blind: Option<&RegistryError>) {
        let error = self.error.as_ref().or(blind).cloned();
        self.trouble.set(error);
    }
}
