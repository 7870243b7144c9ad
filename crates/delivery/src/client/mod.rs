//! A client: it sends to topics, and receives messages sent to the topics that it listens on.

mod accepting;
mod builder;
mod closing;
mod content;
mod cursor;
mod handler;
mod pending;
mod receive;
mod registration;
mod reports;
mod requeue;
mod routes;
mod send;
mod shortage;
#[cfg(test)]
mod tests;
mod together;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_sys::signals::Mask;

use crate::Error;
use crate::environment::now_ms;
use crate::inbox::Inbox;
use crate::instance::Instance;
use crate::log::Damage;
use crate::peer_loop::Command;
use crate::registry::{Entry, Id, Lasting, Member, MembersCallback, RegistryError, Trouble, Watch};
use crate::signal::Signal;
use crate::statistics::{Collector, Statistics, StatisticsServer};
use crate::store::records;
pub use builder::Builder;
use builder::serving::Server;
use closing::End;
use cursor::id_text;
pub use cursor::{CURSOR_SCHEMA, Cursor};
pub use handler::{HandlerResult, Settlement};
pub use pending::Pending;
pub(crate) use receive::read_envelope;
pub use receive::{Dead, Deliveries, Delivery};
use registration::Registration;
use reports::Reports;
use routes::{Publisher, Routes};
pub use send::{Durability, Options, Ticket};
pub use shortage::{Full, Shortage};
pub use together::{NewMessage, NotAcked};

/// A client. Thread-safe.
pub struct Client {
    record: records::ClientRecord,
    endpoint: String,
    instance: Arc<Instance>,
    inbox: Arc<Inbox>,
    reports: Arc<Reports>,
    registration: Arc<Registration>,
    collector: Arc<Collector>,
    /// Until the client ends.
    metrics: Server,
    closed: AtomicBool,
    end: End,
    /// It only sends: how it is known to the registry's thread, and to no other client.
    observer: Option<Id>,
    routes: Arc<Mutex<Routes>>,
    /// Signalled when the members that `routes` knows have changed.
    members_changed: Arc<Signal>,
    /// The registry's thread, which keeps this client's entry.
    watch: Option<Arc<Watch>>,
    /// The threads of `listen`.
    handlers: Mutex<Vec<JoinHandle<()>>>,
    entry: Mutex<Entry>,
    memory_limit: u64,
    deduplicate_for: Duration,
    linger: Duration,
    handler_linger: Duration,
    largest: usize,
    pack_from: usize,
    trouble: Trouble,
    /// The registry's address; None: there is none.
    registry: Option<String>,
    /// The signal mask of the thread that started the client; handlers run with it.
    signals: Mask,
}

impl Client {
    /// A client with this unique name, which listens on `topic`.
    pub fn builder(name: &str, topic: &str) -> Builder {
        Builder::new(name, topic)
    }

    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The id of this client in its store, as 32 hexadecimal digits. It is random and made with the store: a client of
    /// the same name in another store has another one.
    pub fn store_id(&self) -> String {
        id_text(&self.record.id)
    }

    /// Damage that was left out when the store was opened ([`Builder::skip_damage`]).
    pub fn damage(&self) -> &[Damage] {
        &self.instance.store.damage
    }

    /// The endpoint it listens on.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Where its statistics are served ([`Builder::metrics`]); None: nowhere, or it has ended.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.as_ref().map(StatisticsServer::address)
    }

    /// What it has sent and received so far, what is pending, and its connections. It may be called in a handler and in
    /// a callback of [`Builder::on_error`]; while such a callback runs, the states of connections and the counts of
    /// sent messages are those before it.
    pub fn statistics(&self) -> Statistics {
        self.collector.read(&self.instance)
    }
}

impl Client {
    /// Listens on another topic, until it unsubscribes; if it is not [durable](Builder::durable), until it ends.
    /// Errors: Name; Setting, there is no registry; Registry; Failed; Closed.
    pub fn subscribe(&self, topic: &str) -> Result<(), Error> {
        self.change(|topics| topics.push(topic.to_owned()))
    }

