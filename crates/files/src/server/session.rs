//! The dialogue with one client.
//!
//! A session is called with each frame of its client, and for a turn whenever it has something to send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::access::{Access, Right};
use crate::clock;
use crate::dialogue::Event;
use crate::dialogue::changes::Wake;
use crate::dialogue::events::{Events, Naming};
use crate::dialogue::fetch::Fetch;
use crate::dialogue::mounts::{Mounts, below};
use crate::dialogue::provider::{Outlet, Provider, Turn, failure, reply};
use crate::dialogue::requester::{Limits, Requester};
use crate::error::{Code, FileError};
use crate::transfer::place::Place;
use crate::transfer::selection::Selection;
use crate::wire::{Change, Cheezburger, DecodeError, Form, Hash, Headers, Kind, Message, Mode, Request};

/// The state of the dialogue with a client.
pub struct Session {
    access: Arc<Access>,
    user: Option<String>,
    part_age: Duration,
    has_greeted: bool,
    /// The client has named the domain, if there is one.
    is_in_domain: bool,
    is_over: bool,
    provider: Provider,
    requester: Requester,
    /// Uploads: the client's requests, and what becomes of them here.
    uploads: Vec<(Request, Events)>,
}

impl Session {
    /// `wake` is called when the client is to be told something: a turn is due.
    pub fn new(wake: Wake, access: Arc<Access>, user: Option<String>, part_age: Duration) -> Session {
        let (has_greeted, is_over, uploads) = Default::default();
        let (provider, requester) = (Provider::new(wake), Requester::new(Limits::default()));
        let is_in_domain = access.domain.is_empty();
        Session { access, user, part_age, has_greeted, is_in_domain, is_over, provider, requester, uploads }
    }

    /// Handles a frame of the client.
    pub fn on_frame(&mut self, frame: &[u8], mounts: &Mounts) {
        match Message::read(frame) {
            Err(DecodeError::Foreign) => {}
            Err(DecodeError::Malformed(what)) => self.end(what),
            Ok(Message::GREETING) => {
                self.provider.reset();
                (self.requester, self.uploads) = (Requester::new(Limits::default()), Vec::new());
                (self.has_greeted, self.is_over) = (true, false);
                self.provider.say(&Message::OhaiOk);
            }
            Ok(Message::Ohai { .. }) => self.end("this server speaks FILEMQ version 2"),
            Ok(_) if !self.has_greeted => self.end("OHAI comes first"),
            Ok(Message::Nom { credit, .. }) => self.provider.on_nom(credit),
            Ok(Message::Icanhaz { path, options, cache }) => self.on_request(path, options, cache, mounts),
            Ok(Message::Cheezburger(burger)) => {
                if let Err(what) = self.requester.on_chunk(burger, clock::now()) {
                    self.end(&what);
                }
            }
            Ok(Message::Hugz) => self.provider.say(&Message::HugzOk),
            Ok(Message::HugzOk) => self.requester.on_pong(),
            Ok(Message::IcanhazOk) => {}
            Ok(Message::Kthxbai) => {
                self.provider.reset();
                (self.has_greeted, self.is_over) = (false, true);
            }
            Ok(_) => self.end("not a command of a client"),
        }
        self.push_frames();
    }

    /// When a turn is due because of the time.
    pub fn due(&self) -> Option<Instant> {
        self.requester.due()
    }

    /// What there is to say of uploads, and to ask for.
    fn push_frames(&mut self) {
        self.tell_uploads();
        self.requester.take_frames().into_iter().for_each(|frame| self.provider.push(frame));
    }

