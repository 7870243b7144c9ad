//! ROUTER: the first frame of a message names the peer it goes to; messages from peers are prefixed with the sender's
//! name (RFC 28).
//!
//! A peer can be addressed while it is connected; a peer named by ZMQ_CONNECT_ROUTING_ID also before its connection
//! and between reconnects.
//!
//! A message to an unknown name, or to a peer at its high-water mark, is dropped and counted. With
//! ZMQ_ROUTER_MANDATORY an unknown name is an error and a full peer blocks the sender; no frame of the message is
//! consumed.
//!
//! If a second peer claims a name, its input is discarded. With ZMQ_ROUTER_HANDOVER it takes the name over, and input
//! of the first peer is discarded except for messages that had already arrived. Both stay connected: closing the
//! connection would make the peer reconnect and claim the name again. When the owner of a name leaves, another
//! claimant gets the name: the newest with ZMQ_ROUTER_HANDOVER, else the oldest.
//!
//! With ZMQ_ROUTER_RAW, and in a STREAM, peers do not speak ZMTP. A message to a peer is one frame of raw bytes, an
//! empty frame closes the connection, and input is raw bytes in chunks as they arrive. Names are generated as soon as
//! a pipe exists and survive reconnects. A STREAM sends as with ZMQ_ROUTER_MANDATORY.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::dealer::probe;
use super::push::discard;
use crate::drops::Reason;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::readiness::{POLLIN, POLLOUT};
use crate::routing::{Fair, RoutingTable, Standing};

/// Destination of the message that is being sent.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum RouterSend {
    #[default]
    Nothing,
    To(PipeId),
    /// The remaining frames are discarded.
    Dropping,
}

#[derive(Default)]
pub(super) struct Router {
    names: RoutingTable,
    fair: Fair,
    /// The pipe that the next message comes from; its name was handed out already.
    reading: Option<PipeId>,
    sending: RouterSend,
    mandatory: bool,
    handover: bool,
    probe: bool,
    raw: bool,
    is_stream: bool,
}

impl Router {
    pub(super) fn for_stream() -> Router {
        Router { raw: true, is_stream: true, mandatory: true, ..Router::default() }
    }

    /// Registers the pipe's name and accepts its input, unless another pipe owns the name.
    fn admit(&mut self, pipes: &mut Pipes, id: PipeId) {
        if let Some(rival) = self.names.rival(id) {
            // A generated name cannot be claimed, nor waited for.
            if self.names.is_made(rival) {
                return self.ignore(pipes, id);
            }
            if !self.handover {
                self.names.wait(id, Standing::Ignored);
                return self.ignore(pipes, id);
            }
            self.oust(pipes, rival);
        }
        self.names.claim(id);
        self.fair.add(id);
    }

    /// Takes the name from a pipe for another one. A message that is being sent into the pipe continues. Input that
    /// has already reached us is read now, so that it can still be received.
    #[cold]
    fn oust(&mut self, pipes: &mut Pipes, id: PipeId) {
        pipes.read_ahead(id);
        let until = pipes.get(id).map_or(0, |pipe| pipe.rx.queue.consumed().0 + pipe.rx.queue.backlog());
        self.names.wait(id, Standing::Ousted { until });
        self.pass_over(pipes, id);
    }

    /// Ignores a pipe that has lost its name once all messages that had arrived before the loss are consumed.
    #[cold]
    fn pass_over(&mut self, pipes: &mut Pipes, id: PipeId) {
        let is_done = match self.names.standing(id) {
            Some(Standing::Ousted { until }) => {
                pipes.get(id).is_none_or(|pipe| pipe.rx.queue.consumed().0 >= until)
            }
            standing => standing == Some(Standing::Ignored),
        };
        if is_done {
            self.ignore(pipes, id);
        }
    }

    /// Discards the pipe's input, after the message that is being received.
    fn ignore(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.names.release(id, Standing::Ignored);
        if self.reading != Some(id) {
            self.fair.remove(id);
            discard(pipes, id, Reason::Duplicate);
        }
    }

    /// The pipe cannot be sent to any more; its name passes to the next pipe that waits for it.
    fn leave(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.lose(pipes, id) {
            pipes.rollback(id);
        }
        self.names.stop_waiting(id);
        if self.names.standing(id) != Some(Standing::Named) {
            return;
        }
        self.names.release(id, Standing::Away);
        if let Some(name) = self.names.name_of(id)
            && let Some(next) = self.names.successor(&name, self.handover)
        {
            self.names.claim(next);
            self.fair.add(next);
        }
    }

    /// Returns true if the message that is being sent is discarded from now on.
    fn lose(&mut self, pipes: &mut Pipes, id: PipeId) -> bool {
        let is_lost = self.sending == RouterSend::To(id);
        if is_lost {
            self.sending = RouterSend::Dropping;
            pipes.count_drop(Some(id), Reason::PeerLost, 1);
        }
        is_lost
    }

    fn is_ignored(&self, id: PipeId) -> bool {
        self.names.standing(id) == Some(Standing::Ignored)
    }

