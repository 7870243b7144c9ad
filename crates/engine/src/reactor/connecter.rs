//! Connecting endpoints: dialing, shaking hands, and again with a growing pause when that fails or the
//! connection is lost.
//!
//! The pause before attempt n is the reconnect interval (doubled each time up to its maximum, where one is
//! set) plus a random part of the interval, so that many clients do not come back all at once. After a refused
//! handshake it is doubled in any case, since the next one will most likely be refused, too. With
//! ZMQ_RECONNECT_STOP an endpoint is given up where there is no hope: its pipe ends, and what it holds is lost.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use pinnace_sys::poll::Interest;
use pinnace_sys::{AsFd, AsRawFd, Errno, OwnedFd, families, net};

use super::closing::bury;
use super::session::{Owner, Session, Shaken, Side, Step};
use super::{Command, Entry, Reactor};
use crate::drops::Reason;
use crate::ends::FarEnds;
use crate::hub::{Hub, Mail};
use crate::link::{Link, Stream};
use crate::monitor::{self, At, Event};
use crate::peer::Peer;
use crate::pipe::PipeId;
use crate::transports::{self, Route, Target, To};

/// The far ends of a pipe that lasts over reconnects.
pub(crate) struct Ends {
    pub(crate) id: PipeId,
    pub(crate) far: FarEnds,
    /// How many connections the pipe has had.
    pub(crate) connections: u64,
}

/// A connecting endpoint of a socket.
pub(crate) struct Connecter {
    token: u64,
    pub(super) owner: Owner,
    target: Target,
    /// As the user wrote it.
    endpoint: String,
    /// Those of the connection that is being made.
    between: monitor::Ends,
    /// It leads to the peer itself: no proxy is in between any more.
    reached: bool,
    /// The pipe, while it has no connection; none where a pipe is made for each connection (ZMQ_IMMEDIATE).
    pub(super) ends: Option<Box<Ends>>,
    pub(super) state: State,
    /// Its endpoint is closed: it goes on until all is sent, over as many connections as that takes.
    pub(super) ending: bool,
    /// Attempts that failed in a row, and how many of them since the last that did not get as far as the handshake.
    failures: u32,
    refusals: u32,
    /// The routing id that the last peer announced; none before the first.
    peer_id: Option<Vec<u8>>,
    /// What is still to be tried in this attempt.
    routes: Vec<Route>,
}

pub(super) enum State {
    /// Until the timer, or for ever where there is no reconnecting.
    Resting,
    Resolving,
    Dialing(OwnedFd),
    Shaking(Option<Box<super::session::Session>>),
    Connected(PipeId),
}

/// The pauses that ZMQ_RECONNECT_IVL of 0 stands for: the first is this short, and they grow, up to the other, unless
/// ZMQ_RECONNECT_IVL_MAX says otherwise. With none at all a peer that is not there would cost a processor.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// What the pauses after refused handshakes grow up to, unless ZMQ_RECONNECT_IVL_MAX says otherwise.
const LONGEST_PAUSE_REFUSED: Duration = Duration::from_secs(10);

/// Bits of ZMQ_RECONNECT_STOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Stop {
    Refused = 1,
    HandshakeFailed = 2,
    AfterDisconnect = 4,
}

impl Connecter {
    /// One that has not dialed yet.
    pub(crate) fn new(
        token: u64,
        owner: Owner,
        target: Target,
        endpoint: String,
        ends: Option<Box<Ends>>,
    ) -> Connecter {
        let (state, routes, between) = (State::Resting, Vec::new(), monitor::Ends::default());
        Connecter {
            token,
            owner,
            target,
            endpoint,
            between,
            reached: false,
            ends,
            state,
            ending: false,
            failures: 0,
            refusals: 0,
            peer_id: None,
            routes,
        }
    }

