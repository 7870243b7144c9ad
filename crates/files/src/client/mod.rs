//! A client of a file server.

mod fetch;
mod listing;
mod operation;
mod task;
mod window;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pinnace_engine::{Context, PollTarget, SocketType};
use pinnace_eventloop::{EventLoop, Handle};

use crate::error::{Error, FileError};
use crate::transfer::digest::Digest;
use crate::transfer::place::Place;
use crate::wire::Message;
use fetch::Fetch;
pub use listing::Listed;
use listing::Listing;
use operation::Operation;
use task::{ClientTask, Command, Settings};

/// What happens during a transfer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A name, in a listing.
    Listed(Listed),
    /// A file begins that is not sent in one piece.
    Begun { path: String, size: u64 },
    /// So many more octets are written.
    Progress { bytes: u64 },
    /// A file is whole and in its place.
    Finished { path: String, size: u64, digest: Digest },
    /// A file failed; the others go on.
    Failed { path: String, error: FileError },
    /// The transfer is complete.
    Ended(Report),
    /// The transfer has ended before it was complete.
    Aborted(Error),
}

/// What a transfer has come to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Files that were received, and their octets.
    pub files: u64,
    pub bytes: u64,
    /// Files that failed, and why.
    pub failed: Vec<(String, FileError)>,
}

/// A connection to a server.
pub struct Client {
    dialogue: Arc<Dialogue>,
}

/// The connection, for as long as a client or transfer needs it.
struct Dialogue {
    task: Handle<ClientTask>,
    last: AtomicU64,
    /// Dropped after the task.
    _events: EventLoop<ClientTask>,
    _context: Context,
}

/// Settings of a client that is to connect.
pub struct ClientBuilder {
    endpoint: String,
    settings: Settings,
}

impl ClientBuilder {
    /// How long the server may take to answer [default: 10 s].
    pub fn patience(mut self, patience: Duration) -> ClientBuilder {
        self.settings.patience = patience;
        self
    }

    /// The largest window, in bytes, at least 1 MiB [default: 16 MiB]. A link with a bandwidth of B bytes a second and
    /// a round trip of R seconds needs B * R.
    pub fn window_max(mut self, bytes: u64) -> ClientBuilder {
        self.settings.window_max = bytes.max(1 << 20);
        self
    }

    /// The most octets of a chunk, from 1 to 1 MiB [default: 256 KiB].
    pub fn chunk(mut self, octets: u32) -> ClientBuilder {
        self.settings.chunk = octets.clamp(1, 1 << 20);
        self
    }

    /// Connects, in the background. Errors: the endpoint is invalid; no descriptors or memory are left.
    pub fn connect(self) -> Result<Client, Error> {
        let ClientBuilder { endpoint, settings } = self;
        let context = Context::new()?;
        let events = EventLoop::start("files-client")?;
        let socket = context.socket(SocketType::Dealer)?;
        socket.configure(|options| {
            options.linger = Some(Duration::from_millis(100));
            // Credit limits what is under way.
            (options.sndhwm, options.rcvhwm) = (0, 0);
            options.heartbeat_ivl = Duration::from_secs(5);
            options.reconnect_ivl_max = Duration::from_secs(1);
            // Tells the task that the connection was lost, and is there again.
            options.hiccup_msg = Some(Message::GREETING.to_frame());
        })?;
        socket.connect(&endpoint)?;
        let slot = events.slot();
        slot.interest().add(PollTarget::Socket(socket), ())?;
        let task = slot.run(ClientTask::new(socket, &endpoint, settings));
        Ok(Client {
            dialogue: Arc::new(Dialogue {
                task,
                last: AtomicU64::new(0),
                _events: events,
                _context: context,
            }),
        })
    }
}

impl Client {
    /// Settings of a client of the server at `endpoint`.
    pub fn builder(endpoint: &str) -> ClientBuilder {
        let settings = Settings { patience: Duration::from_secs(10), window_max: 16 << 20, chunk: 256 << 10 };
        ClientBuilder { endpoint: endpoint.to_owned(), settings }
    }

    /// Connects with the default settings.
    pub fn connect(endpoint: &str) -> Result<Client, Error> {
        Client::builder(endpoint).connect()
    }

    /// Fetches a file or a directory with all below it. `path`: a virtual path of the server, such as `/data/a`.
    /// `to`: the file's name here, or a directory that it goes into; for a directory, the one that gets its content.
    pub fn get(&self, path: &str, to: &Path) -> Transfer {
        self.fetch(path, Place::Path(to.to_owned()))
    }

    /// As `get`, but discards what arrives once it is verified.
    pub fn discard(&self, path: &str) -> Transfer {
        self.fetch(path, Place::Discarded)
    }

    fn fetch(&self, path: &str, place: Place) -> Transfer {
        let (events, received) = channel();
        self.start(Box::new(Fetch::new(path.as_bytes(), place, events)), received)
    }

    /// Lists the names below a path. In the report `files` counts all names.
    pub fn list(&self, path: &str) -> Transfer {
        let (events, received) = channel();
        self.start(Box::new(Listing::new(path.as_bytes(), events)), received)
    }

    fn start(&self, what: Box<dyn Operation>, received: Receiver<Event>) -> Transfer {
        let operation = self.dialogue.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.dialogue.task.send(Command::Start { operation, what });
        Transfer { operation, events: received, dialogue: self.dialogue.clone() }
    }
}

/// A transfer that is under way.
pub struct Transfer {
    operation: u64,
    events: Receiver<Event>,
    dialogue: Arc<Dialogue>,
}

impl Transfer {
    /// Waits for the next event. None: the transfer is over.
    pub fn next_event(&self) -> Option<Event> {
        self.events.recv().ok()
    }

    /// Waits until the transfer is over. Errors: it was not completed. Files that failed are in the report.
    pub fn wait(self) -> Result<Report, Error> {
        loop {
            match self.next_event() {
                Some(Event::Ended(report)) => return Ok(report),
                Some(Event::Aborted(error)) => return Err(error),
                Some(_) => {}
                None => return Err(Error::Cancelled),
            }
        }
    }

    /// Ends the transfer.
    pub fn cancel(&self) {
        self.canceller()();
    }

    /// Ends the transfer when it is called, on any thread.
    pub fn canceller(&self) -> impl Fn() + Send + 'static {
        let (dialogue, operation) = (self.dialogue.clone(), self.operation);
        move || dialogue.task.send(Command::Cancel { operation })
    }
}
