//! A socket with one scripted connection, and a reactor without a thread: the test calls `turn`.

use std::sync::Arc;

use pinnace_sys::poll::Batch;
use pinnace_zmtp::{SocketType, Traffic, Version, frame};

use super::Reactor;
use super::session::Shaken;
use super::stage::Behind;
use crate::context::Context;
use crate::endpoint::{Endpoint, EndpointPair, Role};
use crate::error::Error;
use crate::io::{ConnectionSide, Io, Owner};
use crate::link::scripted::{Read, Script};
use crate::link::{Codec, Link, Stream};
use crate::medium::{FallbackReason, Medium};
use crate::peer::Peer;
use crate::pipe::Outgoing;
use crate::socket::Socket;
use crate::transports::Target;

pub(crate) struct Rig {
    pub(crate) socket: Socket,
    pub(crate) script: Arc<Script>,
    pub(crate) link: Arc<Link>,
    pub(super) owner: Owner,
    pub(super) reactor: Reactor,
}

impl Rig {
    pub(crate) fn new(socket_type: SocketType) -> Rig {
        Rig::with(socket_type, |_| {})
    }

    /// `set` sets the socket's options.
    pub(crate) fn with(socket_type: SocketType, set: impl FnOnce(Socket)) -> Rig {
        let socket = Context::new().unwrap().socket(socket_type).unwrap();
        set(socket);
        const ORIGIN: u64 = 7;
        let owner = socket.visit(|core| {
            core.remember_scripted(ORIGIN);
            Ok(core.owner())
        });
        let owner = owner.unwrap();
        let mut reactor = Reactor::new(Io::new().unwrap());
        let script = Script::new();
        let ends = EndpointPair { local: String::new(), remote: "script".to_owned(), accepted: true };
        reactor.attach(&owner, shaken(&owner, &script), &ends, ORIGIN, ConnectionSide::Accepted).unwrap();
        let link = owner.mailbox.all_links().pop().unwrap();
        Rig { socket, script, link, owner, reactor }
    }

    /// Runs the reactor's commands and due timers; no descriptor is ready.
    pub(crate) fn turn(&mut self) {
        assert!(!self.reactor.turn(&Batch::new()));
    }

    pub(crate) fn send(&self, body: &[u8]) -> Result<(), Error> {
        self.socket.send(Outgoing::Bytes(body), false, false)
    }

    pub(crate) fn recv(&self) -> Result<Vec<u8>, Error> {
        let mut received = Vec::new();
        self.socket.recv(false, &mut |frame| {
            received = vec![0; frame.copy_to(&mut [])];
            frame.copy_to(&mut received);
        })?;
        Ok(received)
    }

    pub(crate) fn peers(&self) -> usize {
        self.socket.stats().unwrap().peers.len()
    }
}

/// A connecting socket, and a reactor without a thread. Nothing is dialed: the test calls `connected`.
pub(crate) struct Dialer {
    pub(crate) socket: Socket,
    token: u64,
    pub(super) owner: Owner,
    pub(super) reactor: Reactor,
}

impl Dialer {
    /// `set` sets the socket's options.
    pub(crate) fn with(socket_type: SocketType, set: impl FnOnce(Socket)) -> Dialer {
        let socket = Context::new().unwrap().socket(socket_type).unwrap();
        set(socket);
        let mut reactor = Reactor::new(Io::new().unwrap());
        let token = reactor.io.token();
        const ENDPOINT: &str = "tcp://127.0.0.1:1";
        let endpoint = Endpoint::parse(ENDPOINT, Role::Connect).unwrap();
        let (dial, owner) = socket
            .visit(|core| {
                let target = Target::new(&endpoint, &core.options)?;
                Ok((core.dial(token, target, ENDPOINT).0, core.owner()))
            })
            .unwrap();
        reactor.add_connecter(dial);
        Dialer { socket, token, owner, reactor }
    }

    /// Completes a handshake: the pipe gets a connection over the stream of the returned script.
    pub(crate) fn connected(&mut self) -> Arc<Script> {
        self.connected_to(b"", &[])
    }

    /// As `connected`, to a peer with this routing id, which sends these messages.
    pub(crate) fn connected_to(&mut self, routing_id: &[u8], messages: &[&[u8]]) -> Arc<Script> {
        let script = Script::new();
        let mut shaken = shaken(&self.owner, &script);
        shaken.peer.routing_id = routing_id.to_vec();
        self.reactor.connected(self.token, shaken);
        messages.iter().for_each(|body| self.receives(&script, &[body]));
        script
    }

    /// The peer behind this script sends a message of these frames.
    pub(crate) fn receives(&self, script: &Script, frames: &[&[u8]]) {
        let mut bytes = Vec::new();
        for (index, body) in frames.iter().enumerate() {
            frame::append(if index + 1 < frames.len() { frame::MORE } else { 0 }, &[body], &mut bytes);
        }
        script.reads([Read::Bytes(bytes)]);
        self.owner.mailbox.all_links().pop().expect("a connection").read();
    }

    /// Loses the connection.
    pub(crate) fn lost(&mut self) {
        self.owner.mailbox.all_links().pop().expect("a connection").cut();
        assert!(!self.reactor.turn(&Batch::new()));
    }
}

/// The result of a handshake, with a scripted stream.
fn shaken(owner: &Owner, script: &Arc<Script>) -> Shaken {
    Shaken {
        stream: Stream::scripted(script.clone()),
        peer: Peer::default(),
        codec: Codec::new(Version::V3_1, Traffic::Clear, false, owner.options.max_body()),
        behind: Behind::default(),
        medium: Medium::Socket(FallbackReason::Remote),
    }
}

/// A message of one frame, as it is on the wire.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::append(0, &[body], &mut bytes);
    bytes
}

/// A command, as it is on the wire.
pub(crate) fn command(name: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::append(frame::COMMAND, &[&[name.len() as u8], name, data], &mut bytes);
    bytes
}

/// A body in which neighbouring bytes differ, so that a comparison finds a lost or moved byte.
pub(crate) fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}
