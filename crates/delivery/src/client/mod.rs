//! A client: it sends to topics, and receives what others send to those that it listens on.

mod builder;
mod cursor;
mod pending;
mod receive;
mod requeue;
mod send;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_sys::signals::Mask;

use crate::Error;
use crate::carrier::Command;
use crate::depot::Depot;
use crate::inbox::Inbox;
use crate::log::Damage;
use crate::registry::{Entry, Member, RegistryError, Tell, Trouble, Watch};
use crate::signal::Patience;
use crate::store::records;
pub use builder::Builder;
pub use cursor::{CURSOR_SCHEMA, Cursor};
pub use pending::Pending;
pub(crate) use receive::read_envelope;
pub use receive::{Dead, Deliveries, Delivery};
use send::Routes;
pub use send::{Durability, Options, Ticket};

/// A client. Its calls may come from any thread.
pub struct Client {
    record: records::Client,
    endpoint: String,
    depot: Arc<Depot>,
    inbox: Arc<Inbox>,
    closed: AtomicBool,
    routes: Arc<Mutex<Routes>>,
    /// The registry, and what this client says of itself there.
    watch: Option<Arc<Watch>>,
    /// Threads that handle messages.
    handlers: Mutex<Vec<JoinHandle<()>>>,
    entry: Mutex<Entry>,
    memory_limit: u64,
    linger: Duration,
    largest: usize,
    pack_from: usize,
    trouble: Trouble,
    /// Where the registry is; None: there is none.
    registry: Option<String>,
    /// The signal mask of the thread that started it, which its handlers have while they run.
    signals: Mask,
}

impl Client {
    /// A client of this name, which no other has, that listens on a topic of its own.
    pub fn builder(name: &str, topic: &str) -> Builder {
        Builder::new(name, topic)
    }

    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What was damaged in its store when that was opened, and left out ([`Builder::skip_damage`]).
    pub fn damage(&self) -> &[Damage] {
        &self.depot.store.damage
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Receives nothing more: who waits in `recv` or `run`, for room or for acknowledgements, now or later, gets
    /// Closed. It ends when it is dropped.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.depot.store.look_again();
        self.inbox.close();
    }

    /// Until a deadline, or the client is closed.
    fn patience(&self, until: Option<Instant>) -> Patience<'_> {
        Patience { until, called_off: Some(&self.closed) }
    }
}

impl Client {
    /// Listens on a further topic.
    pub fn subscribe(&self, topic: &str) -> Result<(), Error> {
        self.change(|topics| topics.push(topic.to_owned()))
    }

    /// Does not listen on a topic any more. What others have sent by then still comes.
    pub fn unsubscribe(&self, topic: &str) -> Result<(), Error> {
        self.change(|topics| topics.retain(|other| other != topic))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<String>)) -> Result<(), Error> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = entry.clone();
        change(&mut changed.topics);
        watch.change(changed.clone())?;
        *entry = changed;
        Ok(())
    }

    /// Where those are that listen on a topic, as far as this client knows.
    pub fn addresses_of(&self, topic: &str) -> Vec<String> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.members().addresses_of(topic).map(str::to_owned).collect()
    }

    /// What keeps this client from being known in its registry, or from knowing who is there; None: nothing. It is
    /// tried again and again, and meanwhile the client goes on: what it sends is stored, and reaches those that it
    /// knows of. NameTaken: another client, which lives, has taken the name while the registry was not there.
    pub fn registry_error(&self) -> Option<RegistryError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Clears away what clients that are dead left of themselves in the registry on a topic: what is sent to all from
    /// then on is not kept for them. Returns how many there were. What is kept already stays
    /// ([`clear_pending`](Self::clear_pending)).
    pub fn clear_addresses(&self, topic: &str) -> Result<usize, Error> {
        let Some(registry) = &self.registry else { return Ok(0) };
        Ok(crate::registry::open(registry)?.clear(topic)?)
    }

    /// What to do with the news who is there.
    fn teller(&self, given: Vec<Member>) -> Tell {
        let (routes, depot, client) = (self.routes.clone(), Arc::downgrade(&self.depot), self.record.number);
        Box::new(move |members| {
            let Some(depot) = depot.upgrade() else { return };
            // Shared by all clients of the registry, where nothing is to be added.
            let members = if given.is_empty() { members.clone() } else { Arc::new(members.with(&given)) };
            routes.lock().unwrap_or_else(PoisonError::into_inner).change(members.clone());
            depot.carrier.tell(Command::Members { client, members });
        })
    }
}

impl Drop for Client {
    /// What was handled is noted; what is on the disk stays there; what is in memory has [`Builder::linger`] to go.
    fn drop(&mut self) {
        self.depot.store.wait_for_held(self.record.number, Instant::now() + self.linger);
        if let Some(watch) = &self.watch {
            watch.leave(&self.record.name, self.record.id);
        }
        self.inbox.close();
        let handlers = std::mem::take(&mut *self.handlers.lock().unwrap_or_else(PoisonError::into_inner));
        let own = std::thread::current().id();
        for thread in handlers.into_iter().filter(|thread| thread.thread().id() != own) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        let (done, removed) = channel();
        self.depot.carrier.tell(Command::Remove { client: self.record.number, done });
        // An error: the carrier has ended, and with it all there was to remove.
        let _ = removed.recv();
        self.depot.give_name_back(&self.record.name);
    }
}
