//! An agent sends the pending messages of stores whose process is gone, so that a sender may exit after sending.
//!
//! It watches directories of stores. It opens each store there that no process has open, that has pending messages for
//! a receiver that lives, and that is not damaged. It sends for the store's own clients, by the settings that they have
//! recorded in it, and closes the store when nothing is pending. It receives nothing, is not in a registry, and changes
//! no subscription. A process that opens a store while an agent has it gets it at once (`handover`).
//!
//! ```no_run
//! use pinnace_delivery::agent::Agent;
//!
//! let agent = Agent::builder()
//!     .dir("/var/lib/shop/stores")
//!     .on_problem(|store, problem| eprintln!("{}: {problem}", store.display()));
//! let agent = agent.start().map_err(|(dir, error)| format!("{}: {error}", dir.display()))?;
//! // Until the agent is dropped, which closes its stores.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Guarantees: a store is open in one process at a time, by the lock that every process takes; so an agent that is
//! killed at any moment loses no more than a sender that is killed, which is nothing. An agent must be the only user of
//! its stores in its process: clients of one process share a store.
//!
//! | module | what it is |
//! | --- | --- |
//! | `task` | the event loop's task: which stores to open and to close |
//! | `stores` | what the agent knows of each store |
//! | `plan` | what there is to send in a store |
//! | `drain` | a store that is open |
//! | `handover` | how an owner takes its store back |

mod drain;
pub(crate) mod handover;
mod plan;
mod stores;
mod task;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use pinnace_crypto::{KeyPair, PublicKey};
use pinnace_eventloop::{Doorbell, EventLoop, Handle};

use crate::log::Directory;
use crate::statistics::{OpenClients, StatisticsServer};
use crate::{Error, paths};
use plan::Secrets;
use task::{AgentTask, Event};

/// The most stores that are open at once, by default.
const OPEN_MAX: usize = 32;

/// Called on the agent's threads with the store, or the directory, that a problem concerns.
pub(crate) type OnProblem = Arc<dyn Fn(&Path, &Problem) + Send + Sync>;

/// Why messages of a store are not sent. It is tried again when the store changes; all but damage also every 30 s.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Damaged: the store is left alone. Refused, NoAnswer, Unreachable, Copied: as of
    /// [`Builder::on_error`](crate::Builder::on_error), and the agent goes on. Others: it cannot be opened or read.
    Error(Error),
    /// The settings of this client are not in the store: an earlier version has written it.
    NoSettings(String),
    /// The agent was not given the password of this registry.
    NoPassword(String),
    /// The agent was not given the secret key of this client's public key.
    NoKey(String, PublicKey),
    /// The store belongs to another user.
    OtherUser,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Error(error) => error.fmt(f),
            Problem::NoSettings(client) => {
                write!(f, "the settings of {client} are not recorded: start it once with this version")
            }
            Problem::NoPassword(url) => write!(f, "the password of its registry {url} is not known"),
            Problem::NoKey(client, key) => {
                write!(f, "the secret key of {client} is not known; its public key is ")?;
                key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Problem::OtherUser => f.write_str("the store belongs to another user"),
        }
    }
}

/// Sends problems and events to the task.
#[derive(Clone)]
struct Reporter {
    events: Sender<Event>,
    doorbell: Arc<Doorbell>,
    /// The clients of open stores.
    open: OpenClients,
}

impl Reporter {
    fn tell(&self, event: Event) {
        // The task may have ended.
        let _ = self.events.send(event);
        self.doorbell.ring();
    }

    fn error(&self, store: &Path, error: &Error) {
        self.tell(Event::Problem(store.to_owned(), error.clone()));
    }
}

/// An agent to be started.
pub struct AgentBuilder {
    folders: Vec<PathBuf>,
    secrets: Secrets,
    most_open: usize,
    metrics: Option<String>,
    on_problem: OnProblem,
}

/// A running agent. Dropping it closes its stores, and returns when they are closed.
pub struct Agent {
    _handle: Handle<AgentTask>,
    metrics: Option<StatisticsServer>,
}

