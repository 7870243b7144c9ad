//! Connecting endpoints: dialing and handshakes, repeated after a growing pause when they fail or the connection is
//! lost.
//!
//! `backoff` says how long the pauses are. After the events in ZMQ_RECONNECT_STOP an endpoint is given up: its pipe
//! ends, and the messages in it are lost.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use pinnace_sys::poll::Interest;
use pinnace_sys::{AsFd, AsRawFd, Errno, OwnedFd, families, net};

use super::backoff;
use super::closing::count_losses;
use super::session::{Session, Shaken, Step};
use super::{Entry, Reactor};
use crate::drops::Reason;
use crate::endpoint::EndpointPair;
use crate::events::Event;
use crate::io::{Command, ConnectionSide, Dial, LastingPipe, Owner};
use crate::link::{Link, Stream};
use crate::mailbox::{Mailbox, Notice};
use crate::monitor::{self, At};
use crate::peer::Peer;
use crate::pipe::PipeId;
use crate::transports::{self, Route, Target, To};

/// A connecting endpoint of a socket.
pub(crate) struct Connecter {
    pub(super) owner: Owner,
    target: Target,
    /// As the user wrote it.
    endpoint: String,
    /// Both ends of the connection that is being made.
    between: EndpointPair,
    /// The connection has reached the peer itself, past any proxy.
    reached: bool,
    /// The pipe. None while it has a connection, or if the next connection gets a pipe of its own (ZMQ_IMMEDIATE,
    /// `meet`).
    pub(super) ends: Option<Box<LastingPipe>>,
    pub(super) state: ConnecterState,
    /// The endpoint is closed: the connecter continues until all is sent, over as many connections as that takes.
    pub(super) ending: bool,
    /// Failed attempts in a row; and refused handshakes since the last attempt that did not get as far as a
    /// handshake.
    failures: u32,
    refusals: u32,
    /// The routing id that the last peer announced; None before the first.
    peer_id: Option<Vec<u8>>,
    /// The routes still to be tried in this attempt.
    routes: Vec<Route>,
}

pub(super) enum ConnecterState {
    /// Until the timer expires; forever if reconnecting is off.
    Resting,
    Resolving,
    Dialing(OwnedFd),
    Shaking(Option<Box<super::session::Session>>),
    Connected(PipeId),
}

/// Bits of ZMQ_RECONNECT_STOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Stop {
    Refused = 1,
    HandshakeFailed = 2,
    AfterDisconnect = 4,
}

impl Connecter {
    fn new(dial: Dial) -> Connecter {
        let Dial { owner, target, endpoint, ends, .. } = dial;
        Connecter {
            owner,
            target,
            endpoint,
            between: EndpointPair::default(),
            reached: false,
            ends,
            state: ConnecterState::Resting,
            ending: false,
            failures: 0,
            refusals: 0,
            peer_id: None,
            routes: Vec::new(),
        }
    }

    /// True if messages wait that were never sent.
    pub(super) fn has_unsent(&mut self) -> bool {
        self.ends.as_mut().is_some_and(|ends| ends.far.outgoing.has_message())
    }

    /// True if the pipe survives reconnects; false if each connection has a pipe of its own.
    fn keeps_pipe(&self) -> bool {
        !self.owner.options.immediate
    }

    /// True if it gets back the unsent messages of its connection when that is lost.
    pub(super) fn may_dial_again(&self) -> bool {
        matches!(self.state, ConnecterState::Connected(_)) && self.keeps_pipe()
    }

    /// Ends the pipe, if it has no connection; its unsent messages are lost for this reason.
    pub(super) fn end_pipe(&mut self, reason: Reason) {
        let Some(LastingPipe { id, far, .. }) = self.ends.take().map(|ends| *ends) else { return };
        count_losses(&self.owner.mailbox, self.owner.kind.receives_subscriptions(), far, reason);
        self.owner.mailbox.post(Notice::Ended(id));
    }

    /// A peer has connected. If it is not the previous one, and the socket sends to one certain peer, it gets a pipe of
    /// its own: what was sent to the previous one is lost, and what that one has sent keeps its sender.
    fn meet(&mut self, peer: &Peer) {
        let before = self.peer_id.replace(peer.routing_id.clone());
        let Owner { kind, options, .. } = &self.owner;
        let is_another = before.is_some_and(|before| before != peer.routing_id);
        if is_another && kind.addresses_peers && options.connect_routing_id.is_empty() {
            self.end_pipe(Reason::PeerLost);
        }
    }

