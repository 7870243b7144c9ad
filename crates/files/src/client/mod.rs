//! A client of a file server.

pub mod connection;
mod ongoing;
mod stream;
pub mod task;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pinnace_crypto::{KeyPair, PublicKey, SecretBytes};
use pinnace_engine::{PollTarget, SocketType};
use pinnace_eventloop::{EventLoop, Handle};

use crate::clock::LONGEST;
use crate::dialogue::events::{EventSender, Events, Reporter};
use crate::dialogue::fetch::Fetch;
pub use crate::dialogue::listing::Listed;
use crate::dialogue::listing::Listing;
use crate::dialogue::operation::Operation;
use crate::dialogue::upload::Upload;
pub use crate::dialogue::{Event, Report};
use crate::error::{Code, Error, FileError};
use crate::rules::Rules;
use crate::sockets::OwnContext;
use crate::transfer::place::Place;
use crate::transfer::selection::{PART_AGE, Selection};
use crate::tree::Folder;
use crate::tree::disk::DiskFolder;
use crate::tree::single::Single;
use crate::wire::Message;
use connection::{Connection, Shared};
pub use ongoing::{EventIter, Transfer};
pub use stream::Download;
use task::{ClientTask, Command, Offer, Settings};

/// The most octets of frames that wait for the dialogue, beside twice the largest window.
const RECEIVED_BEYOND: usize = 8 << 20;

/// A connection to a server. It ends when this and its transfers are dropped; that takes up to 0.1 s if the server does
/// not read, or is not there.
pub struct Client {
    dialogue: Arc<Dialogue>,
    part_age: Duration,
}

/// The connection, for as long as a client or transfer needs it.
struct Dialogue {
    task: Handle<ClientTask>,
    last: AtomicU64,
    /// Dropped after the task, whose last frame it sends.
    _connection: Handle<Connection>,
    /// Dropped after the tasks.
    _loops: (EventLoop<ClientTask>, EventLoop<Connection>),
    /// Dropped after the loops, whose socket it ends.
    _context: OwnContext,
}

/// Settings of a client that is to connect.
pub struct ClientBuilder {
    endpoint: String,
    settings: Settings,
    /// Its own keys, and the server's.
    curve: Option<(KeyPair, PublicKey)>,
    /// A user's name and password.
    password: Option<(String, SecretBytes)>,
    part_age: Duration,
    high_water_mark: u32,
}

impl ClientBuilder {
    /// Secures the connection by CURVE with these keys, to the server with this public key alone.
    pub fn curve(mut self, own: &KeyPair, server: &PublicKey) -> ClientBuilder {
        self.curve = Some((own.clone(), *server));
        self
    }

    /// Gives a user's name and password (PLAIN: they are sent in clear). They do not go together with `curve`.
    pub fn password(mut self, user: &str, password: &str) -> ClientBuilder {
        self.password = Some((user.to_owned(), SecretBytes::from(password.as_bytes())));
        self
    }

    /// The domain that the server has to have.
    pub fn domain(mut self, name: &str) -> ClientBuilder {
        name.clone_into(&mut self.settings.domain);
        self
    }

    /// How long the server may take to answer [default: 10 s].
    pub fn patience(mut self, patience: Duration) -> ClientBuilder {
        self.settings.patience = patience.min(LONGEST);
        self
    }

    /// The largest window, in bytes, at least 1 MiB [default: 16 MiB]; a server sends at most 64 MiB ahead. A link
    /// with a bandwidth of B bytes a second and a round trip of R seconds needs B * R.
    pub fn window_max(mut self, bytes: u64) -> ClientBuilder {
        self.settings.limits.window_max = bytes.max(1 << 20);
        self
    }

    /// The most octets of a chunk, from 1 to 1 MiB [default: 512 KiB].
    pub fn chunk(mut self, octets: u32) -> ClientBuilder {
        self.settings.limits.chunk = octets.clamp(1, 1 << 20);
        self
    }

    /// The most bytes a second, in each direction [default: no limit]. A chunk then has at most 64 KiB, unless `chunk`
    /// is called afterwards.
    pub fn limit_rate(mut self, bytes_per_s: u64) -> ClientBuilder {
        let limits = &mut self.settings.limits;
        limits.rate = Some(bytes_per_s.max(1));
        limits.chunk = limits.chunk.min(64 << 10);
        self
    }

    /// The most frames that wait, in each direction (ZMQ_SNDHWM and ZMQ_RCVHWM) [default: no limit]. Credit limits what
    /// is under way; a low mark costs time and loses nothing.
    pub fn high_water_mark(mut self, frames: u32) -> ClientBuilder {
        self.high_water_mark = frames;
        self
    }

