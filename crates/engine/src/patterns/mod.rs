//! The messaging patterns: each decides which pipe a message goes to or comes from, and nothing else.
//!
//! A pattern's methods run on the calling thread with the socket's lock held. They never block: an operation that
//! cannot proceed returns [`Error::WouldBlock`], and the socket waits and calls again. Patterns know nothing about
//! transports.
//!
//! Life of a pipe, in this order: `attached` (created, its peer perhaps still unknown), `up` (the peer is known;
//! again after each reconnect), `down` (connection lost, the pipe stays), `ended` (nothing more can be sent; messages
//! that arrived can still be received), `removed` (forget the pipe; its id may be reused). `park` and `want_room`
//! request the `readable` and `writable` calls in between.

mod dealer;
mod dgram;
mod dish;
mod pair;
mod publish;
mod pull;
mod push;
mod radio;
mod rep;
mod req;
mod router;
mod server;
mod single;
mod subscribe;

use pinnace_ring::Frame;
use pinnace_zmtp::SocketType;

use crate::error::{Error, Invalid};
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// The behaviour of one socket type.
pub trait Pattern: Send {
    /// A new pipe. Frames may be pushed from now on.
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId);

    /// The pipe's peer is connected and known (`Pipe::peer`).
    fn up(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    /// The connection is lost. The pipe stays and comes `up` again after a reconnect.
    fn down(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    /// Nothing more can be sent into the pipe.
    fn ended(&mut self, pipes: &mut Pipes, id: PipeId);

    /// The pipe no longer exists.
    fn removed(&mut self, pipes: &mut Pipes, id: PipeId);

    /// A parked pipe has input.
    fn readable(&mut self, pipes: &mut Pipes, id: PipeId);

    /// A pipe that wanted room has room.
    fn writable(&mut self, pipes: &mut Pipes, id: PipeId);

    /// Sends one frame.
    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error>;

    /// Discards the message that is being sent: none of its frames go out, and the next frame starts a new message.
    fn abort(&mut self, _pipes: &mut Pipes) {}

    /// Receives one frame into `sink`. Returns true if more frames of the message follow.
    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error>;

    /// Returns true if `send` would not block.
    fn can_send(&mut self, pipes: &mut Pipes) -> bool;

    /// Returns true if `recv` would not block.
    fn can_recv(&mut self, pipes: &mut Pipes) -> bool;

    /// Applies ZMQ_SUBSCRIBE (`on`) or ZMQ_UNSUBSCRIBE.
    fn subscribe(&mut self, _pipes: &mut Pipes, _topic: &[u8], _on: bool) -> Result<(), Error> {
        Err(Error::Invalid(Invalid::OptionOfOtherType))
    }

    /// Events that the peer with this routing id is ready for (POLLIN, POLLOUT).
    fn peer_state(&mut self, _pipes: &mut Pipes, _name: &[u8]) -> Result<i16, Error> {
        Err(Error::NotSupported)
    }

    /// Joins (`on`) or leaves a group: zmq_join(3).
    fn join(&mut self, _pipes: &mut Pipes, _group: &[u8], _on: bool) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    /// The routing id of a pipe's peer (SERVER, PEER); 0 for other patterns.
    fn routing_id(&self, _id: PipeId) -> u32 {
        0
    }

    /// The pipe of the peer with this routing id.
    fn find_peer(&self, _routing_id: u32) -> Result<PipeId, Error> {
        Err(Error::NotSupported)
    }

    /// Called after an option that affects the pattern was set.
    fn configure(&mut self, _options: &Options) {}

    /// The routing id generated last for a peer (STREAM).
    fn generated_id(&self) -> Option<&[u8]> {
        None
    }

    /// Messages taken out of a pipe but not yet received by the application.
    fn unread(&self) -> u64 {
        0
    }

    /// Number of peers that get messages with this topic prefix or group.
    fn subscribers(&mut self, _pipes: &mut Pipes, _topic: &[u8]) -> usize {
        0
    }

    /// Number of topics that the peers, or this socket, have subscribed to.
    fn topics(&self) -> usize {
        0
    }
}

/// Creates the pattern of a socket type.
pub fn create(socket_type: SocketType) -> Box<dyn Pattern> {
    match socket_type {
        SocketType::Pair => Box::<pair::Pair>::default(),
        SocketType::Pub => Box::new(publish::Publish::for_pub()),
        SocketType::Sub => Box::new(subscribe::Subscribe::for_sub()),
        SocketType::Req => Box::<req::Req>::default(),
        SocketType::Rep => Box::<rep::Rep>::default(),
        SocketType::Dgram => Box::<dgram::Dgram>::default(),
        SocketType::Dealer => Box::<dealer::Dealer>::default(),
        SocketType::Router => Box::<router::Router>::default(),
        SocketType::Pull => Box::<pull::Pull>::default(),
        SocketType::Push => Box::<push::Push>::default(),
        SocketType::XPub => Box::new(publish::Publish::for_xpub()),
        SocketType::Stream => Box::new(router::Router::for_stream()),
        SocketType::XSub => Box::new(subscribe::Subscribe::for_xsub()),
        SocketType::Server | SocketType::Peer => Box::<server::Server>::default(),
        SocketType::Client => Box::<single::Single<dealer::Dealer>>::default(),
        SocketType::Radio => Box::<radio::Radio>::default(),
        SocketType::Dish => Box::<dish::Dish>::default(),
        SocketType::Gather => Box::<single::Single<pull::Pull>>::default(),
        SocketType::Scatter => Box::<single::Single<push::Push>>::default(),
        SocketType::Channel => Box::<single::Single<pair::Pair>>::default(),
    }
}
