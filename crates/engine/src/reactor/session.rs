//! A handshake with a peer, on a descriptor that is read and written as it allows.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use pinnace_ring::{Limits, queue};
use pinnace_sys::poll::Interest;
use pinnace_sys::{Errno, OwnedFd, net};
use pinnace_zmtp::{Config, Handshake};

use super::{Entry, Io, Reactor};
use crate::hub::{Hub, Mail};
use crate::link::{self, Link};
use crate::monitor::{self, Event};
use crate::options::Options;
use crate::peer::Peer;
use crate::pipe::{Far, Pipe, PipeId};
use crate::socket_kind::Kind;

/// What a peer may make one handshake hold, in bytes.
const HANDSHAKE_BYTES: usize = 16 * 1024;

/// A handshake in progress.
pub(super) struct Session {
    pub(super) fd: OwnedFd,
    handshake: Handshake,
    /// Bytes of traffic that came behind the peer's handshake.
    behind: Vec<u8>,
    writing: bool,
}

/// How a step of a handshake ended.
pub(super) enum Step {
    /// Not yet: wait for the descriptor.
    Wait,
    Done(Box<Shaken>),
    /// The connection was lost.
    Lost(Errno),
    /// The peer broke the rules, or does not go with us.
    Refused(pinnace_zmtp::Error),
}

/// A connection whose handshake is over.
pub(super) struct Shaken {
    pub(super) fd: OwnedFd,
    pub(super) peer: Peer,
    pub(super) behind: Vec<u8>,
}

/// What a socket is, for those who make connections for it.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) hub: Arc<Hub>,
    pub(crate) kind: Kind,
    pub(crate) options: Arc<Options>,
}

impl Session {
    pub(super) fn new(fd: OwnedFd, owner: &Owner) -> Session {
        let mut config = Config::new(owner.kind.socket_type);
        config.routing_id = owner.options.routing_id.clone();
        config.limits.max_handshake_bytes = HANDSHAKE_BYTES;
        Session { fd, handshake: Handshake::new(config), behind: Vec::new(), writing: true }
    }

    /// What its descriptor has to be watched for; as it was registered.
    pub(super) fn interest(&self) -> Interest {
        if self.writing { Interest::BOTH } else { Interest::READ }
    }

    /// Goes on as far as the descriptor allows.
    pub(super) fn step(mut self: Box<Self>, io: &Io, token: u64) -> (Option<Box<Self>>, Step) {
        let mut ended = self.write().err();
        while ended.is_none() && self.handshake.peer().is_none() {
            let mut bytes = [0; 1024];
            match net::read(&self.fd, &mut bytes, &mut []) {
                Ok(0) => ended = Some(Errno::CONNRESET),
                Ok(count) => {
                    match self.handshake.input(&bytes[..count]) {
                        Ok(taken) => self.behind.extend_from_slice(&bytes[taken..count]),
                        Err(error) => return (None, self.refuse(error)),
                    }
                    ended = self.write().err();
                }
                Err(Errno::AGAIN) => break,
                Err(error) => ended = Some(error),
            }
        }
        if let Some(error) = ended {
            return (None, Step::Lost(error));
        }
        if self.handshake.peer().is_some() && self.handshake.output().is_empty() {
            let Session { fd, handshake, behind, .. } = *self;
            let peer = handshake.into_peer().expect("the peer is known");
            let peer = Peer { routing_id: peer.routing_id, version: peer.version };
            return (None, Step::Done(Box::new(Shaken { fd, peer, behind })));
        }
        let writing = !self.handshake.output().is_empty();
        if writing != self.writing {
            self.writing = writing;
            let _ = io.poller().modify(&self.fd, token, self.interest());
        }
        (Some(self), Step::Wait)
    }

