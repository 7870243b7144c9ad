//! Settings of a server, and its start.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pinnace_crypto::{KeyPair, PublicKey, SecretBytes};
use pinnace_engine::{PollTarget, SocketType, handle_zap};
use pinnace_eventloop::EventLoop;

use super::watch::Watchers;
use super::{Core, FRAME_MAX, Receiver, Server, UNSENT_MAX};
use crate::access::{Access, Credential, Right};
use crate::clock::LONGEST;
use crate::dialogue::mounts::Mounts;
use crate::error::Error;
use crate::sockets::OwnContext;
use crate::transfer::selection::PART_AGE;
use crate::tree::disk::DiskFolder;
use crate::wire::Message;

/// How long a file that is followed may not have been written.
const QUIET: Duration = Duration::from_secs(1);
/// How often folders are listed again that cannot be watched.
const RESCAN: Duration = Duration::from_secs(10);

/// Settings of a server.
pub struct ServerBuilder {
    mounts: Mounts,
    endpoints: Vec<String>,
    workers: usize,
    quiet: Duration,
    rescan: Duration,
    part_age: Duration,
    high_water_mark: u32,
    access: Access,
}

impl ServerBuilder {
    pub(super) fn new() -> ServerBuilder {
        let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16);
        ServerBuilder {
            mounts: Mounts::default(),
            endpoints: Vec::new(),
            workers,
            quiet: QUIET,
            rescan: RESCAN,
            part_age: PART_AGE,
            high_water_mark: 0,
            access: Access::default(),
        }
    }

    /// Serves a folder of this host below a virtual path such as `/data`. Errors: the folder cannot be opened, or
    /// the path is invalid or has a folder.
    pub fn folder(self, alias: &str, path: &Path) -> Result<ServerBuilder, Error> {
        self.disk_folder(alias, path, false)
    }

    /// As `folder`, and clients may upload to it.
    pub fn writable_folder(self, alias: &str, path: &Path) -> Result<ServerBuilder, Error> {
        self.disk_folder(alias, path, true)
    }

    fn disk_folder(mut self, alias: &str, path: &Path, is_writable: bool) -> Result<ServerBuilder, Error> {
        let folder = DiskFolder::open(path).map(Arc::new);
        let added = folder.and_then(|folder| self.mounts.add(alias.as_bytes(), folder, is_writable));
        added.map_err(|error| Error::File { path: path.display().to_string(), error })?;
        Ok(self)
    }

    /// Listens at an endpoint.
    pub fn bind(mut self, endpoint: &str) -> ServerBuilder {
        self.endpoints.push(endpoint.to_owned());
        self
    }

    /// How many threads read files.
    pub fn workers(mut self, count: usize) -> ServerBuilder {
        self.workers = count.max(1);
        self
    }

    /// Secures all connections by CURVE with these keys. Without `user_by_key`, every client that knows the public key
    /// is admitted.
    pub fn curve(mut self, keys: &KeyPair) -> ServerBuilder {
        self.access.keys = Some(keys.clone());
        self
    }

    /// Admits the user with this CURVE key, and others only if they are added too.
    pub fn user_by_key(mut self, name: &str, key: &PublicKey) -> ServerBuilder {
        self.access.users.push((name.to_owned(), Credential::Key(*key)));
        self
    }

    /// Admits a user with a password (PLAIN: it is sent in clear), and others only if they are added too.
    pub fn user_by_password(mut self, name: &str, password: &str) -> ServerBuilder {
        let password = SecretBytes::from(password.as_bytes());
        self.access.users.push((name.to_owned(), Credential::Password(password)));
        self
    }

    /// Gives a user, or [`ANYBODY`](crate::access::ANYBODY), a right to a virtual path and all below it. Without any
    /// grant every client may do everything; with the first one, nobody has a right that was not granted.
    pub fn grant(mut self, user: &str, path: &str, right: Right) -> ServerBuilder {
        self.access.grant(user, path, right);
        self
    }

    /// Serves only clients that name the same domain, and with extensions of FILEMQ. It protects from mistakes, such as
    /// test data that goes to production, and not from attackers.
    pub fn domain(mut self, name: &str) -> ServerBuilder {
        name.clone_into(&mut self.access.domain);
        self
    }

    /// Clients that follow a path are told of a file when its writer closes it, or when it was not written for this
    /// time [default: 1 s].
    pub fn quiet(mut self, time: Duration) -> ServerBuilder {
        self.quiet = time.min(LONGEST);
        self
    }

    /// How often everything is listed again for clients that follow a path if the system watches no more directories
    /// [default: 10 s; at least 10 ms].
    pub fn rescan(mut self, interval: Duration) -> ServerBuilder {
        self.rescan = interval.clamp(Duration::from_millis(10), LONGEST);
        self
    }

    /// The most frames that wait for each client, in each direction (ZMQ_SNDHWM and ZMQ_RCVHWM) [default: no limit].
    /// Credit limits what is under way; a low mark costs time and loses nothing.
    pub fn high_water_mark(mut self, frames: u32) -> ServerBuilder {
        self.high_water_mark = frames;
        self
    }

    /// How long the parts of uploads that ended early are kept [default: 14 days]. Older ones are removed from the
    /// directories that an upload fills.
    pub fn part_age(mut self, age: Duration) -> ServerBuilder {
        self.part_age = age;
        self
    }

    /// Starts the server. Errors: those of bind; Users, they have keys and passwords, or keys without `curve`; Access,
    /// users or rights that can have no effect, or contradict each other.
    pub fn start(self) -> Result<Server, Error> {
        let access = Arc::new(self.access);
        let by = (access.keys.is_some(), access.has_keys(), access.has_passwords());
        if matches!(by, (true, _, true) | (false, true, _)) {
            return Err(Error::Users);
        }
        let is_served = |path: &[u8]| self.mounts.scopes(path).is_ok_and(|scopes| !scopes.is_empty());
        access.check(|path| path.is_empty() || is_served(path)).map_err(Error::Access)?;
        let context = OwnContext::new()?;
        let events = EventLoop::start("files-server")?;
        let socket = context.own_socket(SocketType::Router)?;
        socket.configure(|options| {
            options.linger = Some(Duration::ZERO);
            // Credit limits what is under way; these limit peers that ignore it.
            (options.sndhwm, options.rcvhwm) = (self.high_water_mark, self.high_water_mark);
            (options.snd_bytes, options.rcv_bytes) = (UNSENT_MAX, FRAME_MAX);
            options.maxmsgsize = Some(FRAME_MAX);
            (options.router_mandatory, options.router_handover) = (true, true);
            options.heartbeat_ivl = Duration::from_secs(5);
            match &access.keys {
                Some(keys) => options.security.be_curve_server(keys),
                None if access.has_passwords() => options.security.be_plain_server(),
                None => {}
            }
            // The session of a client whose connection is lost ends as if it had taken leave.
            options.disconnect_msg = Some(Message::Kthxbai.to_frame());
        })?;
        if access.keys.is_some() || access.has_passwords() {
            let access = access.clone();
            handle_zap(&context, "files-users", move |request| access.admit(request))?;
        }
        let mut endpoints = Vec::new();
        for endpoint in &self.endpoints {
            socket.bind(endpoint)?;
            endpoints.push(socket.last_endpoint()?);
        }
        let slot = events.slot();
        slot.interest().add(PollTarget::Socket(*socket), ())?;
        let watchers = Watchers::default();
        let mut mounts = self.mounts;
        mounts.watch(|folder| watchers.changes_of(folder, self.quiet, self.rescan));
        let core = Arc::new_cyclic(|own| Core {
            own: own.clone(),
            socket,
            mounts,
            access,
            part_age: self.part_age,
            sessions: Mutex::default(),
            runnable: Mutex::default(),
            wake: Condvar::new(),
            outgoing: Mutex::default(),
            waiting: Arc::default(),
            later: Mutex::default(),
            doorbell: slot.doorbell(),
            sent: AtomicU64::new(0),
        });
        let (workers, task) = (Vec::new(), None);
        // If a thread cannot be started, those before it end with the server.
        let mut server =
            Server { endpoints, core, workers, watchers, task, _events: events, _context: context };
        for number in 0..self.workers {
            let core = server.core.clone();
            let worker = pinnace_sys::thread::start(&format!("files-{number}"), move || core.work());
            server.workers.push(worker.map_err(|_| pinnace_engine::Error::NoMemory)?);
        }
        server.task = Some(slot.run(Receiver::new(server.core.clone())));
        Ok(server)
    }
}