    fn on_request(&mut self, path: &[u8], options: Hash<'_>, cache: Hash<'_>, mounts: &Mounts) {
        let request = Request::read(path, options);
        let domain = match &request {
            Some(Ok(request)) if request.mode == Mode::Greet => Some(&request.domain[..]),
            _ => None,
        };
        self.is_in_domain |= domain == Some(self.access.domain.as_bytes());
        if !self.is_in_domain || domain.is_some_and(|domain| domain != self.access.domain.as_bytes()) {
            return self.refuse(&format!("it serves the domain \"{}\" only", self.access.domain));
        }
        match request {
            None if !self.may(path, Right::Read) => self.refuse("no right to read this path"),
            None => self.subscribe(path, options, cache, mounts),
            Some(Err(what)) => self.end(what),
            Some(Ok(request)) if self.is_above_folders(&request, mounts) => {
                let paths = self.readable_below(&request.path, mounts);
                self.provider.list_paths(&request, &paths, mounts);
            }
            Some(Ok(request)) if self.is_transfer_above_folders(&request, mounts) => {
                let below = self.readable_below(&request.path, mounts);
                let names: Vec<_> = below.iter().map(|path| String::from_utf8_lossy(path)).collect();
                let text = format!("no folder is served at this path, but below it: {}", names.join(", "));
                self.provider.fail_request(&request, &FileError::new(Code::NotFound, text));
            }
            Some(Ok(request)) if !self.may_do(&request) => {
                let error = FileError::new(Code::Denied, "no right to this path");
                self.provider.fail_request(&request, &error);
            }
            Some(Ok(request)) if request.mode == Mode::Upload => {
                if let Err(error) = self.begin_upload(&request, mounts) {
                    self.provider.fail_request(&request, &error);
                }
            }
            Some(Ok(request)) => {
                if request.mode == Mode::Cancel {
                    self.requester.cancel(u64::from(request.number));
                }
                self.provider.on_request(&request, mounts);
            }
        }
    }

    /// Subscribes a client that does not know the extensions.
    fn subscribe(&mut self, path: &[u8], options: Hash<'_>, cache: Hash<'_>, mounts: &Mounts) {
        match self.provider.subscribe(path, options, cache, mounts) {
            Ok(()) => {}
            Err(error) if error.code == Code::Invalid => self.end(&error.text),
            Err(error) => self.refuse(&error.text),
        }
    }

    fn may(&self, path: &[u8], right: Right) -> bool {
        self.access.allows(self.user.as_deref(), path, right)
    }

    fn may_do(&self, request: &Request) -> bool {
        match request.mode {
            Mode::Greet | Mode::Cancel | Mode::Skip => true,
            Mode::Upload => self.may(&request.path, Right::Write),
            Mode::Fetch | Mode::Values | Mode::List | Mode::Follow => self.may(&request.path, Right::Read),
        }
    }

    /// Returns true for the listing of a path that the client may not list as a whole, or that is in no folder, but
    /// has something below that it may read.
    fn is_above_folders(&self, request: &Request, mounts: &Mounts) -> bool {
        let is_above = || !self.may_do(request) || mounts.resolve(&request.path).is_err();
        request.mode == Mode::List && is_above() && !self.readable_below(&request.path, mounts).is_empty()
    }

    /// Returns true if a path that is in no folder, but has some below, is to be transferred or followed.
    fn is_transfer_above_folders(&self, request: &Request, mounts: &Mounts) -> bool {
        let is_transfer = matches!(request.mode, Mode::Fetch | Mode::Values | Mode::Follow | Mode::Upload);
        is_transfer
            && mounts.resolve(&request.path).is_err()
            && !self.readable_below(&request.path, mounts).is_empty()
    }

