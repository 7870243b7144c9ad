//! ROUTER: each message goes to the peer that its first frame names; what comes in gets its peer's name in
//! front (RFC 28).
//!
//! A peer can be sent to while it is connected; one that ZMQ_CONNECT_ROUTING_ID has named, before that and in
//! between too.
//!
//! It never waits, and drops and counts what cannot be sent: to a name that nobody has, or to a peer that
//! takes no more. With ZMQ_ROUTER_MANDATORY these are errors instead, and nothing of the message was taken.
//! A second peer with the same name is not listened to; with ZMQ_ROUTER_HANDOVER it takes the name, and the
//! first is not listened to any more, but for what had come in by then. Either stays connected: if we closed the
//! connection, its peer would connect again and claim the name again. When the peer that has the name leaves, one of
//! the others gets it: with ZMQ_ROUTER_HANDOVER the newest, else the one that has waited longest.
//!
//! With ZMQ_ROUTER_RAW, and as a STREAM, its peers speak no ZMTP: a message to one is a frame of bytes, an empty one
//! ends the connection, and what comes in are bytes as the network brought them. Names are made up here, as soon as
//! there is a pipe, and stay through reconnects. A STREAM does not drop: what cannot be sent is an error.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::dealer::probe;
use super::fair::Fair;
use super::names::{Names, Standing};
use super::push::discard;
use crate::drops::Reason;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::socket::{POLLIN, POLLOUT};

/// The message that is being sent.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Sending {
    #[default]
    Nothing,
    To(PipeId),
    /// The rest of it goes nowhere.
    Dropping,
}

#[derive(Default)]
pub(super) struct Router {
    names: Names,
    fair: Fair,
    /// The pipe whose name was received, and whose message comes next.
    reading: Option<PipeId>,
    sending: Sending,
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

    /// Lets a pipe's name lead to it, and listens to it; or does not, where another has the name.
    fn admit(&mut self, pipes: &mut Pipes, id: PipeId) {
        if let Some(rival) = self.names.rival(id) {
            // A name that was made up here is nobody's to announce, or to wait for.
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

    /// Takes a pipe's name from it for another. A message that is being sent into it goes on, and what has arrived is
    /// read to be received.
    #[cold]
    fn oust(&mut self, pipes: &mut Pipes, id: PipeId) {
        pipes.read_ahead(id);
        let until = pipes.get(id).map_or(0, |pipe| pipe.rx.consumed().0 + pipe.rx.backlog());
        self.names.wait(id, Standing::Ousted { until });
        self.pass_over(pipes, id);
    }

    /// A message of a pipe that has lost its name was received, or could be: when that was the last one that had come
    /// in by then, it is not listened to any more.
    #[cold]
    fn pass_over(&mut self, pipes: &mut Pipes, id: PipeId) {
        let is_done = match self.names.standing(id) {
            Some(Standing::Ousted { until }) => {
                pipes.get(id).is_none_or(|pipe| pipe.rx.consumed().0 >= until)
            }
            standing => standing == Some(Standing::Ignored),
        };
        if is_done {
            self.ignore(pipes, id);
        }
    }

    /// Stops listening to a pipe, after the message that is being received.
    fn ignore(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.names.release(id, Standing::Ignored);
        if self.reading != Some(id) {
            self.fair.remove(id);
            discard(pipes, id, Reason::Duplicate);
        }
    }

    /// A pipe cannot be sent to any more; its name leads to the next that waits for it.
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

    /// True: the message that is being sent goes nowhere now.
    fn lose(&mut self, pipes: &mut Pipes, id: PipeId) -> bool {
        let is_lost = self.sending == Sending::To(id);
        if is_lost {
            self.sending = Sending::Dropping;
            pipes.count_drop(Some(id), Reason::PeerLost, 1);
        }
        is_lost
    }

    fn is_ignored(&self, id: PipeId) -> bool {
        self.names.standing(id) == Some(Standing::Ignored)
    }

    /// Where a message goes that begins with this frame.
    #[inline(always)]
    fn route(&mut self, pipes: &mut Pipes, name: &[u8]) -> Result<Sending, Error> {
        match self.names.find(name) {
            Some(id) if pipes.has_room(id) => return Ok(Sending::To(id)),
            Some(id) if self.mandatory && pipes.want_room(id) => return Ok(Sending::To(id)),
            Some(_) if self.mandatory => return Err(Error::WouldBlock),
            None if self.mandatory => return Err(Error::Unreachable),
            Some(id) => pipes.count_drop(Some(id), Reason::Full, 1),
            None => pipes.count_drop(None, Reason::Unroutable, 1),
        }
        Ok(Sending::Dropping)
    }

    /// Ends the connection of a raw peer: its pipe takes nothing more, and nobody listens to it.
    fn hang_up(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.sending = Sending::Nothing;
        pipes.hang_up(id);
        self.ignore(pipes, id);
    }

    /// Receives the name of the pipe whose message comes next.
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
            self.names.settle(id, &[]);
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
            self.names.settle(id, &pipe.peer.routing_id);
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
            Sending::Nothing if more => {
                self.sending = self.route(pipes, frame.data())?;
                return Ok(());
            }
            // A name and nothing else.
            Sending::Nothing => pipes.count_drop(None, Reason::Malformed, 1),
            Sending::To(id) if self.raw => {
                if frame.data().is_empty() {
                    self.hang_up(pipes, id);
                } else {
                    pipes.push(id, frame, false)?;
                    pipes.commit(id);
                    self.sending = Sending::Nothing;
                }
                return Ok(());
            }
            Sending::To(id) => {
                pipes.push(id, frame, more)?;
                if !more {
                    pipes.commit(id);
                }
            }
            Sending::Dropping => {}
        }
        if !more {
            self.sending = Sending::Nothing;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        if let Sending::To(id) = std::mem::replace(&mut self.sending, Sending::Nothing) {
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

    /// Always, as libzmq says; where messages must not be dropped, when any peer takes one.
    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        let begun = self.sending != Sending::Nothing;
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
