//! The patterns: each decides which pipe, and nothing else.
//!
//! A pattern is called with its socket's lock held, by whoever uses the socket. It never waits: where it
//! cannot go on it says [`Error::WouldBlock`], and the socket waits and calls again. It knows no transport.
//!
//! Calls on a pipe's life, in order: `attached` (it is there, its peer perhaps not yet), `up` (its peer is
//! known; again after each reconnect), `down` (the connection is lost, the pipe stays), `ended` (nothing can
//! be sent any more; what came in before can still be received), `removed` (forget it; the id may come
//! again). In between `readable` and `writable`, each after a `park` or a `want_room` that said so.

mod balance;
mod dealer;
mod dgram;
mod dish;
mod fair;
mod intake;
mod kept;
mod names;
mod news;
mod numbers;
mod pair;
mod publish;
mod pull;
mod push;
mod radio;
mod radix;
mod rep;
mod req;
mod router;
mod server;
mod single;
mod spread;
mod subscribe;
mod subscriptions;

use pinnace_ring::Frame;
use pinnace_zmtp::SocketType;

use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// One pattern's end of the conversation.
pub trait Pattern: Send {
    /// A pipe is there. Frames may be pushed from now on.
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId);

    /// The pipe's peer is there and known (`Pipe::peer`).
    fn up(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    /// The peer is lost; the pipe stays and is `up` again after a reconnect.
    fn down(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    /// Nothing can be sent into the pipe any more.
    fn ended(&mut self, pipes: &mut Pipes, id: PipeId);

    /// The pipe is gone.
    fn removed(&mut self, pipes: &mut Pipes, id: PipeId);

    /// Something came into a parked pipe.
    fn readable(&mut self, pipes: &mut Pipes, id: PipeId);

    /// There is room again in a pipe that wanted it.
    fn writable(&mut self, pipes: &mut Pipes, id: PipeId);

    /// Sends one frame.
    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error>;

    /// The message that was begun is given up: nothing of it goes, and the next one begins anew.
    fn abort(&mut self, _pipes: &mut Pipes) {}

    /// Receives one frame into `sink`; true: more of the message follows.
    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error>;

    /// Whether `send` would not wait.
    fn can_send(&mut self, pipes: &mut Pipes) -> bool;

    /// Whether `recv` would not wait.
    fn can_recv(&mut self, pipes: &mut Pipes) -> bool;

    /// SUBSCRIBE, UNSUBSCRIBE.
    fn subscribe(&mut self, _pipes: &mut Pipes, _topic: &[u8], _on: bool) -> Result<(), Error> {
        Err(Error::Invalid)
    }

    /// What the peer of a name is ready for (POLLIN, POLLOUT).
    fn peer_state(&mut self, _pipes: &mut Pipes, _name: &[u8]) -> Result<i16, Error> {
        Err(Error::NotSupported)
    }

    /// Joins a group (`on`), or leaves it: zmq_join(3).
    fn join(&mut self, _pipes: &mut Pipes, _group: &[u8], _on: bool) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    /// The number of a pipe's peer; 0 where the pattern has none.
    fn routing_id(&self, _id: PipeId) -> u32 {
        0
    }

    /// The pipe of the peer with this number.
    fn find_peer(&self, _routing_id: u32) -> Result<PipeId, Error> {
        Err(Error::NotSupported)
    }

    /// Options that change how a pattern behaves were set.
    fn configure(&mut self, _options: &Options) {}

    /// The last of the names that were made up for its peers (STREAM).
    fn generated_id(&self) -> Option<&[u8]> {
        None
    }

    /// Messages that it took out of a pipe and nobody has received.
    fn unread(&self) -> u64 {
        0
    }

    /// How many peers get messages that begin with `topic`, or of that group.
    fn subscribers(&mut self, _pipes: &mut Pipes, _topic: &[u8]) -> usize {
        0
    }

    /// How many topics its peers have subscribed to, or it has.
    fn topics(&self) -> usize {
        0
    }
}

/// The pattern of a socket type; None where there is none yet.
pub fn create(socket_type: SocketType) -> Option<Box<dyn Pattern>> {
    Some(match socket_type {
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
    })
}