    /// Stops listening on a topic. Messages already sent to it still arrive.
    pub fn unsubscribe(&self, topic: &str) -> Result<(), Error> {
        self.change(|topics| topics.retain(|other| other != topic))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<String>)) -> Result<(), Error> {
        if self.observer.is_some() {
            return Err(Error::Setting("a client that only sends has no subscriptions"));
        }
        let Some(watch) = &self.watch else {
            return Err(Error::Setting(
                "there is no registry, so no other client would see the subscription",
            ));
        };
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a client that ends leaves the registry after it.
        self.check_open()?;
        let mut changed = entry.clone();
        change(&mut changed.topics);
        changed.topics.sort_unstable();
        changed.topics.dedup();
        changed.version = entry_version(changed.version);
        changed.check()?;
        // On the disk first: the registry shows no subscription that this client does not start with later.
        self.record_subscriptions(&changed)?;
        if let Err(error) = watch.change(changed.clone()) {
            self.record_subscriptions(&entry)?;
            return Err(error.into());
        }
        *entry = changed;
        Ok(())
    }

    /// Records the topics of its entry, and waits for the disk.
    fn record_subscriptions(&self, entry: &Entry) -> Result<(), Error> {
        let (mut topics, version) = (entry.topics.clone(), entry.version);
        topics.retain(|_| entry.lasting == Lasting::Durable);
        let store = &self.instance.store;
        let batch =
            store.set_subscriptions(self.record.number, records::Subscriptions { topics, version })?;
        Ok(store.log().wait(batch, None)?)
    }

    /// The topics that it listens on, sorted.
    pub fn topics(&self) -> Vec<String> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner).topics.clone()
    }

    /// The endpoints of known clients that listen on a topic.
    pub fn addresses_of(&self, topic: &str) -> Vec<String> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.members().addresses_of(topic).map(str::to_owned).collect()
    }

    /// Waits until at least `count` clients listen on a topic, of which it may be one. Errors: TimedOut after the
    /// deadline, Closed.
    pub fn wait_listeners(&self, topic: &str, count: usize, deadline: Option<Instant>) -> Result<(), Error> {
        self.check_open()?;
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        while routes.members().of_topic(topic).take(count).count() < count {
            match self.members_changed.wait(routes, self.patience(deadline)) {
                Some(again) => routes = again,
                None => return self.wait_result(false),
            }
        }
        Ok(())
    }

    /// Why this client is not registered, or does not know the other clients; None: all is well. The registry is
    /// retried; meanwhile the client works on: its messages are stored, and reach the clients that it knows. NameTaken:
    /// another live client has taken the name while the registry was unreachable.
    pub fn registry_error(&self) -> Option<RegistryError> {
        self.trouble.current()
    }

    /// Ends all subscriptions of a client that is gone for good: the clients that have the same registry, and this one,
    /// drop what they keep for it alone, also if they are started within seven days; messages sent to one client of a
    /// topic go to another. If it is started again, it is a new client of this name.
    /// Errors: Registry, with NameTaken if it lives; Setting, there is no registry.
    pub fn forget(&self, name: &str) -> Result<(), Error> {
        self.check_open()?;
        let registry = self.registry.as_ref().ok_or(Error::Setting("there is no registry"))?;
        Ok(crate::registry::forget(registry, name)?)
    }

    /// Ends the subscriptions of a topic by dead clients: messages sent to all are no longer kept for them. Returns how
    /// many there were. Messages already kept stay ([`clear_pending`](Self::clear_pending)).
    pub fn clear_addresses(&self, topic: &str) -> Result<usize, Error> {
        self.check_open()?;
        let Some(registry) = &self.registry else { return Ok(0) };
        Ok(crate::registry::open(registry)?.clear(topic)?)
    }

    /// The callback for changes of the registry's members.
    fn teller(&self, given: Vec<Member>) -> MembersCallback {
        let (routes, instance) = (self.routes.clone(), Arc::downgrade(&self.instance));
        let changed = self.members_changed.clone();
        let (client, name) = (self.record.number, self.record.name.clone());
        Box::new(move |members| {
            let Some(instance) = instance.upgrade() else { return };
            // Without peers of its own, share the list with the registry's other clients.
            let members = if given.is_empty() { members.clone() } else { Arc::new(members.with(&given)) };
            let publisher = Publisher { store: &instance.store, client, name: &name };
            let mut state = instance.store.lock();
            let mut routes = routes.lock().unwrap_or_else(PoisonError::into_inner);
            // A failure of the log is reported elsewhere; the next send opens the streams.
            let _ = routes.change(&publisher, &mut state, members.clone());
            drop((routes, state));
            changed.tell();
            // The peer loop also finds the streams that were opened.
            instance.peer_loop.tell(Command::Members { client, members });
        })
    }
}

/// The version of a client's next entry in the registry. By the time of day it is later also if the client's store was
/// replaced by an old copy; by the version before it, also if the clock was set back.
fn entry_version(before: u64) -> u64 {
    now_ms().max(before + 1)
}