    /// How long to pause now.
    fn pause(&self, token: u64) -> Option<Duration> {
        let options = &self.owner.options;
        let (mut base, mut max) = (options.reconnect_ivl?, options.reconnect_ivl_max);
        if base.is_zero() {
            base = SHORTEST_PAUSE;
            max = if max.is_zero() { LONGEST_PAUSE } else { max };
        }
        let mut failures = self.failures;
        if options.reconnect_ivl_max.is_zero() && self.refusals > 0 {
            (max, failures) = (LONGEST_PAUSE_REFUSED, self.refusals - 1);
        }
        let mut pause = base;
        if max > base {
            pause = base.saturating_mul(1u32.checked_shl(failures.min(20)).unwrap_or(1)).min(max);
        }
        Some(pause + base.mul_f64(random(token ^ u64::from(self.failures))))
    }

    /// Whether messages wait that were never sent.
    pub(super) fn has_unsent(&mut self) -> bool {
        self.ends.as_mut().is_some_and(|ends| ends.far.outgoing.has_message())
    }

    /// Whether its pipe lasts over reconnects; else each connection has one of its own.
    fn keeps_pipe(&self) -> bool {
        !self.owner.options.immediate
    }

    /// Whether it gets back what its connection has not sent, if that is lost.
    pub(super) fn may_dial_again(&self) -> bool {
        matches!(self.state, State::Connected(_)) && self.keeps_pipe()
    }

    /// Its pipe ends, where that has no connection: what was not sent is lost.
    pub(super) fn end_pipe(&mut self) {
        let Some(Ends { id, far, .. }) = self.ends.take().map(|ends| *ends) else { return };
        bury(&self.owner.hub, self.owner.kind.hears_wishes(), far, Reason::Expired);
        self.owner.hub.post(Mail::Ended(id));
    }

    /// A peer has come. What was sent to the one before by its name is not for another (ROUTER).
    fn meet(&mut self, peer: &Peer) {
        let before = self.peer_id.replace(peer.routing_id.clone());
        let Owner { hub, kind, options, .. } = &self.owner;
        let is_another = before.is_some_and(|before| before != peer.routing_id);
        if !is_another || !kind.names_peers || !options.connect_routing_id.is_empty() {
            return;
        }
        if let Some(ends) = &mut self.ends {
            hub.lost.give_up(Reason::PeerLost, ends.far.outgoing.give_up(&mut Vec::new()));
        }
    }

    /// Whether it is given up after `event` (ZMQ_RECONNECT_STOP).
    pub(super) fn stops_after(&self, event: Stop) -> bool {
        self.owner.options.reconnect_stop & event as i32 != 0
    }

    /// Whether it has, or had last, this pipe.
    pub(super) fn has_pipe(&self, hub: &Arc<Hub>, pipe: PipeId) -> bool {
        let same = matches!(self.state, State::Connected(id) if id == pipe)
            || self.ends.as_ref().is_some_and(|ends| ends.id == pipe);
        same && Arc::ptr_eq(&self.owner.hub, hub)
    }
}

/// A number from 0 to 1 that differs from call to call.
fn random(seed: u64) -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let hash = RandomState::new().hash_one((seed, Instant::now()));
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

impl Reactor {
    pub(super) fn connect(&mut self, connecter: Box<Connecter>) {
        let token = connecter.token;
        self.entries.insert(token, Entry::Connecter(connecter));
        self.dial(token);
    }

    pub(super) fn connecter(&mut self, token: u64) -> Option<&mut Connecter> {
        match self.entries.get_mut(&token) {
            Some(Entry::Connecter(connecter)) => Some(connecter),
            _ => None,
        }
    }

