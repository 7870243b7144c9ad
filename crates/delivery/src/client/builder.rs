//! A client that is to be: what is settled before it starts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinnace_crypto::{KeyPair, PublicKey};
use pinnace_sys::signals::Mask;

use super::Client;
use crate::Error;
use crate::carrier::{self, Command, Keyring, Listening, Notify};
use crate::depot::{self, Depot};
use crate::inbox::{Inbox, Retry};
use crate::log::Settings;
use crate::places;
use crate::registry::{Entry, Member, Trouble, Watch};
use crate::wire::NAME_MAX;

/// The fewest bytes of files that a store goes on with.
const DISK_LEAST: u64 = 4 << 20;

/// A client that is to be.
pub struct Builder {
    name: String,
    topic: String,
    endpoint: Option<String>,
    advertised: Option<String>,
    data_dir: Option<PathBuf>,
    registry: Option<String>,
    lease: Duration,
    peers: Vec<Member>,
    interval: Duration,
    disk_limit: u64,
    skip_damage: bool,
    keys: Option<KeyPair>,
    trusted: HashMap<String, PublicKey>,
    notify: Notify,
    patience: Option<Duration>,
    retry: Retry,
    memory_limit: u64,
    linger: Duration,
    largest: usize,
    pack_from: usize,
}

impl Builder {
    pub(super) fn new(name: &str, topic: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            topic: topic.to_owned(),
            endpoint: None,
            advertised: None,
            data_dir: None,
            registry: None,
            lease: Duration::from_secs(10),
            peers: Vec::new(),
            interval: Duration::from_millis(100),
            disk_limit: u64::MAX,
            skip_damage: false,
            keys: None,
            trusted: HashMap::new(),
            notify: Arc::new(|_| {}),
            patience: Some(Duration::from_secs(30)),
            memory_limit: 64 << 20,
            linger: Duration::from_secs(1),
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

    /// Where others reach it: an endpoint of ZeroMQ's; by default a local socket (zmq_ipc(7)) with an abstract name of
    /// its own, which processes of the same host reach. `tcp://127.0.0.1:*` is a free port, `tcp://*:5555` one for all.
    pub fn listen(mut self, endpoint: &str) -> Builder {
        self.endpoint = Some(endpoint.to_owned());
        self
    }

    /// Where others are told to reach it; by default where it listens. For who is behind a name, a port that is
    /// forwarded, or an address of all interfaces.
    pub fn advertise(mut self, endpoint: &str) -> Builder {
        self.advertised = Some(endpoint.to_owned());
        self
    }

    /// The directory of its store. Clients of one process with the same directory share a store.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Builder {
        self.data_dir = Some(path.into());
        self
    }

    /// Where clients know of each other: `dir://PATH`, a directory that the processes of one host share, or
    /// `sqlite://PATH`, or a server that hosts share, `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` (`rediss://` for
    /// TLS), or `none`, where only those are known that are given ([`Builder::peer`]). By default a directory of the
    /// user's. A server need not be there: see [`Client::registry_error`].
    pub fn registry(mut self, url: &str) -> Builder {
        self.registry = Some(url.to_owned());
        self
    }

