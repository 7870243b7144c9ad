//! What clients of one process share if they use the same directory: the store, and the peer loop.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pinnace_engine::Context;

use crate::Error;
use crate::agent::handover;
use crate::environment::now;
use crate::log::{Directory, Settings, Storage};
use crate::peer_loop::{self, Doorbell, Handle, Network, Sockets};
use crate::process::PerProcess;
use crate::signal::Signal;
#[cfg(test)]
use crate::store::State;
use crate::store::Store;

/// A store with its peer loop.
pub struct Instance {
    pub store: Arc<Store>,
    pub doorbell: Arc<Doorbell>,
    pub network: Arc<dyn Network>,
    pub peer_loop: Handle,
    /// Names in use by clients; for each how to end a client that was closed.
    names: Mutex<HashMap<String, Option<EndClosed>>>,
    /// Dropped after all else.
    end: EndMark,
}

/// Whether an instance has ended: its directory is free.
#[derive(Default)]
struct InstanceEnd {
    reached: Mutex<bool>,
    changed: Signal,
}

impl InstanceEnd {
    fn reached(&self) -> MutexGuard<'_, bool> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, deadline: Instant) {
        let mut reached = self.reached();
        while !*reached {
            match self.changed.wait(reached, Some(deadline)) {
                Some(again) => reached = again,
                None => return,
            }
        }
    }
}

/// Marks an instance as ended when it is dropped.
#[derive(Default)]
struct EndMark(Arc<InstanceEnd>);

impl Drop for EndMark {
    fn drop(&mut self) {
        *self.0.reached() = true;
        self.0.changed.tell();
    }
}

/// Ends a client if it was closed, and returns true; false: it is open.
type EndClosed = Arc<dyn Fn() -> bool + Send + Sync>;

/// A name in use, which is given back when this is dropped.
pub struct NameHold {
    name: String,
    instance: Arc<Instance>,
}

impl NameHold {
    /// Lets a later client of the same name end this one by `end`, if it was closed.
    pub fn may_end_by(&self, end: impl Fn() -> bool + Send + Sync + 'static) {
        self.instance.names().insert(self.name.clone(), Some(Arc::new(end)));
    }
}

impl Drop for NameHold {
    fn drop(&mut self) {
        self.instance.names().remove(&self.name);
    }
}

/// How long opening waits for another thread that drops the instance of the same directory.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// An instance that is open, or ends.
type Tracked = (Weak<Instance>, Arc<InstanceEnd>);

/// The result of looking for the instance of a directory.
enum Lookup {
    Open(Arc<Instance>),
    /// An instance is being dropped: its directory is free when that is done.
    Ending(Arc<InstanceEnd>),
}

/// Open instances, by directory, and those that end.
static OPEN: PerProcess<HashMap<PathBuf, Tracked>> = PerProcess::new();

static CONTEXT: PerProcess<Option<Context>> = PerProcess::new();

/// The context of all sockets of peer loops.
pub fn context() -> Result<Context, Error> {
    CONTEXT.with(|known| {
        if let Some(context) = known {
            return Ok(context.clone());
        }
        let context = Context::new().map_err(Error::Endpoint)?;
        // High enough that the process runs out of file descriptors first.
        context.set_max_sockets(65_535);
        Ok(known.insert(context).clone())
    })
}

impl Instance {
    /// The instance of a directory, which is created if it is missing. If an agent has the store open, it is asked to
    /// give it back. Errors: InUse, another process has it open.
    pub fn open(path: &Path, settings: Settings) -> Result<Arc<Instance>, Error> {
        let mut opened = Instance::open_unasked(path, settings);
        if opened.as_ref().err() == Some(&Error::InUse) {
            let mut asked = handover::ask(path);
            // While the agent knows that this process waits, it does not open the store again.
            while opened.as_ref().err() == Some(&Error::InUse) && asked.may_be_free() {
                opened = Instance::open_unasked(path, settings);
            }
        }
        opened
    }

    /// Waits until the instance of a directory that ends has ended, or until the deadline.
    pub fn wait_ended(path: &Path, deadline: Instant) {
        if let Some(end) = OPEN.with(|open| open.get(path).map(|(_, end)| end.clone())) {
            end.wait(deadline);
        }
    }

    /// As `open`, without asking an agent.
    pub fn open_unasked(path: &Path, settings: Settings) -> Result<Arc<Instance>, Error> {
        Directory::make(path).map_err(|error| Error::Io(error.kind()))?;
        let path = path.canonicalize().map_err(|error| Error::Io(error.kind()))?;
        refuse_public(&path)?;
        let deadline = now() + END_TIMEOUT;
        loop {
            match Instance::open_tracked(&path, settings, now() >= deadline)? {
                Lookup::Open(instance) => return Ok(instance),
                Lookup::Ending(end) => end.wait(deadline),
            }
        }
    }

