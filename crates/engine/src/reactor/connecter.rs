//! Connecting endpoints: dialing, shaking hands, and again with a growing pause when that fails or the
//! connection is lost.
//!
//! The pause before attempt n is the reconnect interval (doubled each time up to its maximum, where one is
//! set) plus a random part of the interval, so that many clients do not come back all at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_ring::{Consumer, Producer};
use pinnace_sys::poll::Interest;
use pinnace_sys::{Errno, OwnedFd, net};

use super::session::{Owner, Session, Shaken, Step};
use super::{Command, Entry, Reactor};
use crate::hub::{Hub, Mail};
use crate::link::Link;
use crate::monitor::{self, Event};
use crate::pipe::PipeId;
use crate::transports::{self, Route, Target};

/// The far ends of a pipe that lasts over reconnects.
pub(crate) struct Ends {
    pub(crate) id: PipeId,
    pub(crate) outgoing: Consumer,
    pub(crate) incoming: Producer,
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
    /// The pipe, while it has no connection; none where a pipe is made for each connection (ZMQ_IMMEDIATE).
    pub(super) ends: Option<Ends>,
    pub(super) state: State,
    /// Attempts that failed in a row.
    failures: u32,
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

impl Connecter {
    /// One that has not dialed yet.
    pub(crate) fn new(
        token: u64,
        owner: Owner,
        target: Target,
        endpoint: String,
        ends: Option<Ends>,
    ) -> Connecter {
        let (state, routes) = (State::Resting, Vec::new());
        Connecter { token, owner, target, endpoint, ends, state, failures: 0, routes }
    }

    /// How long to pause now.
    fn pause(&self, token: u64) -> Option<Duration> {
        let options = &self.owner.options;
        let base = options.reconnect_ivl?;
        let max = options.reconnect_ivl_max;
        let mut pause = base;
        if max > base {
            pause = base.saturating_mul(1u32.checked_shl(self.failures.min(20)).unwrap_or(1)).min(max);
        }
        Some(pause + base.mul_f64(random(token ^ u64::from(self.failures))))
    }

