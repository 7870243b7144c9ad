//! A handshake with a peer, on a non-blocking descriptor.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use pinnace_ring::Limits;
use pinnace_sys::poll::Interest;
use pinnace_sys::{AsFd, AsRawFd, Errno, OwnedFd, net};
use pinnace_zmtp::{Config, sharing};

use super::about::about;
use super::authorization::Asked;
use super::sharing::{may_share, offers_memory};
use super::stage::{Behind, HANDSHAKE_BYTES, Refusal, Stage};
use super::{Entry, Reactor};
use crate::authorization::Admission;
use crate::endpoint::EndpointPair;
use crate::events::Event;
use crate::io::{ConnectionSide, Io, NOTIFY_CONNECT, Owner};
use crate::link::{self, Codec, Link, Stream, TlsFailure};
use crate::mailbox::Notice;
use crate::medium::{FallbackReason, Medium};
use crate::monitor::{self, At};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe, PipeId};
use crate::queue::{FarEnds, direction};
use crate::transports::Layers;

/// Bytes read from one peer per turn at most.
const TURN_BYTES: usize = 16 * 1024;

/// A handshake in progress.
pub(super) struct Session {
    pub(super) stream: Stream,
    pub(super) stage: Stage,
    /// The layers of the stages after this one.
    layers: Layers,
    /// For the last stage, which takes it.
    config: Option<Config>,
    pub(super) owner: Owner,
    pub(super) inquiry: Option<Asked>,
    /// What a ZAP handler has said about the peer.
    pub(super) admission: Admission,
    pub(super) behind: Behind,
    /// Whether the connection may use shared memory.
    shares: Result<(), FallbackReason>,
    side: ConnectionSide,
    writing: bool,
    /// The connection has reached the peer itself, and the caller of `step` was told.
    reached: bool,
}

/// How a step of a handshake ended.
pub(super) enum Step {
    /// Not finished: wait for the descriptor.
    Wait,
    Done(Box<Shaken>),
    /// The connection was lost.
    Lost(Errno),
    /// The peer violated the protocol, or is not compatible with us.
    Refused(Refusal),
}

/// Why a handshake failed.
pub(super) enum HandshakeFailure {
    Lost(Errno),
    Refused(Refusal),
}

/// A connection that has completed its handshake.
pub(super) struct Shaken {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    pub(super) codec: Codec,
    pub(super) behind: Behind,
    /// How its messages move.
    pub(super) medium: Medium,
}

impl Session {
    pub(super) fn new(
        fd: OwnedFd,
        owner: &Owner,
        layers: &Layers,
        side: ConnectionSide,
    ) -> Result<Session, Refusal> {
        let (mut stream, mut layers) = (Stream::plain(fd), layers.clone());
        let mut config = handshake_config(owner)?;
        let shares = may_share(&stream, &owner.options);
        if shares.is_ok() {
            config.properties.push((sharing::PROPERTY.to_owned(), sharing::VERSION.to_vec()));
        }
        let mut config = Some(config);
        let stage = Stage::first(&mut stream, &mut layers, &mut config)?;
        Ok(Session {
            stream,
            stage,
            layers,
            config,
            owner: owner.clone(),
            inquiry: None,
            admission: Admission::default(),
            behind: Behind::default(),
            shares,
            side,
            writing: false,
            reached: false,
        })
    }

    /// The events to poll its descriptor for, as it was registered.
    pub(super) fn interest(&self) -> Interest {
        if self.writing { Interest::BOTH } else { Interest::READ }
    }

    /// Advances as far as the descriptor allows. `reached` is called once, when the connection has reached the peer
    /// itself.
    pub(super) fn step(
        mut self: Box<Self>,
        io: &Arc<Io>,
        token: u64,
        reached: &mut dyn FnMut(&Stream),
    ) -> (Option<Box<Self>>, Step) {
        match self.advance(io, token, reached) {
            Ok(true) => return (None, (*self).finish()),
            Ok(false) => {}
            Err(HandshakeFailure::Lost(error)) => return (None, Step::Lost(error)),
            Err(HandshakeFailure::Refused(refusal)) => return (None, (*self).refuse(refusal)),
        }
        let writing = !self.stage.output().is_empty() || self.stream.wants_write();
        if self.inquiry.is_none() && writing != self.writing {
            self.writing = writing;
            let _ = io.poller().modify(&self.stream, token, self.interest());
        }
        (Some(self), Step::Wait)
    }