    /// Begins an attempt.
    fn dial(&mut self, token: u64) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        match &connecter.target.to {
            To::Local(local) => {
                match net::connect_local(local, &transports::setup(&connecter.owner.options)) {
                    Ok(fd) => self.shake(token, fd),
                    Err(error) => self.failed(token, error),
                }
            }
            To::Family(address) => {
                let address = *address;
                connecter.routes.clear();
                let dialed = families::connect(&address, &transports::setup(&connecter.owner.options));
                if let Err(error) = dialed.and_then(|fd| self.dialing(token, fd)) {
                    self.failed(token, error);
                }
            }
            To::Remote(remote) => {
                let Owner { context, options, .. } = &connecter.owner;
                let reply = move |routes| io.send(Command::Resolved(token, routes));
                let known = context.resolver().ask(remote, options.ipv6, reply);
                connecter.state = State::Resolving;
                match known {
                    Ok(Some(routes)) => self.resolved(token, routes),
                    Ok(None) => {}
                    Err(error) => self.failed(token, error),
                }
            }
        }
    }

    pub(super) fn resolved(&mut self, token: u64, routes: Vec<Route>) {
        let Some(connecter) = self.connecter(token) else { return };
        if matches!(connecter.state, State::Resolving) {
            connecter.routes = routes;
            self.dial_next(token, Errno::HOSTUNREACH);
        }
    }

    /// Dials the next address; `error` is what the last one ended with.
    fn dial_next(&mut self, token: u64, mut error: Errno) {
        loop {
            let Some(connecter) = self.connecter(token) else { return };
            if connecter.routes.is_empty() {
                break;
            }
            let Route { to, from } = connecter.routes.remove(0);
            let setup = transports::setup(&connecter.owner.options);
            let dialed = net::connect_tcp(&to, from.as_ref(), &setup);
            match dialed.and_then(|fd| self.dialing(token, fd)) {
                Ok(()) => return,
                Err(other) => error = other,
            }
        }
        self.failed(token, error);
    }

    /// Waits until an attempt has come to an end.
    fn dialing(&mut self, token: u64, fd: OwnedFd) -> Result<(), Errno> {
        self.io.poller().add(&fd, token, Interest::WRITE)?;
        let Some(connecter) = self.connecter(token) else { return Ok(()) };
        connecter.state = State::Dialing(fd);
        let value = Errno::INPROGRESS.raw_os_error() as u32;
        monitor::emit(&connecter.owner.hub, Event::ConnectDelayed, value, At::Dialed(&connecter.endpoint));
        let timeout = connecter.owner.options.connect_timeout;
        if !timeout.is_zero() {
            self.timers.set(token, Instant::now() + timeout);
        }
        Ok(())
    }

    pub(super) fn connecter_ready(&mut self, token: u64) {
        let Some(connecter) = self.connecter(token) else { return };
        match std::mem::replace(&mut connecter.state, State::Resting) {
            State::Dialing(fd) => {
                self.timers.clear(token);
                let _ = self.io.poller().remove(&fd);
                match net::connected(&fd) {
                    Ok(()) => self.shake(token, fd),
                    Err(error) => self.dial_next(token, error),
                }
            }
            State::Shaking(Some(session)) => self.step(token, session),
            other => connecter.state = other,
        }
    }

    fn shake(&mut self, token: u64, fd: OwnedFd) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        let (owner, endpoint) = (connecter.owner.clone(), connecter.endpoint.clone());
        if let Err(error) = transports::tune(&fd, &endpoint, &owner.options) {
            return self.failed(token, error);
        }
        connecter.between = transports::ends(&fd, &endpoint, false);
        connecter.reached = false;
        if owner.is_raw() {
            connecter.reached = true;
            monitor::emit_fd(&owner.hub, Event::Connected, &fd, At::Between(&connecter.between));
            return self.connected(token, Shaken::raw(fd, &owner.options));
        }
        let session = match Session::new(fd, &owner, &connecter.target.layers, Side::Connected) {
            Ok(session) => Box::new(session),
            Err(refusal) => {
                refusal.emit(&owner.hub, At::Between(&connecter.between));
                return self.failed(token, Errno::PROTO);
            }
        };
        if let Err(error) = io.poller().add(&session.stream, token, session.interest()) {
            return self.failed(token, error);
        }
        self.shake_until(token, &owner);
        self.step(token, session);
    }

    fn step(&mut self, token: u64, session: Box<Session>) {
        let io = self.io.clone();
        let descriptor = session.stream.as_fd().as_raw_fd() as u32;
        let Some(connecter) = self.connecter(token) else { return };
        let Connecter { owner, between, reached, .. } = connecter;
        let mut on_reached = |stream: &Stream| {
            *reached = true;
            monitor::emit_fd(&owner.hub, Event::Connected, stream, At::Between(between));
        };
        let (session, step) = session.step(&io, token, &mut on_reached);
        match step {
            Step::Wait => connecter.state = State::Shaking(session),
            Step::Done(shaken) => {
                self.timers.clear(token);
                let _ = self.io.poller().remove(&shaken.stream);
                self.connected(token, *shaken);
            }
            Step::Lost(error) => {
                let value = error.raw_os_error() as u32;
                monitor::emit(&owner.hub, Event::HandshakeFailedNoDetail, value, At::Between(between));
                self.shaking_failed(token, descriptor);
            }
            Step::Refused(refusal) => {
                refusal.emit(&owner.hub, At::Between(between));
                self.shaking_failed(token, descriptor);
            }
        }
    }

    pub(super) fn connected(&mut self, token: u64, shaken: Shaken) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        connecter.failures = 0;
        connecter.refusals = 0;
        connecter.meet(&shaken.peer);
        let (owner, between) = (connecter.owner.clone(), connecter.between.clone());
        let Some(ends) = connecter.ends.take() else {
            let id = self.attach(&owner, shaken, &between, token, Side::Connected);
            if let (Some(id), Some(connecter)) = (id, self.connecter(token)) {
                connecter.state = State::Connected(id);
            }
            return self.look_at_closing(token);
        };
        connecter.state = State::Connected(ends.id);
        let Shaken { stream, peer, codec, behind, carrier } = shaken;
        let (version, connection) = (peer.version, ends.connections);
        let config = owner.link_config(version, carrier, &between, token, connection, Side::Connected);
        let link = Arc::new(Link::new(stream, owner.hub.clone(), io, ends.id, config, codec, ends.far));
        owner.hub.post(Mail::Up(ends.id, Box::new(peer), link.clone()));
        if self.begin_link(&owner, &link, &behind.bytes) {
            fence(Ordering::SeqCst); // The flush sees a sender's message, or the sender this mail (`Chore::Unlinked`).
            link.flush();
        }
        self.look_at_closing(token);
    }

    /// An attempt failed, or a connection was lost: pause, then again.
    fn failed(&mut self, token: u64, error: Errno) {
        let Some(connecter) = self.connecter(token) else { return };
        connecter.refusals = 0; // Somebody else may answer there next.
        let refused = error == Errno::CONNREFUSED && connecter.stops_after(Stop::Refused);
        let (hub, at) = (&connecter.owner.hub, At::Dialed(&connecter.endpoint));
        monitor::emit(hub, Event::Closed, error.raw_os_error() as u32, at);
        if refused { self.abandon(token) } else { self.rest(token) }
    }

    /// A connection ended before its handshake did: it was told of, and so is its end. Pause, then again.
    fn shaking_failed(&mut self, token: u64, descriptor: u32) {
        let Some(connecter) = self.connecter(token) else { return };
        if !connecter.reached {
            return self.failed(token, Errno::CONNREFUSED); // The way to the peer failed.
        }
        connecter.refusals += 1;
        let stops = connecter.stops_after(Stop::HandshakeFailed);
        let (hub, at) = (&connecter.owner.hub, At::Between(&connecter.between));
        monitor::emit(hub, Event::Disconnected, descriptor, at);
        if stops { self.abandon(token) } else { self.rest(token) }
    }

    /// An endpoint is given up for good.
    fn abandon(&mut self, token: u64) {
        if let Some(hub) = self.connecter(token).map(|connecter| connecter.owner.hub.clone()) {
            self.give_up(token);
            hub.post(Mail::Forget(token));
        }
    }

    /// The connection of a pipe ends once all is written; where we made it, we make no other.
    pub(super) fn hang_up(&mut self, hub: Arc<Hub>, pipe: PipeId, linger: Option<Duration>) {
        let connecter = self.entries.iter().find_map(|(&token, entry)| match entry {
            Entry::Connecter(connecter) if connecter.has_pipe(&hub, pipe) => Some(token),
            _ => None,
        });
        if let Some(token) = connecter {
            self.abandon(token);
        }
        if let Some(link) = hub.link_of(pipe) {
            self.start_closing(hub, vec![link], Vec::new(), linger, None);
        }
    }

    fn rest(&mut self, token: u64) {
        self.timers.clear(token);
        let Some(connecter) = self.connecter(token) else { return };
        connecter.state = State::Resting;
        let pause = connecter.pause(token);
        connecter.failures += 1;
        if let Some(pause) = pause {
            let (hub, at) = (&connecter.owner.hub, At::Dialed(&connecter.endpoint));
            monitor::emit(hub, Event::ConnectRetried, pause.as_millis() as u32, at);
            self.timers.set(token, Instant::now() + pause);
        }
    }

    /// A timer of a connecter: a pause is over, or an attempt took too long.
    pub(super) fn connecter_timer(&mut self, token: u64, _now: Instant) {
        let Some(connecter) = self.connecter(token) else { return };
        match connecter.state {
            State::Resting => self.dial(token),
            State::Dialing(_) => self.dial_next(token, Errno::TIMEDOUT),
            State::Shaking(ref session) => {
                let descriptor =
                    session.as_ref().map_or(u32::MAX, |session| session.stream.as_fd().as_raw_fd() as u32);
                let (hub, value) = (connecter.owner.hub.clone(), Errno::TIMEDOUT.raw_os_error() as u32);
                let at = At::Between(&connecter.between);
                monitor::emit(&hub, Event::HandshakeFailedNoDetail, value, at);
                self.shaking_failed(token, descriptor);
            }
            State::Resolving | State::Connected(_) => {}
        }
    }

    /// A connection is lost.
    pub(super) fn link_down(&mut self, hub: &Hub, pipe: PipeId) {
        if let Some(link) = hub.link_of(pipe).filter(|link| link.is_broken()) {
            self.lose(&link);
            self.look_at_closing(link.io_token);
        }
    }

    /// Parts with a lost connection. What it has not sent goes back to the connecter that made it, which dials again;
    /// with one that came in, or has a pipe of its own, it is lost.
    pub(super) fn lose(&mut self, link: &Link) {
        let (hub, pipe, origin) = (&link.hub, link.pipe, link.config.origin);
        self.leave(link);
        monitor::emit(hub, Event::Disconnected, link.descriptor, At::Between(&link.config.ends));
        let Some(mut ends) = link.dismantle() else { return };
        // Of a closed socket nobody would hear them.
        let last_words: &[Vec<u8>] = if hub.is_closed() { &[] } else { &link.config.last_words };
        for words in last_words {
            match ends.incoming.put(words) {
                Ok(passed) => hub.lost.add(Reason::Conflated, passed.replaced),
                Err(_) => hub.lost.add(Reason::NoMemory, 1),
            }
        }
        let Some(connecter) = self.connecter(origin).filter(|one| one.keeps_pipe()) else {
            bury(hub, link.config.hears_wishes, ends, Reason::PeerLost);
            hub.post(Mail::Ended(pipe));
            return self.rest_or_stop(origin);
        };
        let connections = link.config.connection + 1;
        connecter.ends = Some(Box::new(Ends { id: pipe, far: ends, connections }));
        connecter.state = State::Resting;
        if connecter.ending && !connecter.has_unsent() {
            return self.give_up(origin);
        }
        hub.post(Mail::Down(pipe));
        if !last_words.is_empty() {
            hub.post(Mail::Readable(pipe));
        }
        self.rest_or_stop(origin);
    }

    /// A connection is lost: pause, then dial again; where there is no reconnecting, the endpoint is given up.
    fn rest_or_stop(&mut self, token: u64) {
        let Some(connecter) = self.connecter(token) else { return };
        if connecter.owner.options.reconnect_ivl.is_none() {
            return self.abandon(token);
        }
        self.rest(token);
    }
}