    /// Whether messages wait that were never sent.
    pub(super) fn has_unsent(&mut self) -> bool {
        self.ends.as_mut().is_some_and(|ends| ends.outgoing.has_frame())
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

    fn connecter(&mut self, token: u64) -> Option<&mut Connecter> {
        match self.entries.get_mut(&token) {
            Some(Entry::Connecter(connecter)) => Some(connecter),
            _ => None,
        }
    }

    /// Begins an attempt.
    fn dial(&mut self, token: u64) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        match &connecter.target {
            Target::Local(local) => {
                match net::connect_local(local, &transports::setup(&connecter.owner.options)) {
                    Ok(fd) => self.shake(token, fd),
                    Err(error) => self.failed(token, error),
                }
            }
            Target::Remote(remote) => {
                let (remote, ipv6) = (remote.clone(), connecter.owner.options.ipv6);
                connecter.state = State::Resolving;
                if !remote.is_slow() {
                    return self.resolved(token, remote.routes(ipv6));
                }
                let resolver = std::thread::Builder::new().name("pinnace/dns".into());
                let started = resolver.spawn(move || io.send(Command::Resolved(token, remote.routes(ipv6))));
                if started.is_err() {
                    self.failed(token, Errno::AGAIN);
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
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        while !connecter.routes.is_empty() {
            let Route { to, from } = connecter.routes.remove(0);
            let setup = transports::setup(&connecter.owner.options);
            match net::connect_tcp(&to, from.as_ref(), &setup) {
                Ok(fd) if io.poller().add(&fd, token, Interest::WRITE).is_ok() => {
                    connecter.state = State::Dialing(fd);
                    monitor::emit(&connecter.owner.hub, Event::ConnectDelayed, 0, &connecter.endpoint);
                    let timeout = connecter.owner.options.connect_timeout;
                    if !timeout.is_zero() {
                        self.timers.set(token, Instant::now() + timeout);
                    }
                    return;
                }
                Ok(_) => error = Errno::NOMEM,
                Err(other) => error = other,
            }
        }
        self.failed(token, error);
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
        let session = Box::new(Session::new(fd, &owner));
        let tuned = transports::tune(&session.fd, &endpoint, &owner.options);
        if let Err(error) = tuned.and_then(|()| io.poller().add(&session.fd, token, session.interest())) {
            self.failed(token, error);
            return;
        }
        monitor::emit_fd(&owner.hub, Event::Connected, &session.fd, &endpoint);
        self.shake_until(token, &owner);
        self.step(token, session);
    }

    fn step(&mut self, token: u64, session: Box<Session>) {
        let (session, step) = session.step(&self.io, token);
        let Some(connecter) = self.connecter(token) else { return };
        match step {
            Step::Wait => connecter.state = State::Shaking(session),
            Step::Done(shaken) => {
                self.timers.clear(token);
                let _ = self.io.poller().remove(&shaken.fd);
                self.connected(token, *shaken);
            }
            Step::Lost(error) => {
                let value = error.raw_os_error() as u32;
                monitor::emit(
                    &connecter.owner.hub,
                    Event::HandshakeFailedNoDetail,
                    value,
                    &connecter.endpoint,
                );
                self.failed(token, error);
            }
            Step::Refused(error) => {
                monitor::emit_refusal(&connecter.owner.hub, &error, &connecter.endpoint);
                self.failed(token, Errno::PROTO);
            }
        }
    }

    fn connected(&mut self, token: u64, shaken: Shaken) {
        let io = self.io.clone();
        let Some(connecter) = self.connecter(token) else { return };
        connecter.failures = 0;
        let (owner, endpoint) = (connecter.owner.clone(), connecter.endpoint.clone());
        let Some(ends) = connecter.ends.take() else {
            if let Some(id) = self.attach(&owner, shaken, &endpoint, token)
                && let Some(connecter) = self.connecter(token)
            {
                connecter.state = State::Connected(id);
            }
            return;
        };
        connecter.state = State::Connected(ends.id);
        let Shaken { fd, peer, behind } = shaken;
        let config = owner.link_config(&peer, &endpoint, token, ends.connections);
        let link =
            Arc::new(Link::new(fd, owner.hub.clone(), io, ends.id, config, ends.outgoing, ends.incoming));
        owner.hub.post(Mail::Up(ends.id, Box::new(peer), link.clone()));
        monitor::emit(&owner.hub, Event::HandshakeSucceeded, 0, &endpoint);
        link.feed(&behind);
        if owner.hub.add_link(&link).is_err() {
            link.cut();
            return;
        }
        self.beat(&link, &owner.options);
        link.flush();
        link.be_watched(); // A sender that has not heard of the link yet leaves its message.
    }

    /// An attempt failed, or a connection was lost: pause, then again.
    fn failed(&mut self, token: u64, error: Errno) {
        let Some(connecter) = self.connecter(token) else { return };
        let (hub, endpoint) = (connecter.owner.hub.clone(), connecter.endpoint.clone());
        monitor::emit(&hub, Event::Closed, error.raw_os_error() as u32, &endpoint);
        self.rest(token);
    }

    fn rest(&mut self, token: u64) {
        self.timers.clear(token);
        let Some(connecter) = self.connecter(token) else { return };
        connecter.state = State::Resting;
        let pause = connecter.pause(token);
        connecter.failures += 1;
        if let Some(pause) = pause {
            let (hub, endpoint) = (connecter.owner.hub.clone(), connecter.endpoint.clone());
            monitor::emit(&hub, Event::ConnectRetried, pause.as_millis() as u32, &endpoint);
            self.timers.set(token, Instant::now() + pause);
        }
    }

    /// A timer of a connecter: a pause is over, or an attempt took too long.
    pub(super) fn connecter_timer(&mut self, token: u64, _now: Instant) {
        let Some(connecter) = self.connecter(token) else { return };
        match connecter.state {
            State::Resting => self.dial(token),
            State::Dialing(_) => self.dial_next(token, Errno::TIMEDOUT),
            State::Shaking(_) => {
                let (hub, value) = (connecter.owner.hub.clone(), Errno::TIMEDOUT.raw_os_error() as u32);
                monitor::emit(&hub, Event::HandshakeFailedNoDetail, value, &connecter.endpoint.clone());
                self.failed(token, Errno::TIMEDOUT);
            }
            State::Resolving | State::Connected(_) => {}
        }
    }

    /// A connection is lost.
    pub(super) fn link_down(&mut self, hub: &Arc<Hub>, pipe: PipeId) {
        let Some(link) = hub.link_of(pipe).filter(|link| link.is_broken()) else { return };
        hub.remove_link(&link);
        let origin = link.config.origin;
        monitor::emit(hub, Event::Disconnected, link.descriptor, &link.config.endpoint);
        let (outgoing, incoming) = link.dismantle();
        let Some(connecter) = self.connecter(origin) else {
            hub.post(Mail::Ended(pipe));
            return;
        };
        if connecter.owner.options.immediate {
            hub.post(Mail::Ended(pipe));
        } else if let (Some(outgoing), Some(incoming)) = (outgoing, incoming) {
            let connections = link.config.connection + 1;
            connecter.ends = Some(Ends { id: pipe, outgoing, incoming, connections });
            hub.post(Mail::Down(pipe));
        }
        self.rest(origin);
    }
}