    /// True: the last stage is done. False: wait for the descriptor, or for the ZAP handler.
    fn advance(
        &mut self,
        io: &Arc<Io>,
        token: u64,
        reached: &mut dyn FnMut(&Stream),
    ) -> Result<bool, HandshakeFailure> {
        self.write()?;
        let (mut left, mut is_dry) = (TURN_BYTES, false);
        loop {
            if self.stage.authorization().is_some() && !self.decide(io, token)? {
                return Ok(false);
            }
            if !self.reached && self.stage.has_reached_peer() {
                self.reached = true;
                reached(&self.stream);
            }
            if let Stage::Tls = self.stage {
                if !self.stream.shake()? {
                    return Ok(false);
                }
                self.enter_next()?;
                continue;
            }
            if self.stage.is_done() {
                if !self.stage.output().is_empty() || self.stream.push() == Err(Errno::AGAIN) {
                    return Ok(false);
                }
                if !self.enter_next()? {
                    return Ok(true);
                }
                continue;
            }
            if is_dry {
                return Ok(false);
            }
            let mut bytes = [0; 1024];
            // At the end of the turn, read only what TLS has decrypted already: no event reports it again.
            let read = if left == 0 {
                self.stream.read_rest(&mut bytes, &mut [])
            } else if self.shares.is_ok() {
                net::read_passed(&self.stream, &mut bytes, &mut []).map(|(count, passed)| {
                    self.behind.passed = passed.or(self.behind.passed.take());
                    count
                })
            } else {
                self.stream.read(&mut bytes, &mut [])
            };
            match read {
                Ok(0) => return Err(HandshakeFailure::Lost(Errno::CONNRESET)),
                Ok(count) => {
                    left = left.saturating_sub(count);
                    // A short read has emptied the socket, and epoll reports what arrives later. It does not report
                    // bytes that TLS has decrypted already.
                    is_dry = count < bytes.len() && !self.stream.is_secured();
                    self.input(&bytes[..count])?;
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(HandshakeFailure::Lost(error)),
            }
        }
    }

    /// Enters the next stage. False: there is none.
    fn enter_next(&mut self) -> Result<bool, HandshakeFailure> {
        let next = self.stage.next(&mut self.stream, &mut self.layers, &mut self.config)?;
        let Some(next) = next else {
            return Ok(false);
        };
        self.stage = next;
        let early = std::mem::take(&mut self.behind.bytes);
        self.input(&early)?;
        Ok(true)
    }

    pub(super) fn input(&mut self, bytes: &[u8]) -> Result<(), HandshakeFailure> {
        self.stage.input(bytes, &mut self.behind)?;
        self.write()
    }

    fn write(&mut self) -> Result<(), HandshakeFailure> {
        while !self.stage.output().is_empty() {
            match self.stream.write(&[IoSlice::new(self.stage.output())]) {
                Ok(taken) => self.stage.sent(taken),
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(HandshakeFailure::Lost(error)),
            }
        }
        Ok(())
    }

    fn finish(self) -> Step {
        let Session { mut stream, stage, mut behind, owner, admission, shares, side, .. } = self;
        let (subscribes, max_body) = (owner.kind.sends_subscriptions, owner.options.max_body());
        let (peer, codec) = stage.into_peer(subscribes, max_body).expect("the peer is known");
        let shares =
            shares.and_then(|()| if offers_memory(&peer) { Ok(()) } else { Err(FallbackReason::Peer) });
        if shares.is_ok() {
            stream.may_switch(side == ConnectionSide::Connected, behind.passed.take());
        }
        let medium = Medium::Socket(shares.err().unwrap_or(FallbackReason::Brief));
        let about = about(&peer, &stream, admission);
        let peer = Peer {
            routing_id: peer.routing_id,
            version: peer.version,
            mechanism: peer.mechanism,
            about: Some(about),
        };
        Step::Done(Box::new(Shaken { stream, peer, codec, behind, medium }))
    }

    /// Tells the peer the reason, as far as the kernel takes it at once.
    fn refuse(self, refusal: Refusal) -> Step {
        let bytes = self.stage.final_output(&refusal);
        if !bytes.is_empty() {
            let _ = self.stream.write(&[IoSlice::new(&bytes)]);
        }
        Step::Refused(refusal)
    }
}

impl From<TlsFailure> for HandshakeFailure {
    fn from(failure: TlsFailure) -> HandshakeFailure {
        match failure {
            TlsFailure::Lost(error) => HandshakeFailure::Lost(error),
            TlsFailure::Tls(error) => HandshakeFailure::Refused(Refusal::Tls(error)),
        }
    }
}

impl From<Refusal> for HandshakeFailure {
    fn from(refusal: Refusal) -> HandshakeFailure {
        HandshakeFailure::Refused(refusal)
    }
}

/// An accepted connection, before its handshake is complete.
pub(super) struct Accepted {
    pub(super) owner: Owner,
    pub(super) listener: u64,
    pub(super) ends: EndpointPair,
    pub(super) session: Option<Box<Session>>,
}

impl Reactor {
    pub(super) fn accepted_ready(&mut self, token: u64) {
        let Some(Entry::Accepted(accepted)) = self.entries.get_mut(&token) else { return };
        let Some(session) = accepted.session.take() else { return };
        let descriptor = session.stream.as_fd().as_raw_fd() as u32;
        let (session, step) = session.step(&self.io, token, &mut |_| {});
        accepted.session = session;
        if matches!(step, Step::Wait) {
            return;
        }
        let Some(Entry::Accepted(accepted)) = self.entries.remove(&token) else { return };
        self.timers.clear(token);
        let (owner, ends) = (&accepted.owner, &accepted.ends);
        match step {
            Step::Wait => return,
            Step::Done(shaken) => {
                let _ = self.io.poller().remove(&shaken.stream);
                self.attach(owner, *shaken, ends, accepted.listener, ConnectionSide::Accepted);
                return;
            }
            Step::Lost(error) => {
                let value = error.raw_os_error() as u32;
                monitor::emit(&owner.mailbox, Event::HandshakeFailedNoDetail, value, At::Between(ends));
            }
            Step::Refused(refusal) => refusal.emit(&owner.mailbox, At::Between(ends)),
        }
        monitor::emit(&owner.mailbox, Event::Disconnected, descriptor, At::Between(ends));
    }

