//! The thread that asks a registry: for all clients of this process that use the same one.
//!
//! It alone calls the registry, so one that hangs keeps nobody but itself from its work: those that know of each other
//! go on. It renews leases in good time, claims a name anew where a lease was lost and nobody else has it, and tells
//! each client who is there when that changes. A registry that is not there now is asked again and again; meanwhile
//! whoever joins has joined, and can ask what is amiss ([`Trouble`]).

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::{Entry, Id, Member, Members, Registry, RegistryError, open};
use crate::process::PerProcess;

/// Between two questions who is there.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Leases are renewed so many times before they end.
const RENEWALS: u32 = 4;
/// After a call that failed, for it to be tried again.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Names that are claimed anew before others have their turn.
const CLAIMS_AT_ONCE: usize = 100;
/// How long who joins or changes waits for the registry, and who leaves; and how long whoever is the last to leave
/// waits for the thread then.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Called with all that are there.
pub type Tell = Box<dyn Fn(&Arc<Members>) + Send>;

/// What keeps a client from being known in the registry, or from knowing who is there; None: nothing.
pub type Trouble = Arc<Mutex<Option<RegistryError>>>;

/// How to reach the thread, which ends with this.
pub struct Watch {
    jobs: Mutex<Option<Sender<Job>>>,
    /// Says nothing, and is closed when the thread ends.
    ended: Mutex<Receiver<()>>,
}

enum Job {
    Join { entry: Entry, tell: Tell, trouble: Trouble, reply: Reply },
    Change { entry: Entry, reply: Reply },
    Leave { name: String, id: Id, reply: Reply },
}

type Reply = Sender<Result<(), RegistryError>>;

/// A client that has joined.
struct Joined {
    entry: Entry,
    /// The same as others see it.
    member: Member,
    tell: Tell,
    trouble: Trouble,
    /// What it says of itself was claimed, and as far as is known the name is its own since.
    claimed: bool,
    /// Why the last call of it failed.
    error: Option<RegistryError>,
    /// When it is to be renewed, or claimed.
    due: Instant,
    /// When it was last claimed because the registry had something else.
    corrected: Option<Instant>,
}

/// Those that run, by the registry's address.
static RUNNING: PerProcess<HashMap<String, Weak<Watch>>> = PerProcess::new();

impl Watch {
    /// The watch of a registry, which is opened where no other client of this process has it open.
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
        let watcher = Watcher { registry, joined: Vec::new(), members: Arc::default(), blind: None };
        let started = pinnace_sys::thread::start("pinnace-names", move || {
            watcher.run(&work);
            drop(alive);
        });
        started.map_err(|error| RegistryError::io(&error, "starting a thread"))?;
        Ok(Arc::new(Watch { jobs: Mutex::new(Some(jobs)), ended: Mutex::new(ended) }))
    }

    /// Claims a name, now, or, where the registry is not there now, as soon as it is. `tell` is called with those that
    /// are there, where the registry answers at first before this returns, until `leave`; `trouble` is kept true as
    /// long. Error: what asking again would not mend.
    pub fn join(&self, entry: Entry, tell: Tell, trouble: Trouble) -> Result<(), RegistryError> {
        entry.check()?;
        *trouble.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(RegistryError::Unreachable("it has not answered yet".to_owned()));
        self.ask(JOIN_PATIENCE, |reply| Job::Join { entry, tell, trouble, reply })
    }

    /// Changes what others see of a client that has joined: now, or as soon as the registry is there.
    pub fn change(&self, entry: Entry) -> Result<(), RegistryError> {
        entry.check()?;
        self.ask(JOIN_PATIENCE, |reply| Job::Change { entry, reply })
    }

    /// Gives the name back. A registry that does not answer keeps it until the lease ends.
    pub fn leave(&self, name: &str, id: Id) {
        let _ = self.ask(LEAVE_PATIENCE, |reply| Job::Leave { name: name.to_owned(), id, reply });
    }

    /// Has the thread do something. Ok as well: it is not done yet, and will be.
    fn ask(&self, patience: Duration, job: impl FnOnce(Reply) -> Job) -> Result<(), RegistryError> {
        let (reply, answer) = channel();
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // A thread that has ended drops the job, and with it the reply.
            let _ = jobs.send(job(reply));
        }
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
        // One whose registry hangs ends when that answers, or is given up.
        let _ = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(END_PATIENCE);
    }
}