    /// Finds the instance of a directory, or opens one. If the last one is being dropped, returns its end instead,
    /// unless the caller has waited for that already.
    fn open_tracked(path: &Path, settings: Settings, has_waited: bool) -> Result<Lookup, Error> {
        OPEN.with(|open| {
            if let Some((instance, end)) = open.get(path) {
                match instance.upgrade() {
                    Some(instance) => return Ok(Lookup::Open(instance)),
                    None if !has_waited && !*end.reached() => return Ok(Lookup::Ending(end.clone())),
                    None => {}
                }
            }
            let directory = Directory::open(path).map_err(crate::log::LogError::from)?;
            let instance = Arc::new(Instance::over(Arc::new(directory), settings)?);
            open.insert(path.to_owned(), (Arc::downgrade(&instance), instance.end.0.clone()));
            Ok(Lookup::Open(instance))
        })
    }

    /// An instance over a storage.
    pub fn over(storage: Arc<dyn Storage>, settings: Settings) -> Result<Instance, Error> {
        let slot = peer_loop::slot().map_err(Error::Endpoint)?;
        let doorbell = Arc::new(Doorbell::new(slot.doorbell()));
        let ring = doorbell.clone();
        let store =
            Arc::new(Store::open(storage, settings, Box::new(move |failed| ring.ring_where_wanted(failed)))?);
        let network: Arc<dyn Network> = Arc::new(Sockets::new(context()?, slot.interest()));
        let peer_loop = Handle::start(slot, store.clone(), network.clone(), doorbell.clone());
        let (names, end) = Default::default();
        Ok(Instance { store, doorbell, network, peer_loop, names, end })
    }

    /// An instance without threads, over a storage and a network.
    #[cfg(test)]
    pub fn stepped(
        storage: Arc<dyn Storage>,
        settings: Settings,
        network: Arc<dyn Network>,
    ) -> Result<Instance, Error> {
        let doorbell = Arc::new(Doorbell::new(Arc::default()));
        let ring = doorbell.clone();
        let tell: crate::log::SyncCallback = Box::new(move |failed| ring.ring_where_wanted(failed));
        let start = |opened: crate::log::Opened, state: &State| opened.start_stepped(state, tell);
        let store = Arc::new(Store::open_by(storage, settings, start)?);
        let peer_loop = Handle::stepped(store.clone(), network.clone(), doorbell.clone());
        let (names, end) = Default::default();
        Ok(Instance { store, doorbell, network, peer_loop, names, end })
    }

    /// Does all that is due in an instance without threads. Returns when more is due.
    #[cfg(test)]
    pub fn step(&self, ready: Vec<crate::peer_loop::Token>) -> Option<std::time::Instant> {
        let log_at = self.store.log().step();
        let peers_at = self.peer_loop.step(ready);
        // The peer loop may have appended.
        let log_at = self.store.log().step().or(log_at);
        log_at.into_iter().chain(peers_at).min()
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Option<EndClosed>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name. A client that was closed, and has the name until its deliveries are settled, loses it. Error:
    /// NameTaken.
    pub fn take_name(self: &Arc<Instance>, name: &str) -> Result<NameHold, Error> {
        loop {
            let end = match self.names().entry(name.to_owned()) {
                Entry::Occupied(taken) => taken.get().clone(),
                Entry::Vacant(free) => {
                    free.insert(None);
                    return Ok(NameHold { name: name.to_owned(), instance: self.clone() });
                }
            };
            // Without the lock, since the name is given back meanwhile.
            if !end.is_some_and(|end| end()) {
                return Err(Error::NameTaken);
            }
        }
    }
}

/// Another user could exchange or read what lies in a directory that every user can change, or in a store whose parent
/// they can change. A sticky parent, such as `/tmp`, keeps others from that. Errors: Public.
fn refuse_public(path: &Path) -> Result<(), Error> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let is_public = |path: &Path, unless: u32| {
        let mode = path.metadata().map_err(|error| Error::Io(error.kind()))?.permissions().mode();
        Ok::<bool, Error>(mode & OTHERS_WRITE != 0 && mode & unless == 0)
    };
    let parent = path.parent().map_or(Ok(false), |parent| is_public(parent, STICKY))?;
    if parent || is_public(path, 0)? { Err(Error::Public(path.to_owned())) } else { Ok(()) }
}