    /// Aliases and paths with a right that are below a path, as far as the client may read them.
    fn readable_below(&self, path: &[u8], mounts: &Mounts) -> Vec<Vec<u8>> {
        let above = path.strip_suffix(b"/").unwrap_or(path);
        let granted = self.access.readable(self.user.as_deref());
        let granted = granted.filter(|path| below(path, above).is_some() && mounts.resolve(path).is_ok());
        let aliases = mounts.aliases_below(path).filter(|alias| self.may(alias, Right::Read));
        let mut found: Vec<Vec<u8>> = aliases.chain(granted).map(<[u8]>::to_vec).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Fetches from the client what it offers.
    fn begin_upload(&mut self, request: &Request, mounts: &Mounts) -> Result<(), FileError> {
        let (mount, path) = mounts.resolve(&request.path)?;
        if !mount.is_writable {
            return Err(FileError::new(Code::Denied, "the folder is read-only"));
        }
        let (events, received) = Events::channel();
        let is_directory = request.path.ends_with(b"/");
        let is_below = is_directory || mount.folder.kind(&path).is_ok_and(|kind| kind == Kind::Directory);
        let naming = Naming::new(&request.source, &request.path, is_below);
        let place = Place::At { folder: mount.folder.clone(), path, is_directory };
        let selection = Selection::new(request.rules.clone(), self.part_age)?;
        let fetch = Fetch::new(&request.source, place, selection, events).named(naming);
        self.requester.start(u64::from(request.number), Box::new(fetch));
        self.requester.open(clock::now());
        self.uploads.push((request.clone(), received));
        Ok(())
    }

    /// Tells the client what has become of its uploads.
    fn tell_uploads(&mut self) {
        let provider = &mut self.provider;
        self.uploads.retain(|(request, events)| {
            while let Some(event) = events.next_at_once() {
                match event {
                    Event::Failed { path, error } => {
                        provider.push(failure(request.number, path.as_bytes(), &error));
                    }
                    Event::Ended(report) => {
                        let headers = Headers {
                            request: Some(request.number),
                            form: Form::End,
                            files: Some(report.files),
                            bytes: Some(report.bytes),
                            ..Headers::default()
                        };
                        provider.push(reply(&request.path, &headers));
                        return false;
                    }
                    Event::Aborted(_) => return false,
                    event => told(request.number, event).into_iter().for_each(|frame| provider.push(frame)),
                }
            }
            true
        });
    }

    /// Tells the client what is wrong, and ends.
    pub fn end(&mut self, reason: &str) {
        self.end_by(&Message::Rtfm { reason: reason.as_bytes() });
    }

    /// Refuses access, and ends.
    fn refuse(&mut self, reason: &str) {
        self.end_by(&Message::Srsly { reason: reason.as_bytes() });
    }

    fn end_by(&mut self, message: &Message<'_>) {
        self.provider.reset();
        (self.requester, self.uploads) = (Requester::new(Limits::default()), Vec::new());
        self.provider.say(message);
        self.is_over = true;
    }

    /// Octets of content that were sent since the last call.
    pub fn take_sent(&mut self) -> u64 {
        self.provider.take_sent()
    }

    /// Sends what waits, and then one chunk. None: the session is over.
    pub fn turn(&mut self, outlet: &impl Outlet) -> Option<Turn> {
        let now = clock::now();
        if self.due().is_some_and(|due| due <= now) {
            self.requester.on_due(now);
            self.push_frames();
        }
        match self.provider.turn(outlet) {
            Turn::Blocked => Some(Turn::Blocked),
            _ if self.is_over => None,
            turn => Some(turn),
        }
    }
}

/// The frame that tells what happens to a path of an upload. None: nothing is told.
fn told(request: u32, event: Event) -> Option<Vec<u8>> {
    let headers = Headers { request: Some(request), ..Headers::default() };
    let (path, headers, removal, eof) = match event {
        Event::Begun { path, size } => {
            (path, Headers { form: Form::Begin, size: Some(size), ..headers }, false, false)
        }
        Event::Finished { path, size, digest } => {
            (path, Headers { size: Some(size), digest: Some(digest), ..headers }, false, true)
        }
        Event::Linked { path, first } => (path, Headers { from: first.into_bytes(), ..headers }, false, true),
        Event::Planned { path, removal } => {
            (path, Headers { form: Form::Planned, ..headers }, removal, false)
        }
        Event::Removed { path, here: true } => (path, headers, true, false),
        _ => return None,
    };
    let operation = if removal { Change::Delete } else { Change::Create };
    let headers = headers.write();
    let burger = Cheezburger::new(0, path.as_bytes(), headers.hash());
    Some(Message::Cheezburger(Cheezburger { operation, eof, ..burger }).to_frame())
}
