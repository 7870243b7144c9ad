//! The settings of a client before it starts.

mod check;
mod curve;
mod disk;
mod recorded;
pub(super) mod serving;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinnace_crypto::{KeyPair, PublicKey};
use pinnace_sys::signals::Mask;

use super::closing::End;
use super::registration::Registration;
use super::reports::Reports;
use super::{Client, entry_version};
use crate::Error;
use crate::environment::random;
use crate::inbox::{Inbox, Retry};
use crate::instance::Instance;
use crate::log::Settings;
use crate::paths;
use crate::peer_loop::{Command, Keyring, Listener, Listening, NoListener, Notify};
use crate::registry::{Entry, Id, JOIN_TIMEOUT, Lasting, Member, Trouble, Watch};
use crate::store::RetainLimits;
use crate::store::records::{ClientRecord, Subscriptions};

/// How often a client's entry may be corrected in one life, because the registry shows a later one.
const CORRECTIONS: u64 = 255;

/// Whether other clients see the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It listens, and is registered.
    Member,
    /// It only sends ([`Builder::send_only`]).
    Sender,
    /// It is a sender of an agent (`Builder::for_agent`).
    Drained,
}

/// A client to be started.
#[derive(Clone)]
pub struct Builder {
    name: String,
    topic: String,
    topics: Vec<String>,
    presence: Presence,
    endpoint: Option<String>,
    advertised: Option<String>,
    data_dir: Option<PathBuf>,
    registry: Option<String>,
    lease: Duration,
    lasting: Lasting,
    peers: Vec<Member>,
    interval: Duration,
    /// None: the default, by the size of the file system.
    disk_limit: Option<u64>,
    skip_damage: bool,
    keys: Option<KeyPair>,
    trusted: HashMap<String, PublicKey>,
    files: curve::CertificateFiles,
    metrics: Option<String>,
    notify: Notify,
    patience: Option<Duration>,
    limits: RetainLimits,
    retry: Retry,
    keeps_expired: bool,
    memory_limit: u64,
    deduplicate_for: Duration,
    linger: Duration,
    handler_linger: Duration,
    largest: usize,
    pack_from: usize,
}