    /// The handshake took too long.
    pub(super) fn accepted_late(&mut self, token: u64) {
        if let Some(Entry::Accepted(accepted)) = self.entries.remove(&token) {
            let timed_out = Errno::TIMEDOUT.raw_os_error() as u32;
            let (mailbox, ends) = (&accepted.owner.mailbox, &accepted.ends);
            monitor::emit(mailbox, Event::HandshakeFailedNoDetail, timed_out, At::Between(ends));
            if let Some(session) = &accepted.session {
                monitor::emit_fd(mailbox, Event::Disconnected, &session.stream, At::Between(ends));
            }
        }
    }

    /// Creates the pipe of a new connection and hands it to the socket.
    pub(super) fn attach(
        &mut self,
        owner: &Owner,
        shaken: Shaken,
        ends: &EndpointPair,
        origin: u64,
        side: ConnectionSide,
    ) -> Option<PipeId> {
        let options = &owner.options;
        let id = owner.mailbox.new_pipe();
        let out = Limits { messages: options.sndhwm.into(), ahead_bytes: link::AHEAD_BYTES };
        let modes = owner.kind.queue_modes(options);
        let (tx, outgoing) = direction(modes.out, || owner.services.queue(out));
        let into = Limits { messages: options.rcvhwm.into(), ahead_bytes: 0 };
        let (incoming, rx) = direction(modes.into, || owner.services.queue(into));
        let Shaken { stream, mut peer, codec, behind, medium } = shaken;
        let config = owner.link_config(peer.version, medium, ends, origin, 0, side);
        let far = FarEnds { outgoing, incoming };
        let link = Link::new(stream, owner.mailbox.clone(), self.io.clone(), id, config, codec, far);
        let link = Arc::new(link);
        if side == ConnectionSide::Connected
            && !options.connect_routing_id.is_empty()
            && owner.kind.names_peers
        {
            peer.routing_id.clone_from(&options.connect_routing_id);
        }
        let pipe = Pipe::new(tx, rx, Far::Link(Some(link.clone())), peer, true);
        owner.mailbox.post(Notice::Attach(id, Box::new(pipe)));
        self.begin_link(owner, &link, &behind.bytes).then_some(id)
    }

    /// Starts the message flow of a connection that its socket was told of. False: the connection has ended already.
    pub(super) fn begin_link(&mut self, owner: &Owner, link: &Arc<Link>, behind: &[u8]) -> bool {
        if !owner.is_raw() {
            // An application that receives this event finds the pipe at the socket's next call.
            monitor::emit(&owner.mailbox, Event::HandshakeSucceeded, 0, At::Between(&link.config.ends));
        }
        if owner.notifies(NOTIFY_CONNECT) && !owner.mailbox.is_closed() {
            link.append_own_message(b"");
        }
        self.heartbeat(link, &owner.options);
        link.feed(behind);
        self.join(link);
        if owner.mailbox.add_link(link).is_err() {
            link.cut();
            return false;
        }
        link.read_early();
        if !link.config.hello.is_empty() {
            link.flush();
        }
        true
    }

    /// Sets the deadline of the handshake.
    pub(super) fn shake_until(&mut self, token: u64, owner: &Owner) {
        if !owner.options.handshake_ivl.is_zero() {
            self.timers.set(token, Instant::now() + owner.options.handshake_ivl);
        }
    }
}

/// The configuration of a handshake with a peer of this socket.
fn handshake_config(owner: &Owner) -> Result<Config, Refusal> {
    let (options, mut config) = (&owner.options, Config::new(owner.kind.socket_type));
    config.routing_id = options.routing_id.clone();
    config.limits.max_handshake_bytes = HANDSHAKE_BYTES;
    config.mechanism = options.security.mechanism_config().map_err(|_| Refusal::System(Errno::AGAIN))?;
    config.authorize = options.security.asks();
    config.properties = options.metadata.clone();
    Ok(config)
}