impl Agent {
    pub fn builder() -> AgentBuilder {
        AgentBuilder {
            folders: Vec::new(),
            secrets: Secrets::default(),
            most_open: OPEN_MAX,
            metrics: None,
            on_problem: Arc::new(|_, _| {}),
        }
    }
}

impl AgentBuilder {
    /// A directory whose entries are stores; can be repeated. By default the user's ([`paths::stores`]). It is created
    /// if it is missing. Stores behind symbolic links are not entries.
    pub fn dir(mut self, path: impl Into<PathBuf>) -> AgentBuilder {
        self.folders.push(path.into());
        self
    }

    /// The address of a registry with its password, for stores that have recorded it without; can be repeated.
    pub fn registry(mut self, url: &str) -> AgentBuilder {
        self.secrets.registries.push(url.to_owned());
        self
    }

    /// The keys of a client that uses CURVE; can be repeated.
    pub fn curve(mut self, keys: &KeyPair) -> AgentBuilder {
        self.secrets.keys.push(keys.clone());
        self
    }

    /// The most stores to have open at once, at least 1; 32 by default. While others wait, a store that makes no
    /// progress for 5 s is closed, and has to wait.
    pub fn most_open(mut self, stores: usize) -> AgentBuilder {
        self.most_open = stores.max(1);
        self
    }

    /// Serves the statistics of the clients whose stores are open, as [`Builder::metrics`](crate::Builder::metrics): in
    /// Prometheus' format with the label `store`, as JSON an object with the list `clients`, whose
    /// members have `dir` besides.
    pub fn metrics(mut self, address: &str) -> AgentBuilder {
        self.metrics = Some(address.to_owned());
        self
    }

    /// Called for each problem when it comes up, on the agent's thread.
    pub fn on_problem(mut self, notify: impl Fn(&Path, &Problem) + Send + Sync + 'static) -> AgentBuilder {
        self.on_problem = Arc::new(notify);
        self
    }

    /// Starts the agent. Errors, with the directory: InUse, another agent drains it; Setting, it is a store itself, or
    /// the address of `metrics` is invalid; Metrics; Io.
    pub fn start(self) -> Result<Agent, (PathBuf, Error)> {
        let mut wanted = self.folders;
        if wanted.is_empty() {
            wanted.push(paths::stores());
        }
        let of_thread = |error: pinnace_engine::Error| (wanted[0].clone(), Error::Endpoint(error));
        let slot = EventLoop::start("pinnace-agent").map_err(of_thread)?.slot();
        let (sender, received) = std::sync::mpsc::channel();
        let open = OpenClients::default();
        let metrics = self.metrics.as_ref();
        let metrics = metrics.map(|address| StatisticsServer::start(address, open.clone())).transpose();
        let metrics = metrics.map_err(|error| (wanted[0].clone(), error))?;
        let reporter = Reporter { events: sender, doorbell: slot.doorbell(), open };
        let mut folders: Vec<task::StoreFolder> = Vec::new();
        for path in &wanted {
            let failed = |error: std::io::Error| (path.clone(), Error::Io(error.kind()));
            Directory::make(path).map_err(failed)?;
            let path = path.canonicalize().map_err(failed)?;
            if !folders.iter().any(|folder| folder.path == path) {
                folders.push(task::StoreFolder::open(&path).map_err(|error| (path.clone(), error))?);
            }
        }
        let task = AgentTask::new(task::Setup {
            folders,
            interest: slot.interest(),
            events: received,
            reporter,
            secrets: self.secrets,
            most_open: self.most_open,
            on_problem: self.on_problem,
        });
        let task = task.map_err(|error| (wanted[0].clone(), Error::Io(error.kind())))?;
        Ok(Agent { _handle: slot.run(task), metrics })
    }
}

impl Agent {
    /// Where statistics are served ([`AgentBuilder::metrics`]); None: nowhere.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(StatisticsServer::address)
    }
}