    /// Whether the endpoint is given up after `event` (ZMQ_RECONNECT_STOP).
    pub(super) fn stops_after(&self, event: Stop) -> bool {
        self.owner.options.reconnect_stop & event as i32 != 0
    }

    /// True if it has this pipe, or had it last.
    pub(super) fn has_pipe(&self, mailbox: &Arc<Mailbox>, pipe: PipeId) -> bool {
        let same = matches!(self.state, ConnecterState::Connected(id) if id == pipe)
            || self.ends.as_ref().is_some_and(|ends| ends.id == pipe);
        same && Arc::ptr_eq(&self.owner.mailbox, mailbox)
    }
}

impl Reactor {
    pub(super) fn connect(&mut self, dial: Dial) {
        let token = self.add_connecter(dial);
        self.dial(token);
    }

    pub(super) fn add_connecter(&mut self, dial: Dial) -> u64 {
        let token = dial.token;
        self.entries.insert(token, Entry::Connecter(Box::new(Connecter::new(dial))));
        token
    }

    pub(super) fn connecter(&mut self, token: u64) -> Option<&mut Connecter> {
        match self.entries.get_mut(&token) {
            Some(Entry::Connecter(connecter)) => Some(connecter),
            _ => None,
        }
    }

    /// Starts an attempt.
    fn dial(&mut self, token: u64) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        match &connecter.target.to {
            To::Local(local) => {
                match net::connect_local(local, &transports::setup(&connecter.owner.options)) {
                    Ok(fd) => self.shake(token, fd),
                    Err(error) => self.dial_failed(token, error),
                }
            }
            To::Family(address) => {
                let address = *address;
                connecter.routes.clear();
                let dialed = families::connect(&address, &transports::setup(&connecter.owner.options));
                if let Err(error) = dialed.and_then(|fd| self.dialing(token, fd)) {
                    self.dial_failed(token, error);
                }
            }
            To::Remote(remote) => {
                let Owner { services, options, .. } = &connecter.owner;
                let reply = move |routes| io.send(Command::Resolved(token, routes));
                let known = services.resolver.ask(remote, options.ipv6, reply);
                connecter.state = ConnecterState::Resolving;
                match known {
                    Ok(Some(routes)) => self.resolved(token, routes),
                    Ok(None) => {}
                    Err(error) => self.dial_failed(token, error),
                }
            }
        }
    }

    pub(super) fn resolved(&mut self, token: u64, routes: Vec<Route>) {
        let Some(connecter) = self.connecter(token) else { return };
        if matches!(connecter.state, ConnecterState::Resolving) {
            connecter.routes = routes;
            self.dial_next(token, Errno::HOSTUNREACH);
        }
    }

    /// Dials the next address. `error`: the failure of the previous one.
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
        self.dial_failed(token, error);
    }

    /// Waits for the outcome of a connection attempt.
    fn dialing(&mut self, token: u64, fd: OwnedFd) -> Result<(), Errno> {
        self.io.poller().add(&fd, token, Interest::WRITE)?;
        let Some(connecter) = self.connecter(token) else { return Ok(()) };
        connecter.state = ConnecterState::Dialing(fd);
        let value = Errno::INPROGRESS.raw_os_error() as u32;
        monitor::emit(
            &connecter.owner.mailbox,
            Event::ConnectDelayed,
            value,
            At::Dialed(&connecter.endpoint),
        );
        let timeout = connecter.owner.options.connect_timeout;
        if !timeout.is_zero() {
            self.timers.set(token, Instant::now() + timeout);
        }
        Ok(())
    }

    pub(super) fn connecter_ready(&mut self, token: u64) {
        let Some(connecter) = self.connecter(token) else { return };
        match std::mem::replace(&mut connecter.state, ConnecterState::Resting) {
            ConnecterState::Dialing(fd) => {
                self.timers.clear(token);
                let _ = self.io.poller().remove(&fd);
                match net::connected(&fd) {
                    Ok(()) => self.shake(token, fd),
                    Err(error) => self.dial_next(token, error),
                }
            }
            ConnecterState::Shaking(Some(session)) => self.step(token, session),
            other => connecter.state = other,
        }
    }

    fn shake(&mut self, token: u64, fd: OwnedFd) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        let (owner, endpoint) = (connecter.owner.clone(), connecter.endpoint.clone());
        if let Err(error) = transports::tune(&fd, &endpoint, &owner.options) {
            return self.dial_failed(token, error);
        }
        connecter.between = transports::ends(&fd, &endpoint, false);
        connecter.reached = false;
        if owner.is_raw() {
            connecter.reached = true;
            monitor::emit_fd(&owner.mailbox, Event::Connected, &fd, At::Between(&connecter.between));
            return self.connected(token, Shaken::raw(fd, &owner.options));
        }
        let session = match Session::new(fd, &owner, &connecter.target.layers, ConnectionSide::Connected) {
            Ok(session) => Box::new(session),
            Err(refusal) => {
                refusal.emit(&owner.mailbox, At::Between(&connecter.between));
                return self.dial_failed(token, Errno::PROTO);
            }
        };
        if let Err(error) = io.poller().add(&session.stream, token, session.interest()) {
            return self.dial_failed(token, error);
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
            monitor::emit_fd(&owner.mailbox, Event::Connected, stream, At::Between(between));
        };
        let (session, step) = session.step(&io, token, &mut on_reached);
        match step {
            Step::Wait => connecter.state = ConnecterState::Shaking(session),
            Step::Done(shaken) => {
                self.timers.clear(token);
                let _ = self.io.poller().remove(&shaken.stream);
                self.connected(token, *shaken);
            }
            Step::Lost(error) => {
                let value = error.raw_os_error() as u32;
                monitor::emit(&owner.mailbox, Event::HandshakeFailedNoDetail, value, At::Between(between));
                self.handshake_failed(token, descriptor);
            }
            Step::Refused(refusal) => {
                refusal.emit(&owner.mailbox, At::Between(between));
                self.handshake_failed(token, descriptor);
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
            let id = self.attach(&owner, shaken, &between, token, ConnectionSide::Connected);
            if let (Some(id), Some(connecter)) = (id, self.connecter(token)) {
                connecter.state = ConnecterState::Connected(id);
            }
            return self.look_at_closing(token);
        };
        connecter.state = ConnecterState::Connected(ends.id);
        let Shaken { stream, peer, codec, behind, medium } = shaken;
        let (version, connection) = (peer.version, ends.connections);
        let config =
            owner.link_config(version, medium, &between, token, connection, ConnectionSide::Connected);
        let link = Arc::new(Link::new(stream, owner.mailbox.clone(), io, ends.id, config, codec, ends.far));
        owner.mailbox.post(Notice::Up(ends.id, Box::new(peer), link.clone()));
        if self.begin_link(&owner, &link, &behind.bytes) {
            fence(Ordering::SeqCst); // Flush sees a sender's message, or the sender this notice (`Deferred::Unlinked`).
            link.flush();
        }
        self.look_at_closing(token);
    }

    /// An attempt failed before its handshake: pause, then retry.
    fn dial_failed(&mut self, token: u64, error: Errno) {
        let Some(connecter) = self.connecter(token) else { return };
        connecter.refusals = 0; // Another server may answer there next time.
        let refused = error == Errno::CONNREFUSED && connecter.stops_after(Stop::Refused);
        let (mailbox, at) = (&connecter.owner.mailbox, At::Dialed(&connecter.endpoint));
        monitor::emit(mailbox, Event::Closed, error.raw_os_error() as u32, at);
        if refused { self.abandon(token) } else { self.schedule_retry(token) }
    }

    /// A connection ended before its handshake did. Its start was reported, and so is its end. Pause, then retry.
    fn handshake_failed(&mut self, token: u64, descriptor: u32) {
        let Some(connecter) = self.connecter(token) else { return };
        if !connecter.reached {
            return self.dial_failed(token, Errno::CONNREFUSED); // It did not get past the proxy.
        }
        connecter.refusals += 1;
        let stops = connecter.stops_after(Stop::HandshakeFailed);
        let (mailbox, at) = (&connecter.owner.mailbox, At::Between(&connecter.between));
        monitor::emit(mailbox, Event::Disconnected, descriptor, at);
        if stops { self.abandon(token) } else { self.schedule_retry(token) }
    }

    /// Gives up an endpoint.
    fn abandon(&mut self, token: u64) {
        if let Some(mailbox) = self.connecter(token).map(|connecter| connecter.owner.mailbox.clone()) {
            self.give_up(token);
            mailbox.post(Notice::Forget(token));
        }
    }

    /// Ends the connection of a pipe once all is written. If we made the connection, we make no other.
    pub(super) fn hang_up(&mut self, mailbox: Arc<Mailbox>, pipe: PipeId, linger: Option<Duration>) {
        let connecter = self.entries.iter().find_map(|(&token, entry)| match entry {
            Entry::Connecter(connecter) if connecter.has_pipe(&mailbox, pipe) => Some(token),
            _ => None,
        });
        if let Some(token) = connecter {
            self.abandon(token);
        }
        if let Some(link) = mailbox.link_of(pipe) {
            self.start_closing(mailbox, vec![link], Vec::new(), linger, None);
        }
    }

    fn schedule_retry(&mut self, token: u64) {
        self.timers.clear(token);
        let Some(connecter) = self.connecter(token) else { return };
        connecter.state = ConnecterState::Resting;
        let Connecter { failures, refusals, .. } = *connecter;
        let pause = backoff::pause(&connecter.owner.options, failures, refusals);
        connecter.failures += 1;
        if let Some(pause) = pause {
            let (mailbox, at) = (&connecter.owner.mailbox, At::Dialed(&connecter.endpoint));
            monitor::emit(mailbox, Event::ConnectRetried, pause.as_millis() as u32, at);
            self.timers.set(token, Instant::now() + pause);
        }
    }

    /// A connecter's timer has expired: a pause is over, or an attempt took too long.
    pub(super) fn connecter_timer(&mut self, token: u64, _now: Instant) {
        let Some(connecter) = self.connecter(token) else { return };
        match connecter.state {
            ConnecterState::Resting => self.dial(token),
            ConnecterState::Dialing(_) => self.dial_next(token, Errno::TIMEDOUT),
            ConnecterState::Shaking(ref session) => {
                let descriptor =
                    session.as_ref().map_or(u32::MAX, |session| session.stream.as_fd().as_raw_fd() as u32);
                let (mailbox, value) =
                    (connecter.owner.mailbox.clone(), Errno::TIMEDOUT.raw_os_error() as u32);
                let at = At::Between(&connecter.between);
                monitor::emit(&mailbox, Event::HandshakeFailedNoDetail, value, at);
                self.handshake_failed(token, descriptor);
            }
            ConnecterState::Resolving | ConnecterState::Connected(_) => {}
        }
    }

    /// A connection is lost.
    pub(super) fn link_down(&mut self, mailbox: &Mailbox, pipe: PipeId) {
        if let Some(link) = mailbox.link_of(pipe).filter(|link| link.is_broken()) {
            self.lose(&link);
            self.look_at_closing(link.io_token);
        }
    }

    /// Removes a lost connection. Its unsent messages go back to the connecter that made it, which dials again. They
    /// are lost if the connection was accepted, or had a pipe of its own.
    pub(super) fn lose(&mut self, link: &Link) {
        let (mailbox, pipe, origin) = (&link.mailbox, link.pipe, link.config.origin);
        self.leave(link);
        monitor::emit(mailbox, Event::Disconnected, link.descriptor, At::Between(&link.config.ends));
        let Some(mut ends) = link.dismantle() else { return };
        // A closed socket would not receive them.
        let disconnect_messages: &[Vec<u8>] =
            if mailbox.is_closed() { &[] } else { &link.config.disconnect_messages };
        for words in disconnect_messages {
            match ends.incoming.put(words) {
                Ok(passed) => mailbox.lost.add(Reason::Conflated, passed.replaced),
                Err(_) => mailbox.lost.add(Reason::NoMemory, 1),
            }
        }
        let Some(connecter) = self.connecter(origin).filter(|one| one.keeps_pipe()) else {
            count_losses(mailbox, link.config.receives_subscriptions, ends, Reason::PeerLost);
            mailbox.post(Notice::Ended(pipe));
            return self.rest_or_stop(origin);
        };
        let connections = link.config.connection + 1;
        connecter.ends = Some(Box::new(LastingPipe { id: pipe, far: ends, connections }));
        connecter.state = ConnecterState::Resting;
        if connecter.ending && !connecter.has_unsent() {
            return self.give_up(origin);
        }
        mailbox.post(Notice::Down(pipe));
        if !disconnect_messages.is_empty() {
            mailbox.post(Notice::Readable(pipe));
        }
        self.rest_or_stop(origin);
    }

    /// A connection is lost: pause, then dial again. If reconnecting is off, the endpoint is given up.
    fn rest_or_stop(&mut self, token: u64) {
        let Some(connecter) = self.connecter(token) else { return };
        if connecter.owner.options.reconnect_ivl.is_none() {
            return self.abandon(token);
        }
        self.schedule_retry(token);
    }
}