    /// How long the parts of transfers that ended early are kept [default: 14 days]. Older ones are removed from the
    /// directories that a transfer fills.
    pub fn part_age(mut self, age: Duration) -> ClientBuilder {
        self.part_age = age;
        self
    }

    /// Connects, in the background. Errors: Users, it has keys and a password; Socket, the endpoint is invalid, or no
    /// descriptors or memory are left.
    pub fn connect(self) -> Result<Client, Error> {
        let ClientBuilder { endpoint, settings, curve, password, part_age, high_water_mark } = self;
        if curve.is_some() && password.is_some() {
            return Err(Error::Users);
        }
        let context = OwnContext::new()?;
        let loops = (EventLoop::start("files-client")?, EventLoop::start("files-socket")?);
        let socket = context.own_socket(SocketType::Dealer)?;
        socket.configure(|options| {
            options.linger = Some(Duration::from_millis(100));
            // Credit limits what is under way.
            (options.sndhwm, options.rcvhwm) = (high_water_mark, high_water_mark);
            options.heartbeat_ivl = Duration::from_secs(5);
            options.reconnect_ivl_max = Duration::from_secs(1);
            if let Some((own, server)) = &curve {
                options.security.be_curve_client(own, server);
            }
            if let Some((user, password)) = &password {
                // It was a str.
                options.security.be_plain_client(user, std::str::from_utf8(password).unwrap_or_default());
            }
            // What was made for a lost connection is not sent over the next one.
            options.immediate = true;
            // Tells the task that the connection was lost, and is there again.
            options.hiccup_msg = Some(Message::GREETING.to_frame());
        })?;
        socket.connect(&endpoint)?;
        let slots = (loops.0.slot(), loops.1.slot());
        slots.1.interest().add(PollTarget::Socket(*socket), ())?;
        let received_max =
            (settings.limits.window_max as usize).saturating_mul(2).saturating_add(RECEIVED_BEYOND);
        let doorbells = (slots.0.doorbell(), slots.1.doorbell());
        let shared = Arc::new(Shared::new(received_max, doorbells.0, doorbells.1, Some(*socket)));
        let connection = slots.1.run(Connection::new(socket, shared.clone()));
        let task = slots.0.run(ClientTask::new(shared, &endpoint, settings));
        Ok(Client {
            part_age,
            dialogue: Arc::new(Dialogue {
                task,
                last: AtomicU64::new(0),
                _connection: connection,
                _loops: loops,
                _context: context,
            }),
        })
    }
}

impl Client {
    /// Settings of a client of the server at `endpoint`.
    pub fn builder(endpoint: &str) -> ClientBuilder {
        let (limits, domain) = Default::default();
        let settings = Settings { patience: Duration::from_secs(10), limits, domain };
        let (endpoint, (curve, password)) = (endpoint.to_owned(), Default::default());
        ClientBuilder { endpoint, settings, curve, password, part_age: PART_AGE, high_water_mark: 0 }
    }

    /// Connects with the default settings.
    pub fn connect(endpoint: &str) -> Result<Client, Error> {
        Client::builder(endpoint).connect()
    }

    /// Fetches a file or a directory with all below it. `path`: a virtual path of the server, such as `/data/a`; with a
    /// slash at its end, the directory's content goes to `to`; without, the directory goes into `to` by its name.
    /// `to`: the file's name here, or a directory; with a slash at its end, one that is made if it is missing. What is
    /// here already with the same size and time is not fetched.
    pub fn get(&self, path: &str, to: &Path) -> Transfer {
        self.get_by(path, to, Rules::default())
    }

    /// As `get`, by these rules.
    pub fn get_by(&self, path: &str, to: &Path, rules: Rules) -> Transfer {
        self.fetch(path, Place::of_path(to), rules, Fetch::new)
    }

    /// Fetches a directory, and then what changes in it, until the transfer is cancelled. Once the server has answered,
    /// it may be away for any time (`Event::Lost`). If the rules have a
    /// `deletion`, what the server removes, or has removed while this client was away, is removed here too.
    ///
    /// It is the only transfer that a server without the extensions serves. There the contents are not verified,
    /// because no digests come, `Event::Current` is not told, and only files that are removed meanwhile are removed.
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
        match place.and_then(|place| Ok((place, Selection::new(rules, self.part_age)?))) {
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
        let local = from.as_os_str().as_bytes();
        let what = Box::new(Upload::new(path.as_bytes(), &source, local, rules, events.clone()));
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
        Transfer::new(operation, events, self.dialogue.clone())
    }

    /// A transfer that cannot begin.
    fn failed(&self, path: &str, error: FileError) -> Transfer {
        let (events, received) = Events::channel();
        let mut reporter = Reporter::new(events);
        reporter.fail_by(path.to_owned(), FileError { here: true, ..error });
        reporter.end();
        Transfer::new(self.next_operation(), received, self.dialogue.clone())
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