    /// Destination of the message that begins with this frame.
    #[inline(always)]
    fn route(&mut self, pipes: &mut Pipes, name: &[u8]) -> Result<RouterSend, Error> {
        match self.names.find(name) {
            Some(id) if pipes.has_room(id) => return Ok(RouterSend::To(id)),
            Some(id) if self.mandatory && pipes.want_room(id) => return Ok(RouterSend::To(id)),
            Some(_) if self.mandatory => return Err(Error::WouldBlock),
            None if self.mandatory => return Err(Error::Unreachable),
            Some(id) => pipes.count_drop(Some(id), Reason::Full, 1),
            None => pipes.count_drop(None, Reason::Unroutable, 1),
        }
        Ok(RouterSend::Dropping)
    }

    /// Closes the connection of a raw peer: nothing more is sent to it, and its input is discarded.
    fn hang_up(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.sending = RouterSend::Nothing;
        pipes.hang_up(id);
        self.ignore(pipes, id);
    }

    /// Hands out the name of the pipe that the next message comes from.
    #[inline(always)]
    fn recv_name(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        let id = self.fair.choose(pipes).ok_or(Error::WouldBlock)?;
        sink(Frame::Bytes { flags: MORE, data: self.names.name(id) });
        pipes.came_from(id);
        self.reading = Some(id);
        self.names.recent = Some(id);
        Ok(true)
    }
}

impl Pattern for Router {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.probe && !self.raw {
            probe(pipes, id);
        }
        let Some(pipe) = pipes.get(id) else { return };
        if self.raw {
            self.names.add(id, &pipe.peer.routing_id);
            self.names.decide_name(id, &[]);
            return self.admit(pipes, id);
        }
        if pipe.up || !pipe.has_given_id {
            return self.names.add(id, &[]);
        }
        self.names.add(id, &pipe.peer.routing_id);
        self.admit(pipes, id);
    }

    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.names.standing(id) == Some(Standing::Named) {
            return;
        }
        self.names.stop_waiting(id);
        if let Some(pipe) = pipes.get(id) {
            self.names.decide_name(id, &pipe.peer.routing_id);
            self.admit(pipes, id);
        }
    }

    fn down(&mut self, pipes: &mut Pipes, id: PipeId) {
        if !self.names.is_given(id) && !self.raw {
            self.leave(pipes, id);
        }
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.leave(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.lose(pipes, id);
        self.names.remove(id);
        self.fair.remove(id);
        self.reading = self.reading.filter(|&reading| reading != id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.is_ignored(id) && self.reading != Some(id) {
            discard(pipes, id, Reason::Duplicate);
        } else {
            self.fair.add(id);
        }
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        match self.sending {
            RouterSend::Nothing if more => {
                self.sending = self.route(pipes, frame.data())?;
                return Ok(());
            }
            // A name without a message.
            RouterSend::Nothing => pipes.count_drop(None, Reason::Malformed, 1),
            RouterSend::To(id) if self.raw => {
                if frame.data().is_empty() {
                    self.hang_up(pipes, id);
                } else {
                    pipes.push(id, frame, false)?;
                    pipes.commit(id);
                    self.sending = RouterSend::Nothing;
                }
                return Ok(());
            }
            RouterSend::To(id) => {
                pipes.push(id, frame, more)?;
                if !more {
                    pipes.commit(id);
                }
            }
            RouterSend::Dropping => {}
        }
        if !more {
            self.sending = RouterSend::Nothing;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        if let RouterSend::To(id) = std::mem::replace(&mut self.sending, RouterSend::Nothing) {
            pipes.rollback(id);
        }
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if self.reading.is_none() {
            return self.recv_name(pipes, sink);
        }
        let (id, more) = self.fair.recv(pipes, sink)?;
        if !more {
            self.reading = None;
            if self.names.standing(id) != Some(Standing::Named) {
                self.pass_over(pipes, id);
            }
        }
        Ok(more)
    }

    /// Always true, as in libzmq. If messages must not be dropped, true if any peer has room.
    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        let begun = self.sending != RouterSend::Nothing;
        begun || !self.mandatory || self.is_stream || self.names.pipes().any(|id| pipes.want_room(id))
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.reading.is_some() || self.fair.choose(pipes).is_some()
    }

    fn generated_id(&self) -> Option<&[u8]> {
        self.names.made.as_deref().filter(|_| self.is_stream)
    }

    fn peer_state(&mut self, pipes: &mut Pipes, name: &[u8]) -> Result<i16, Error> {
        let id = self.names.find(name).ok_or(Error::Unreachable)?;
        let readable = if pipes.peek(id).is_some() { POLLIN } else { 0 };
        let writable = if pipes.has_room(id) { POLLOUT } else { 0 };
        Ok(readable | writable)
    }

    fn configure(&mut self, options: &Options) {
        self.mandatory = options.router_mandatory || self.is_stream;
        self.raw = options.router_raw || self.is_stream;
        self.handover = options.router_handover;
        self.probe = options.probe_router;
    }
}
