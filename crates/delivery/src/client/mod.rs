//! A client: it sends to topics, and receives what others send to those that it listens on.

mod receive;
mod send;

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::carrier::{self, Command};
use crate::depot::{self, Depot};
use crate::inbox::{Inbox, Retry};
use crate::log::{Damage, Settings};
use crate::registry::{Entry, Member, Tell, Watch, file_name};
use crate::store::records;
use crate::wire::NAME_MAX;
pub use receive::{Dead, Delivery};
use send::Routes;
pub use send::{Durability, Options, Ticket};

/// A client that is to be.
pub struct Builder {
    name: String,
    topic: String,
    endpoint: String,
    data_dir: Option<PathBuf>,
    registry: Option<String>,
    lease: Duration,
    peers: Vec<Member>,
    interval: Duration,
    skip_damage: bool,
    retry: Retry,
    memory_limit: u64,
    linger: Duration,
}

/// A client. Its calls may come from any thread.
pub struct Client {
    record: records::Client,
    endpoint: String,
    depot: Arc<Depot>,
    inbox: Arc<Inbox>,
    routes: Arc<Mutex<Routes>>,
    /// The registry, and what this client says of itself there.
    watch: Option<Arc<Watch>>,
    entry: Mutex<Entry>,
    memory_limit: u64,
    linger: Duration,
}

impl Builder {
    /// Where others reach it: an endpoint of ZeroMQ's; by default a free port of the loopback interface.
    pub fn listen(mut self, endpoint: &str) -> Builder {
        self.endpoint = endpoint.to_owned();
        self
    }

    /// The directory of its store. Clients of one process with the same directory share a store.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Builder {
        self.data_dir = Some(path.into());
        self
    }

    /// Where clients know of each other: `dir://PATH`, a directory that the processes of one host share, or
    /// `sqlite://PATH`, or `none`, where only those are known that are given ([`Builder::peer`]). By default a
    /// directory of the user's.
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

    /// Opens a damaged store, without what is damaged.
    pub fn skip_damage(mut self) -> Builder {
        self.skip_damage = true;
        self
    }

    pub fn start(self) -> Result<Client, Error> {
        if self.name.is_empty() || self.name.len() > NAME_MAX || self.topic.len() > NAME_MAX {
            return Err(Error::Name);
        }
        let path =
            self.data_dir.clone().unwrap_or_else(|| state_dir().join("delivery").join(file_name(&self.name)));
        let settings = Settings { interval: self.interval, skip_damage: self.skip_damage };
        let depot = Depot::open(&path, settings)?;
        depot.take_name(&self.name)?;
        let started = self.start_in(&depot);
        if started.is_err() {
            depot.give_name_back(&self.name);
        }
        started
    }

    fn start_in(&self, depot: &Arc<Depot>) -> Result<Client, Error> {
        let id = pinnace_sys::random::bytes().map_err(|error| Error::Io(error.kind()))?;
        let record = depot.store.claim(&self.name, id)?;
        let (socket, endpoint) =
            carrier::listen(&depot::context()?, &self.endpoint).map_err(Error::Endpoint)?;
        let (bell, number) = (depot.bell.clone(), record.number);
        let inbox = Arc::new(Inbox::new(self.retry, Box::new(move || bell.ring_for(number))));
        depot.carrier.tell(Command::Add { client: record.clone(), socket, inbox: inbox.clone() });
        let entry = Entry {
            name: self.name.clone(),
            id: record.id,
            endpoint: endpoint.clone(),
            topics: vec![self.topic.clone()],
            lease: self.lease,
        };
        let client = Client {
            record,
            endpoint,
            depot: depot.clone(),
            inbox,
            routes: Arc::default(),
            watch: self.watch()?,
            entry: Mutex::new(entry.clone()),
            memory_limit: self.memory_limit,
            linger: self.linger,
        };
        let tell = client.teller(self.peers.clone());
        match &client.watch {
            Some(watch) => watch.join(entry, tell)?,
            None => tell(&Arc::default()),
        }
        Ok(client)
    }

    fn watch(&self) -> Result<Option<Arc<Watch>>, Error> {
        let own = || format!("dir://{}", state_dir().join("registry").display());
        Ok(match self.registry.clone().unwrap_or_else(own).as_str() {
            "none" => None,
            url => Some(Watch::open(url)?),
        })
    }
}

/// Where this user's programs keep what they have to remember (XDG Base Directory Specification).
fn state_dir() -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("pinnace")
}

impl Client {
    /// A client of this name, which no other has, that listens on a topic of its own.
    pub fn builder(name: &str, topic: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            topic: topic.to_owned(),
            endpoint: "tcp://127.0.0.1:*".to_owned(),
            data_dir: None,
            registry: None,
            lease: Duration::from_secs(10),
            peers: Vec::new(),
            interval: Duration::from_millis(100),
            skip_damage: false,
            memory_limit: 64 << 20,
            linger: Duration::from_secs(1),
            retry: Retry {
                first: Duration::from_millis(100),
                most: Duration::from_secs(60),
                deliveries: None,
            },
        }
    }

    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What was damaged in its store when that was opened, and left out ([`Builder::skip_damage`]).
    pub fn damage(&self) -> &[Damage] {
        &self.depot.store.damage
    }

    /// Where others reach it.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
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

    /// What to do with the news who is there.
    fn teller(&self, given: Vec<Member>) -> Tell {
        let (routes, depot, client) = (self.routes.clone(), Arc::downgrade(&self.depot), self.record.number);
        Box::new(move |members| {
            let Some(depot) = depot.upgrade() else { return };
            let members = Arc::new(members.with(&given));
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
            // Where the registry does not answer its lease ends.
            let _ = watch.leave(&self.record.name, self.record.id);
        }
        self.inbox.close();
        let (done, removed) = channel();
        self.depot.carrier.tell(Command::Remove { client: self.record.number, done });
        // An error: the carrier has ended, and with it all there was to remove.
        let _ = removed.recv();
        self.depot.give_name_back(&self.record.name);
    }
}