    fn write(&mut self) -> Result<(), Errno> {
        while !self.handshake.output().is_empty() {
            match net::write(&self.fd, &[IoSlice::new(self.handshake.output())]) {
                Ok(taken) => self.handshake.sent(taken),
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the peer why, as far as it takes that at once.
    fn refuse(self: Box<Self>, error: pinnace_zmtp::Error) -> Step {
        if let Some(reply) = error.reply() {
            let mut bytes = self.handshake.output().to_vec();
            bytes.extend_from_slice(&reply);
            let _ = net::write(&self.fd, &[IoSlice::new(&bytes)]);
        }
        Step::Refused(error)
    }
}

/// A connection that came in, before its handshake is over.
pub(super) struct Accepted {
    pub(super) owner: Owner,
    pub(super) listener: u64,
    pub(super) endpoint: String,
    pub(super) session: Option<Box<Session>>,
}

impl Reactor {
    pub(super) fn accepted_ready(&mut self, token: u64) {
        let Some(Entry::Accepted(accepted)) = self.entries.get_mut(&token) else { return };
        let Some(session) = accepted.session.take() else { return };
        let (session, step) = session.step(&self.io, token);
        accepted.session = session;
        if matches!(step, Step::Wait) {
            return;
        }
        let Some(Entry::Accepted(accepted)) = self.entries.remove(&token) else { return };
        self.timers.clear(token);
        let (owner, endpoint) = (&accepted.owner, &accepted.endpoint);
        match step {
            Step::Wait => {}
            Step::Done(shaken) => {
                let _ = self.io.poller().remove(&shaken.fd);
                self.attach(owner, *shaken, endpoint, accepted.listener);
            }
            Step::Lost(error) => {
                let value = error.raw_os_error() as u32;
                monitor::emit(&owner.hub, Event::HandshakeFailedNoDetail, value, endpoint);
            }
            Step::Refused(error) => monitor::emit_refusal(&owner.hub, &error, endpoint),
        }
    }

    /// The handshake's time is over.
    pub(super) fn accepted_late(&mut self, token: u64) {
        if let Some(Entry::Accepted(accepted)) = self.entries.remove(&token) {
            let timed_out = Errno::TIMEDOUT.raw_os_error() as u32;
            let (hub, endpoint) = (&accepted.owner.hub, &accepted.endpoint);
            monitor::emit(hub, Event::HandshakeFailedNoDetail, timed_out, endpoint);
        }
    }

    /// Makes a pipe for a new connection and hands it to the socket.
    pub(super) fn attach(
        &mut self,
        owner: &Owner,
        shaken: Shaken,
        endpoint: &str,
        origin: u64,
    ) -> Option<PipeId> {
        let options = &owner.options;
        let id = owner.hub.new_pipe();
        let (tx, outgoing) =
            queue(Limits { messages: options.sndhwm.into(), ahead_bytes: link::AHEAD_BYTES });
        let (incoming, rx) = queue(Limits { messages: options.rcvhwm.into(), ahead_bytes: 0 });
        let Shaken { fd, mut peer, behind } = shaken;
        let config = owner.link_config(&peer, endpoint, origin, 0);
        let link = Link::new(fd, owner.hub.clone(), self.io.clone(), id, config, outgoing, incoming);
        let link = Arc::new(link);
        if !options.connect_routing_id.is_empty() && owner.kind.names_peers {
            peer.routing_id.clone_from(&options.connect_routing_id);
        }
        let pipe = Pipe { tx, rx, far: Far::Link(Some(link.clone())), peer, up: true, ended: false };
        owner.hub.post(Mail::Attach(id, Box::new(pipe)));
        // Who hears of it finds the pipe there at the socket's next call.
        monitor::emit(&owner.hub, Event::HandshakeSucceeded, 0, endpoint);
        link.feed(&behind);
        if owner.hub.add_link(&link).is_err() {
            link.cut();
            return None;
        }
        self.beat(&link, options);
        Some(id)
    }

    /// When the handshake has to be over.
    pub(super) fn shake_until(&mut self, token: u64, owner: &Owner) {
        if !owner.options.handshake_ivl.is_zero() {
            self.timers.set(token, Instant::now() + owner.options.handshake_ivl);
        }
    }
}

impl Owner {
    pub(super) fn link_config(
        &self,
        peer: &Peer,
        endpoint: &str,
        origin: u64,
        connection: u64,
    ) -> link::Config {
        link::Config {
            version: peer.version,
            keeps_subscriptions: self.kind.keeps_subscriptions,
            sends_subscriptions: self.kind.sends_subscriptions,
            max_body: self.options.maxmsgsize.unwrap_or(i64::MAX as u64),
            endpoint: endpoint.to_owned(),
            origin,
            connection,
        }
    }
}