struct Watcher {
    registry: Box<dyn Registry>,
    joined: Vec<Joined>,
    members: Arc<Members>,
    /// Why it is not known who is there.
    blind: Option<RegistryError>,
}

impl Watcher {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(ASK_EVERY) {
                Ok(job) => self.on(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.keep();
            self.look();
            self.joined.iter().for_each(|joined| joined.say(self.blind.as_ref()));
        }
    }

    fn on(&mut self, job: Job) {
        // Who asked may have lost patience.
        let _ = match job {
            Job::Join { entry, tell, trouble, reply } => reply.send(self.join(entry, tell, trouble)),
            Job::Change { entry, reply } => reply.send(self.change(entry)),
            Job::Leave { name, id, reply } => {
                self.joined.retain(|joined| joined.entry.name != name || joined.entry.id != id);
                reply.send(self.registry.release(&name, &id))
            }
        };
    }

    fn join(&mut self, entry: Entry, tell: Tell, trouble: Trouble) -> Result<(), RegistryError> {
        let (member, due) = (entry.to_member(), Instant::now());
        let mut joined =
            Joined { entry, member, tell, trouble, claimed: false, error: None, due, corrected: None };
        let claimed = self.registry.claim(&joined.entry);
        joined.note(claimed);
        if let Some(error) = joined.error.as_ref().filter(|error| !error.may_pass()) {
            return Err(error.clone());
        }
        self.look();
        (joined.tell)(&self.members);
        joined.say(self.blind.as_ref());
        self.joined.push(joined);
        Ok(())
    }

    fn change(&mut self, entry: Entry) -> Result<(), RegistryError> {
        let claimed = self.registry.claim(&entry);
        let is_own = |joined: &&mut Joined| joined.entry.name == entry.name && joined.entry.id == entry.id;
        let own = self.joined.iter_mut().find(is_own);
        match (claimed, own) {
            (Err(error), _) if !error.may_pass() => return Err(error),
            (claimed, Some(joined)) => {
                (joined.member, joined.entry, joined.claimed) = (entry.to_member(), entry, false);
                joined.note(claimed);
            }
            (claimed, None) => return claimed,
        }
        self.look();
        Ok(())
    }

    /// Renews the leases whose time it is, and claims what is not claimed or was lost.
    fn keep(&mut self) {
        let now = Instant::now();
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
            // Of a registry that is not there now nobody waits for more than once.
            let claimed = absent.clone().map_or_else(|| registry.claim(&joined.entry), Err);
            absent = claimed.clone().err().filter(RegistryError::may_pass);
            joined.note(claimed);
        }
    }

    /// Looks who is there. A registry that does not answer leaves it as it was.
    fn look(&mut self) {
        let seen = self.registry.members();
        self.blind = seen.as_ref().err().cloned();
        let Ok(Some(members)) = seen else { return };
        self.members = Arc::new(members);
        for joined in &mut self.joined {
            match self.members.get(&joined.entry.name) {
                Some(own) if *own == joined.member => {}
                own => joined.correct(own.is_none()),
            }
            (joined.tell)(&self.members);
        }
    }
}

impl Joined {
    /// What has come of renewing or claiming, and when to do so again.
    fn note(&mut self, done: Result<(), RegistryError>) {
        let in_good_time = self.entry.lease / RENEWALS;
        match done {
            Ok(()) => {
                (self.claimed, self.error) = (true, None);
                self.due = Instant::now() + in_good_time;
            }
            // It stays due, to be claimed.
            Err(RegistryError::Lost) => self.claimed = false,
            Err(error) => {
                self.claimed &= error != RegistryError::NameTaken;
                self.due = Instant::now() + in_good_time.min(RETRY_AFTER);
                self.error = Some(error);
            }
        }
    }

    /// Has it claimed anew at once: the registry has forgotten it, or has what it once said of itself, or its lease was
    /// over. Where somebody goes by its id as well the two are not to chase each other.
    fn correct(&mut self, forgotten: bool) {
        if self.claimed {
            let now = Instant::now();
            let later = self.corrected.map(|at| at + self.entry.lease / RENEWALS).filter(|_| !forgotten);
            (self.claimed, self.due) = (false, later.map_or(now, |later| later.max(now)));
            self.corrected = Some(self.due);
        }
    }

    /// Tells the client what is amiss.
    fn say(&self, blind: Option<&RegistryError>) {
        let error = self.error.as_ref().or(blind).cloned();
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}
