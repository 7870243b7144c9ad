//! A client of a file server.

mod task;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use pinnace_engine::{Context, PollTarget, SocketType};
use pinnace_eventloop::{EventLoop, Handle};

use crate::dialogue::events::{EventSender, Events};
use crate::dialogue::fetch::Fetch;
pub use crate::dialogue::listing::Listed;
use crate::dialogue::listing::Listing;
use crate::dialogue::operation::Operation;
use crate::dialogue::requester::Limits;
use crate::dialogue::upload::Upload;
pub use crate::dialogue::{Event, Report};
use crate::error::{Code, Error, FileError};
use crate::rules::Rules;
use crate::transfer::filter::Selection;
use crate::transfer::place::Place;
use crate::tree::Folder;
use crate::tree::disk::DiskFolder;
use crate::tree::single::Single;
use crate::wire::Message;
use task::{ClientTask, Command, Offer, Settings};

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
        self.settings.limits.window_max = bytes.max(1 << 20);
        self
    }

    /// The most octets of a chunk, from 1 to 1 MiB [default: 256 KiB].
    pub fn chunk(mut self, octets: u32) -> ClientBuilder {
        self.settings.limits.chunk = octets.clamp(1, 1 << 20);
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
        let settings = Settings { patience: Duration::from_secs(10), limits: Limits::default() };
        ClientBuilder { endpoint: endpoint.to_owned(), settings }
    }

    /// Connects with the default settings.
    pub fn connect(endpoint: &str) -> Result<Client, Error> {
        Client::builder(endpoint).connect()
    }

    /// Fetches a file or a directory with all below it. `path`: a virtual path of the server, such as `/data/a`; with a
    /// slash at its end, what is in the directory goes to `to`, without, the directory goes into `to` by its name.
    /// `to`: the file's name here, or a directory. What is here already with the same size and time is not fetched.
    pub fn get(&self, path: &str, to: &Path) -> Transfer {
        self.get_by(path, to, Rules::default())
    }

    /// As `get`, by these rules.
    pub fn get_by(&self, path: &str, to: &Path, rules: Rules) -> Transfer {
        self.fetch(path, Place::of_path(to), rules, Fetch::new)
    }

    /// Fetches a directory, and then what changes in it, until the transfer is cancelled. If the rules have a
    /// `deletion`, what the server removes, or has removed while this client was away, is removed here too.
    pub fn follow(&self, path: &str, to: &Path, rules: Rules) -> Transfer {
        self.fetch(path, Place::of_path(to), rules, Fetch::following)
    }

    /// As `get`, but discards what arrives once it is verified.
    pub fn discard(&self, path: &str) -> Transfer {
        self.fetch(path, Ok(Place::Discarded), Rules::default(), Fetch::new)
    }

    fn fetch(
        &self,
        path: &str,
        place: Result<Place, FileError>,
        rules: Rules,
        new: impl Fn(&[u8], Place, Selection, EventSender) -> Fetch,
    ) -> Transfer {
        let (events, received) = Events::channel();
        match place.and_then(|place| Ok((place, Selection::new(rules)?))) {
            Ok((place, selection)) => {
                self.start(Box::new(new(path.as_bytes(), place, selection, events)), None, received)
            }
            Err(error) => self.failed(path, error),
        }
    }

    /// Uploads a file or a directory with all below it. `path`: a virtual path of the server, as `to` of `get`; a slash
    /// at the end of `from` means what it means there. What the server has already with the same size and time is not
    /// sent.
    pub fn put(&self, from: &Path, path: &str) -> Transfer {
        self.put_by(from, path, Rules::default())
    }

    /// As `put`, by these rules, which the server applies.
    pub fn put_by(&self, from: &Path, path: &str, rules: Rules) -> Transfer {
        let number = self.next_operation();
        let alias = format!("/upload-{number}");
        let (folder, source) = match offered(from, &alias) {
            Ok(offered) => offered,
            Err(error) => return self.failed(&from.display().to_string(), error),
        };
        let (events, received) = Events::channel();
        let what = Box::new(Upload::new(path.as_bytes(), source.as_slice(), rules, events.clone()));
        self.start_as(number, what, Some(Offer { alias, folder, events }), received)
    }

    /// Lists the names below a path. In the report `files` counts all names. After a lost connection the names come
    /// again.
    pub fn list(&self, path: &str) -> Transfer {
        let (events, received) = Events::channel();
        self.start(Box::new(Listing::new(path.as_bytes(), events)), None, received)
    }

    fn next_operation(&self) -> u64 {
        self.dialogue.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn start(&self, what: Box<dyn Operation>, offer: Option<Offer>, events: Events) -> Transfer {
        self.start_as(self.next_operation(), what, offer, events)
    }

    fn start_as(
        &self,
        operation: u64,
        what: Box<dyn Operation>,
        offer: Option<Offer>,
        events: Events,
    ) -> Transfer {
        self.dialogue.task.send(Command::Start { operation, what, offer });
        Transfer { operation, events, dialogue: self.dialogue.clone() }
    }

    /// A transfer that cannot begin.
    fn failed(&self, path: &str, error: FileError) -> Transfer {
        let (events, received) = Events::channel();
        let failed = vec![(path.to_owned(), error.clone())];
        let ended = Event::Ended(Report { failed, ..Report::default() });
        let _ = events.send(vec![Event::Failed { path: path.to_owned(), error }, ended]);
        Transfer { operation: self.next_operation(), events: received, dialogue: self.dialogue.clone() }
    }
}

/// The folder that a client offers for an upload, and the virtual path at which the server fetches from it.
fn offered(from: &Path, alias: &str) -> Result<(Arc<dyn Folder>, Vec<u8>), FileError> {
    let is_content = from.as_os_str().as_bytes().ends_with(b"/") || from.file_name().is_none();
    if is_content && from.is_dir() {
        return Ok((Arc::new(DiskFolder::open(from)?), [alias.as_bytes(), b"/"].concat()));
    }
    let Some(name) = from.file_name() else {
        return Err(FileError::new(Code::NotFound, "no such directory"));
    };
    let parent = from.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (folder, name) = (Arc::new(DiskFolder::open(parent)?), name.as_bytes());
    Ok((Arc::new(Single::new(folder, name)), [alias.as_bytes(), b"/", name].concat()))
}

/// A transfer that is under way.
pub struct Transfer {
    operation: u64,
    events: Events,
    dialogue: Arc<Dialogue>,
}

impl Transfer {
    /// Waits for the next event. None: the transfer is over.
    pub fn next_event(&self) -> Option<Event> {
        self.events.next()
    }

    /// As `next_event`, but waits at most `time`. Errors: Timeout; Disconnected, the transfer is over.
    pub fn next_event_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.events.next_within(time)
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