impl Builder {
    pub(super) fn new(name: &str, topic: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            topic: topic.to_owned(),
            topics: Vec::new(),
            presence: Presence::Member,
            endpoint: None,
            advertised: None,
            data_dir: None,
            registry: None,
            lease: Duration::from_secs(10),
            lasting: Lasting::Durable,
            peers: Vec::new(),
            interval: Duration::from_millis(100),
            disk_limit: None,
            skip_damage: false,
            keys: None,
            trusted: HashMap::new(),
            files: curve::CertificateFiles::default(),
            metrics: None,
            notify: Arc::new(|_| {}),
            patience: Some(Duration::from_secs(30)),
            limits: RetainLimits { age: Some(Duration::from_secs(7 * 24 * 3600)), bytes: 1 << 30 },
            keeps_expired: false,
            memory_limit: 64 << 20,
            deduplicate_for: Duration::from_secs(120),
            linger: Duration::from_secs(1),
            handler_linger: Duration::from_secs(10),
            largest: 1 << 30,
            pack_from: 1 << 20,
            retry: Retry {
                first: Duration::from_millis(100),
                most: Duration::from_secs(60),
                deliveries: None,
                within: None,
                skips: false,
            },
        }
    }

    /// Further topics that it listens on from its start, without a moment in which it listens on its own topic alone:
    /// messages sent to all of a topic are kept for a client that was killed only while it is known to listen there.
    pub fn topics(mut self, topics: &[&str]) -> Builder {
        self.topics.extend(topics.iter().map(|topic| (*topic).to_owned()));
        self
    }

    /// The endpoint to listen on, in ZeroMQ's syntax. By default a local socket (zmq_ipc(7)) with a unique abstract
    /// name, which processes of the same host can reach. `tcp://127.0.0.1:*` takes a free port, `tcp://*:5555` that
    /// port on all interfaces.
    pub fn listen(mut self, endpoint: &str) -> Builder {
        self.endpoint = Some(endpoint.to_owned());
        self
    }

    /// The endpoint that others are told to connect to; by default the one it listens on. For host names, forwarded
    /// ports, and clients that listen on all interfaces.
    pub fn advertise(mut self, endpoint: &str) -> Builder {
        self.advertised = Some(endpoint.to_owned());
        self
    }

    /// The directory of its store. Clients of one process with the same directory share a store.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Builder {
        self.data_dir = Some(path.into());
        self
    }

    /// The registry by which clients find each other: `dir://PATH`, a directory shared by processes of one host;
    /// `sqlite://PATH`; `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` (`rediss://` for TLS), a server shared by
    /// hosts; or `none`, which leaves only the peers given by [`Builder::peer`]. By default a directory of the user. A
    /// server may be unreachable at the start: see [`Client::registry_error`]. With one on another host, the client has
    /// to listen on, or advertise, an address that other hosts can reach: no local socket, loopback or wildcard.
    pub fn registry(mut self, url: &str) -> Builder {
        self.registry = Some(url.to_owned());
        self
    }

    /// How long the client keeps its name without renewing it, in a registry with leases; 10 s by default.
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.lease = lease;
        self
    }

    /// Whether its subscriptions outlast its process, however that ends; by default they do. Then messages sent to all
    /// of a topic are kept for the client while it is away, within the senders' limits ([`Builder::retain_for`]), and
    /// it starts again with all topics that it listened on. They end by [`Client::unsubscribe`] and
    /// [`Client::forget`]. False: they end with the process, or when its lease ends; later messages do not go to it.
    pub fn durable(mut self, durable: bool) -> Builder {
        self.lasting = if durable { Lasting::Durable } else { Lasting::Transient };
        self
    }

    /// Starts the client to send alone, or to drop and requeue what is pending: it neither listens nor is registered.
    /// What it listened on when it was killed stays as it is, for its next start without this, and messages to it wait.
    /// Its own topic, `topics`, `listen`, `advertise` and `lease` have no effect. Receiving returns Closed, and
    /// subscribing a Setting error.
    pub fn send_only(mut self) -> Builder {
        self.presence = Presence::Sender;
        self
    }

    /// Adds a client that is known in advance.
    pub fn peer(mut self, name: &str, endpoint: &str, topics: &[&str]) -> Builder {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let (name, endpoint) = (name.to_owned(), endpoint.to_owned());
        self.peers.push(Member { name, id: None, endpoint, topics, version: 0, lasting: Lasting::Durable });
        self
    }

    /// How long messages sent with [`Durability::Interval`] may stay unsynced; 100 ms by default.
    pub fn interval(mut self, interval: Duration) -> Builder {
        self.interval = interval;
        self
    }

    /// The first and the longest pause before a failed message is delivered again; 100 ms and a minute by default. Each
    /// pause is twice the previous, randomized by a quarter.
    pub fn retry(mut self, first: Duration, most: Duration) -> Builder {
        (self.retry.first, self.retry.most) = (first, most);
        self
    }

    /// How long a handler may take from a message's delivery to its acknowledgement; by default without limit. After
    /// that the message has failed, and another handler may get it; a late acknowledgement still counts.
    /// [`Delivery::in_progress`] restarts the time.
    pub fn ack_within(mut self, time: Duration) -> Builder {
        self.retry.within = Some(time);
        self
    }

    /// Lets later messages of a stream pass a failed one while it waits, so only the failed one is out of order. By
    /// default the stream waits.
    pub fn skip_failing(mut self) -> Builder {
        self.retry.skips = true;
        self
    }

    /// How long a message sent to one of a topic's clients ([`Client::send_to`]) is left to the client that has it, if
    /// that cannot be reached, before another client gets it, out of order and perhaps a second time; 30 s by default.
    /// None: for ever. Messages that no client has yet are not affected.
    pub fn reassign_after(mut self, time: Option<Duration>) -> Builder {
        self.patience = time;
        self
    }

    /// How long messages are kept for a receiver that is away; and messages that are sent to all while no receiver
    /// is known, for those to come. 7 days by default. None: for ever. Older messages are dropped, and `on_error` tells
    /// how many. The limit applies to a receiver that the registry has shown as away for 10 minutes, or for this time
    /// if that is shorter; never to one that is connected.
    pub fn retain_for(mut self, time: Option<Duration>) -> Builder {
        self.limits.age = time;
        self
    }

    /// How many bytes are kept for such a receiver and topic, counting 64 more for each message; 1 GiB by default,
    /// u64::MAX: without limit. The oldest messages are dropped, as with [`retain_for`](Self::retain_for).
    pub fn retain_bytes(mut self, bytes: u64) -> Builder {
        self.limits.bytes = bytes;
        self
    }

    /// Gives a message up after this many deliveries. Its sender keeps it as a dead letter, sent on the topic with
    /// `.dead` appended. Deliveries are counted over crashes then. By default no message is given up.
    pub fn max_deliveries(mut self, deliveries: u32) -> Builder {
        self.retry.deliveries = Some(deliveries.max(1));
        self
    }

    /// Whether a message that this client sent and whose time to live is over becomes a dead letter, with
    /// [`Verdict::Expired`](crate::Verdict::Expired); by default it is only counted. It is over by this client's clock
    /// when the message is to be sent, or by its receiver's when the message arrives or is to be handled; a receiver of
    /// an earlier version does not tell. Messages held in memory that were not sent are only counted.
    pub fn dead_letter_expired(mut self, keep: bool) -> Builder {
        self.keeps_expired = keep;
        self
    }

    /// The most bytes of messages that [`Durability::Memory`] may hold, counting 64 more for each; 64 MiB by default.
    /// Clients with the same directory share the limit. At the limit a send waits until its deadline.
    pub fn memory_limit(mut self, bytes: u64) -> Builder {
        self.memory_limit = bytes;
        self
    }

    /// How long a message's id ([`Options::id`](crate::Options::id)) counts, by this machine's clock: a further message
    /// of this client with that id on the same topic is taken for a retry, and not stored again, also after a restart
    /// or a crash; 2 minutes by default. Zero: ids do not matter. `Duration::MAX`: for ever, whatever the clock shows.
    /// The store keeps the 65,536 newest ids of a client, or one for each 1,280 bytes of
    /// [`disk_limit`](Self::disk_limit) if these are fewer; older ones are forgotten early.
    pub fn deduplicate_for(mut self, time: Duration) -> Builder {
        self.deduplicate_for = time;
        self
    }

    /// How long dropping the client waits for messages in memory to be acknowledged, which are lost otherwise; 1 s by
    /// default.
    pub fn linger(mut self, linger: Duration) -> Builder {
        self.linger = linger;
        self
    }

    /// How long dropping the client waits for handlers that run; 10 s by default. A handler that takes longer is left
    /// alone: its thread goes on, and an acknowledgement still counts.
    pub fn handler_linger(mut self, linger: Duration) -> Builder {
        self.handler_linger = linger;
        self
    }

    /// Maximum size of the store's files in bytes, including two or more spare files; at least 4 MiB, u64::MAX: without
    /// limit. By default a tenth of the file system that holds the store's directory, at least 4 MiB and at most 4 GiB;
    /// 4 GiB if the file system does not tell its size. If the store is full, a send waits until its deadline. A store
    /// that already has more is opened; sends wait until it has less. A body may use the larger of two shares: a
    /// sixteenth of the maximum, or half of the part above 16 MiB; larger bodies are TooLarge. Clients with the same
    /// directory share the store, and the first client's setting applies.
    pub fn disk_limit(mut self, bytes: u64) -> Builder {
        self.disk_limit = Some(bytes);
        self
    }

    /// The largest body sent and accepted, in bytes; 1 GiB by default. A larger one is not sent. A larger one received
    /// is given up, and its sender keeps it as a dead letter.
    pub fn max_body(mut self, bytes: usize) -> Builder {
        self.largest = bytes;
        self
    }

    /// Compresses bodies of at least this many bytes (Zstandard), if that makes them smaller by an eighth; 1 MiB by
    /// default. usize::MAX: never. Without the crate's feature `zstd` this does not exist, nothing is compressed, and a
    /// compressed message of another client is given up as unreadable.
    #[cfg(feature = "zstd")]
    pub fn compress_from(mut self, bytes: usize) -> Builder {
        self.pack_from = bytes;
        self
    }

    /// Serves the client's statistics over HTTP, for scraping: `GET /metrics` in Prometheus' text format, `GET
    /// /statistics` as JSON. The address is a port of 127.0.0.1, or `ADDRESS:PORT`; port 0 is a free one
    /// ([`Client::metrics_address`]). There is no authentication: processes that can connect to the address see names,
    /// topics and numbers, and no bodies. By default nothing is served. The start fails with Setting or Metrics if the
    /// address cannot be used.
    pub fn metrics(mut self, address: &str) -> Builder {
        self.metrics = Some(address.to_owned());
        self
    }

    /// Called for errors that no call returns: the store fails or is found damaged; a peer refuses messages, cannot be
    /// connected to, should be there and does not answer, cannot authenticate, or is of an earlier version and gets
    /// messages without their ids and headers. Problems with peers are told within 5 s, and once until they change. It
    /// runs on a thread of the library, one call at a time, and not after the client was closed, which waits for it;
    /// signals are as in a handler of [`Client::listen`]. While a call takes long, up to 1,000 errors wait; later ones
    /// are dropped.
    pub fn on_error(mut self, notify: impl Fn(&Error) + Send + Sync + 'static) -> Builder {
        self.notify = Arc::new(notify);
        self
    }

    /// Opens a damaged store without its damaged parts.
    pub fn skip_damage(mut self) -> Builder {
        self.skip_damage = true;
        self
    }

    /// Starts the client.
    pub fn start(self) -> Result<Client, Error> {
        self.check()?;
        let mut this = self.read_files()?;
        let path = this.data_dir.clone().unwrap_or_else(|| paths::store_of(&this.name));
        this.choose_disk_limit(&path)?;
        let open = if this.presence == Presence::Drained { Instance::open_unasked } else { Instance::open };
        this.start_in(&open(&path, this.settings())?)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { interval: self.interval, most: self.most_on_disk(), skip_damage: self.skip_damage }
    }

    /// Starts the client in an instance.
    pub(super) fn start_in(&self, instance: &Arc<Instance>) -> Result<Client, Error> {
        let registry = self.registry_url();
        let watch = registry.as_deref().map(Watch::open).transpose()?;
        self.start_with(instance, watch, registry)
    }

    /// Starts the client in an instance, with a registry that is open.
    pub(crate) fn start_with(
        &self,
        instance: &Arc<Instance>,
        watch: Option<Arc<Watch>>,
        registry: Option<String>,
    ) -> Result<Client, Error> {
        let hold = instance.take_name(&self.name)?;
        let id = random().map_err(|error| Error::Io(error.kind()))?;
        let signals = Mask::current();
        let reports = Reports::new(self.notify.clone(), signals, instance.store.log().workers());
        let record = instance.store.claim(&self.name, id)?;
        let keys = self.keyring();
        let (listener, endpoint) = self.listener(instance, record.number, id, keys.as_ref())?;
        let (doorbell, number) = (instance.doorbell.clone(), record.number);
        let inbox =
            Arc::new(Inbox::new(self.retry, self.largest, Box::new(move || doorbell.ring_for(number))));
        if self.presence == Presence::Member {
            instance.store.set_sender_settings(number, &self.sender_settings(registry.as_deref()))?;
            inbox.load_counts(instance.store.begin_receiving(number));
        } else {
            inbox.close();
        }
        let registration = Registration::new(number, hold, instance, inbox.clone());
        instance.peer_loop.tell(Command::Add(Box::new(Listening {
            client: record.clone(),
            listener,
            inbox: inbox.clone(),
            keys,
            notify: reports.notify(),
            patience: self.patience,
            limits: self.limits,
            keeps_expired: self.keeps_expired,
        })));
        let trouble = Trouble::default();
        let collector = self.collector(number, &inbox, &trouble);
        let before = instance.store.subscriptions(record.number);
        let entry = self.entry(&record, &endpoint, before);
        let client = Client {
            record,
            endpoint,
            instance: instance.clone(),
            metrics: self.serve(&collector, instance)?,
            collector,
            inbox,
            reports,
            registration,
            closed: AtomicBool::new(false),
            end: End::default(),
            observer: (self.presence != Presence::Member).then_some(id),
            routes: Arc::default(),
            members_changed: Arc::default(),
            watch,
            handlers: Mutex::default(),
            entry: Mutex::new(entry.clone()),
            memory_limit: self.memory_limit,
            deduplicate_for: self.deduplicate_for,
            linger: self.linger,
            handler_linger: self.handler_linger,
            largest: self.largest,
            pack_from: self.pack_from,
            trouble,
            registry,
            signals,
        };
        self.join(&client, entry)?;
        Ok(client)
    }

    /// The client's entry in the registry. `before`: what its store has recorded.
    fn entry(&self, record: &ClientRecord, endpoint: &str, before: Subscriptions) -> Entry {
        Entry {
            name: self.name.clone(),
            id: record.id,
            endpoint: self.advertised.clone().unwrap_or_else(|| endpoint.to_owned()),
            topics: self.topics_with(before.topics),
            lease: self.lease,
            // The registry's thread may have raised the last version, and does not record that.
            version: entry_version(before.version + CORRECTIONS),
            lasting: self.lasting,
        }
    }

    fn keyring(&self) -> Option<Arc<Keyring>> {
        let keyring = |own: &KeyPair| Keyring { own: own.clone(), others: self.trusted.clone() };
        self.keys.as_ref().map(|own| Arc::new(keyring(own)))
    }

    /// The listener, and its endpoint.
    fn listener(
        &self,
        instance: &Arc<Instance>,
        client: u32,
        id: Id,
        keys: Option<&Arc<Keyring>>,
    ) -> Result<(Box<dyn Listener>, String), Error> {
        if self.presence != Presence::Member {
            return Ok((Box::new(NoListener), String::new()));
        }
        let own = || format!("ipc://@pinnace-{:032x}", u128::from_ne_bytes(id));
        let endpoint = self.endpoint.clone().unwrap_or_else(own);
        instance.network.listen(client, &endpoint, keys).map_err(Error::Endpoint)
    }

    /// Joins the registry, if there is one.
    fn join(&self, client: &Client, entry: Entry) -> Result<(), Error> {
        let tell = client.teller(self.peers.clone());
        tell(&Arc::default());
        let Some(watch) = &client.watch else { return Ok(()) };
        if let Some(id) = client.observer {
            let patience = if self.presence == Presence::Drained { Duration::ZERO } else { JOIN_TIMEOUT };
            watch.observe(id, tell, client.trouble.clone(), patience);
            return Ok(());
        }
        // On the disk first: a client that is killed later starts with these topics.
        client.record_subscriptions(&entry)?;
        Ok(watch.join(entry, tell, client.trouble.clone())?)
    }

    /// All topics of the settings, and those that a durable client listened on before; sorted.
    fn topics_with(&self, mut topics: Vec<String>) -> Vec<String> {
        topics.retain(|_| self.lasting == Lasting::Durable);
        topics.extend([std::slice::from_ref(&self.topic), &self.topics].concat());
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// The address of the registry; None: `none`.
    fn registry_url(&self) -> Option<String> {
        Some(self.registry.clone().unwrap_or_else(paths::registry)).filter(|url| url != "none")
    }
}