    /// How long the name stays this client's where it says nothing, in a registry that goes by the clock; 10 s by
    /// default.
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.lease = lease;
        self
    }

    /// Another client that is known beforehand.
    pub fn peer(mut self, name: &str, endpoint: &str, topics: &[&str]) -> Builder {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let (name, endpoint) = (name.to_owned(), endpoint.to_owned());
        self.peers.push(Member { name, id: None, endpoint, topics });
        self
    }

    /// How long what was sent with [`Durability::Interval`] may be away from the disk; 100 ms by default.
    pub fn interval(mut self, interval: Duration) -> Builder {
        self.interval = interval;
        self
    }

    /// How long to wait before a message that failed is delivered again: at first, and at most; 100 ms and a minute by
    /// default. Each wait is twice the last, give or take a quarter.
    pub fn retry(mut self, first: Duration, most: Duration) -> Builder {
        (self.retry.first, self.retry.most) = (first, most);
        self
    }

    /// How long a handler may take from a message's delivery to its acknowledgement; by default as long as it likes.
    /// After that it has failed, and another may get it; an acknowledgement that comes late still counts.
    /// [`Delivery::in_progress`] asks for more time.
    pub fn ack_within(mut self, time: Duration) -> Builder {
        self.retry.within = Some(time);
        self
    }

    /// Lets others of its stream go first while a message that failed waits: it is out of order then, and no other. By
    /// default the stream waits with it.
    pub fn skip_failing(mut self) -> Builder {
        self.retry.skips = true;
        self
    }

    /// How long what was sent to one of a topic's clients ([`Client::send_to`]) waits for that one when it is away, by
    /// what the registry says, before another of them gets it, out of order and perhaps once more; 30 s by default.
    /// None: for ever.
    pub fn reassign_after(mut self, time: Option<Duration>) -> Builder {
        self.patience = time;
        self
    }

    /// After so many deliveries a message is given up, and its sender keeps it as a dead letter: it is sent on the
    /// topic of that name with `.dead` behind it. By default none is.
    pub fn max_deliveries(mut self, deliveries: u32) -> Builder {
        self.retry.deliveries = Some(deliveries.max(1));
        self
    }

    /// How many bytes of messages [`Durability::Memory`] may keep, with 64 for each; 64 MiB by default. All clients
    /// with the same directory share them. A send that finds no room waits, until its deadline.
    pub fn memory_limit(mut self, bytes: u64) -> Builder {
        self.memory_limit = bytes;
        self
    }

    /// How long dropping the client waits for messages in memory to be acknowledged, which are lost otherwise; 1 s by
    /// default.
    pub fn linger(mut self, linger: Duration) -> Builder {
        self.linger = linger;
        self
    }

    /// How many bytes of files the store may have, of which two or more are spare; 4 MiB at least, and as many as
    /// there are by default. A send that finds no room waits, until its deadline. A body takes a sixteenth of them at
    /// most, or half of what is beyond 16 MiB: a larger one is TooLarge. All clients with the same directory share
    /// them, and the first decides.
    pub fn disk_limit(mut self, bytes: u64) -> Builder {
        self.disk_limit = bytes;
        self
    }

    /// The largest body that is sent and taken, in bytes; 1 GiB by default. A larger one is not sent; one that comes is
    /// given up, and its sender keeps it as a dead letter.
    pub fn max_body(mut self, bytes: usize) -> Builder {
        self.largest = bytes;
        self
    }

    /// From how many bytes on bodies are compressed (Zstandard), where that makes them smaller by an eighth; 1 MiB by
    /// default. usize::MAX: never.
    pub fn compress_from(mut self, bytes: usize) -> Builder {
        self.pack_from = bytes;
        self
    }

    /// Has all that this client says and hears encrypted, by CURVE (RFC 26) with these keys. It speaks to those alone
    /// that [`trust`](Self::trust) names; nobody else can say to be one of them.
    pub fn curve(mut self, keys: &KeyPair) -> Builder {
        self.keys = Some(keys.clone());
        self
    }

    /// The public key of another client.
    pub fn trust(mut self, name: &str, key: &PublicKey) -> Builder {
        self.trusted.insert(name.to_owned(), *key);
        self
    }

    /// Has what goes wrong where no call says it told: the store fails or is found to be damaged, another client
    /// refuses what this one sends or cannot be connected to. It is called on a thread of the library's, which waits
    /// for it, and so does everything; signals are as in a handler of [`Client::listen`].
    pub fn on_error(mut self, notify: impl Fn(&Error) + Send + Sync + 'static) -> Builder {
        self.notify = Arc::new(notify);
        self
    }

    /// Opens a damaged store, without what is damaged.
    pub fn skip_damage(mut self) -> Builder {
        self.skip_damage = true;
        self
    }

    pub fn start(self) -> Result<Client, Error> {
        if self.name.is_empty() || self.name.len() > NAME_MAX || self.topic.len() > NAME_MAX {
            return Err(Error::Name);
        }
        self.check()?;
        let path = self.data_dir.clone().unwrap_or_else(|| places::store_of(&self.name));
        self.start_in(&Depot::open(&path, self.settings())?)
    }

    /// Whether each setting makes sense, and with the others.
    fn check(&self) -> Result<(), Error> {
        let Retry { first, most, .. } = self.retry;
        match () {
            () if self.disk_limit < DISK_LEAST => Err(Error::Setting("disk_limit is 4 MiB at least")),
            () if self.largest == 0 => Err(Error::Setting("max_body is a byte at least")),
            () if first > most => Err(Error::Setting("the first wait of retry is longer than the most")),
            () if self.peers.iter().any(|peer| peer.name == self.name) => {
                Err(Error::Setting("a peer has the client's own name"))
            }
            () => Ok(()),
        }?;
        if let Some(endpoint) = &self.advertised {
            pinnace_engine::check_endpoint(endpoint).map_err(Error::Endpoint)?;
        }
        for peer in &self.peers {
            let Member { name, endpoint, topics, .. } = peer;
            if name.is_empty() || topics.iter().chain([name]).any(|word| word.len() > NAME_MAX) {
                return Err(Error::Name);
            }
            let unreachable = |error| Error::Unreachable { peer: name.clone(), error };
            pinnace_engine::check_endpoint(endpoint).map_err(unreachable)?;
        }
        Ok(())
    }

    pub(super) fn settings(&self) -> Settings {
        Settings { interval: self.interval, most: self.disk_limit, skip_damage: self.skip_damage }
    }

    /// Starts it as one of the clients of a depot.
    pub(super) fn start_in(&self, depot: &Arc<Depot>) -> Result<Client, Error> {
        depot.take_name(&self.name)?;
        let started = self.start_with_name(depot);
        if started.is_err() {
            depot.give_name_back(&self.name);
        }
        started
    }

    fn start_with_name(&self, depot: &Arc<Depot>) -> Result<Client, Error> {
        let id = pinnace_sys::random::bytes().map_err(|error| Error::Io(error.kind()))?;
        let (signals, notify) = (Mask::current(), self.notify.clone());
        let registry = self.registry_url();
        let watch = registry.as_deref().map(Watch::open).transpose()?;
        let record = depot.store.claim(&self.name, id)?;
        let keyring = |own: &KeyPair| Keyring { own: own.clone(), others: self.trusted.clone() };
        let keys = self.keys.as_ref().map(|own| Arc::new(keyring(own)));
        let own = || format!("ipc://@pinnace-{:032x}", u128::from_ne_bytes(id));
        let endpoint = self.endpoint.clone().unwrap_or_else(own);
        let (socket, endpoint) =
            carrier::listen(&depot::context()?, &endpoint, keys.as_ref()).map_err(Error::Endpoint)?;
        let (bell, number) = (depot.bell.clone(), record.number);
        let inbox = Arc::new(Inbox::new(self.retry, self.largest, Box::new(move || bell.ring_for(number))));
        depot.carrier.tell(Command::Add(Box::new(Listening {
            client: record.clone(),
            socket,
            inbox: inbox.clone(),
            keys,
            notify: Arc::new(move |error| signals.during(|| notify(error))),
            patience: self.patience,
        })));
        let entry = Entry {
            name: self.name.clone(),
            id: record.id,
            endpoint: self.advertised.clone().unwrap_or_else(|| endpoint.clone()),
            topics: vec![self.topic.clone()],
            lease: self.lease,
        };
        let client = Client {
            record,
            endpoint,
            depot: depot.clone(),
            inbox,
            closed: AtomicBool::new(false),
            routes: Arc::default(),
            watch,
            handlers: Mutex::default(),
            entry: Mutex::new(entry.clone()),
            memory_limit: self.memory_limit,
            linger: self.linger,
            largest: self.largest,
            pack_from: self.pack_from,
            trouble: Trouble::default(),
            registry,
            signals,
        };
        let tell = client.teller(self.peers.clone());
        tell(&Arc::default());
        if let Some(watch) = &client.watch {
            watch.join(entry, tell, client.trouble.clone())?;
        }
        Ok(client)
    }

    /// The address of the registry, where there is one.
    fn registry_url(&self) -> Option<String> {
        Some(self.registry.clone().unwrap_or_else(places::registry)).filter(|url| url != "none")
    }
}
