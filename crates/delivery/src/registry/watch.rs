//! The thread that asks a registry: for all clients of this process that use the same one.
//!
//! It alone calls the registry, so one that hangs keeps nobody but itself from its work: those that know of each other
//! go on. It renews leases in good time, claims a name anew where a lease was lost and nobody else has it, and tells
//! each client who is there when that changes.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Entry, Id, Members, Registry, RegistryError, open};

/// Between two questions who is there.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Leases are renewed so many times before they end.
const RENEWALS: u32 = 4;
/// How long whoever joins waits for the registry.
const PATIENCE: Duration = Duration::from_secs(10);

/// Called with all that are there.
pub type Tell = Box<dyn Fn(&Arc<Members>) + Send>;

/// How to reach the thread, which ends with this.
pub struct Watch {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Job {
    Join { entry: Entry, tell: Tell, reply: Reply },
    Change { entry: Entry, reply: Reply },
    Leave { name: String, id: Id, reply: Reply },
}

type Reply = Sender<Result<(), RegistryError>>;

/// A client that has joined.
struct Joined {
    entry: Entry,
    tell: Tell,
    renew_at: Instant,
}

/// Those that run, by the registry's address.
static RUNNING: Mutex<Option<HashMap<String, Weak<Watch>>>> = Mutex::new(None);

impl Watch {
    /// The watch of a registry, which is opened where no other client of this process has it open.
    pub fn open(url: &str) -> Result<Arc<Watch>, RegistryError> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.get_or_insert_default();
        if let Some(watch) = running.get(url).and_then(Weak::upgrade) {
            return Ok(watch);
        }
        let (registry, (jobs, work)) = (open(url)?, channel());
        let thread = std::thread::Builder::new()
            .name("pinnace-names".to_owned())
            .spawn(move || Watcher { registry, joined: Vec::new(), members: Arc::default() }.run(&work))
            .map_err(|error| RegistryError::io(&error, "starting a thread"))?;
        let watch = Arc::new(Watch { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) });
        running.insert(url.to_owned(), Arc::downgrade(&watch));
        Ok(watch)
    }

    /// Claims a name. `tell` is called with those that are there, at first before this returns, until `leave`.
    pub fn join(&self, entry: Entry, tell: Tell) -> Result<(), RegistryError> {
        self.ask(|reply| Job::Join { entry, tell, reply })
    }

    /// Changes what others see of a client that has joined.
    pub fn change(&self, entry: Entry) -> Result<(), RegistryError> {
        self.ask(|reply| Job::Change { entry, reply })
    }

    /// Gives the name back.
    pub fn leave(&self, name: &str, id: Id) -> Result<(), RegistryError> {
        self.ask(|reply| Job::Leave { name: name.to_owned(), id, reply })
    }

    fn ask(&self, job: impl FnOnce(Reply) -> Job) -> Result<(), RegistryError> {
        let (reply, answer) = channel();
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // A thread that has ended answers nothing.
            let _ = jobs.send(job(reply));
        }
        answer.recv_timeout(PATIENCE).unwrap_or(Err(RegistryError::Busy))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

struct Watcher {
    registry: Box<dyn Registry>,
    joined: Vec<Joined>,
    members: Arc<Members>,
}

impl Watcher {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(ASK_EVERY) {
                Ok(job) => self.on(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.renew();
            self.look();
        }
    }

    fn on(&mut self, job: Job) {
        // Who asked may have lost patience.
        let _ = match job {
            Job::Join { entry, tell, reply } => reply.send(self.join(entry, tell)),
            Job::Change { entry, reply } => reply.send(self.change(entry)),
            Job::Leave { name, id, reply } => {
                self.joined.retain(|joined| joined.entry.name != name || joined.entry.id != id);
                reply.send(self.registry.release(&name, &id))
            }
        };
    }

    fn join(&mut self, entry: Entry, tell: Tell) -> Result<(), RegistryError> {
        self.registry.claim(&entry)?;
        self.look();
        tell(&self.members);
        let renew_at = Instant::now() + entry.lease / RENEWALS;
        self.joined.push(Joined { entry, tell, renew_at });
        Ok(())
    }

    fn change(&mut self, entry: Entry) -> Result<(), RegistryError> {
        self.registry.claim(&entry)?;
        if let Some(joined) = self.joined.iter_mut().find(|joined| joined.entry.name == entry.name) {
            joined.entry = entry;
        }
        self.look();
        Ok(())
    }

    fn renew(&mut self) {
        let now = Instant::now();
        for joined in self.joined.iter_mut().filter(|joined| joined.renew_at <= now) {
            let Entry { name, id, lease, .. } = &joined.entry;
            joined.renew_at = now + *lease / RENEWALS;
            if self.registry.renew(name, id) == Err(RegistryError::Lost) {
                // Where another has it now it stays so; what is under way between those that know us goes on.
                let _ = self.registry.claim(&joined.entry);
            }
        }
    }

    /// Looks who is there. A registry that does not answer leaves it as it was.
    fn look(&mut self) {
        if let Ok(Some(members)) = self.registry.members() {
            self.members = Arc::new(members);
            self.joined.iter().for_each(|joined| (joined.tell)(&self.members));
        }
    }
}
