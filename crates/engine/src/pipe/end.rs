//! One pipe: the socket's end of a queue to the peer and of one from it.

use std::sync::Arc;

use pinnace_ring::{Body, Consumer, INLINE_MAX, LOAN_MIN, Lender, MORE, NoMemory, Producer};

use super::outgoing::{Outgoing, goes_by_reference};
use super::{Chore, Chores, PipeId};
use crate::conflate::{Inlet, Outlet};
use crate::drops::Drops;
use crate::ends::{Sink, Source};
use crate::hub::{Hub, Mail};
use crate::link::{Link, Next};
use crate::peer::Peer;

/// Where a pipe leads.
pub(crate) enum Far {
    /// To a link, while there is one.
    Link(Option<Arc<Link>>),
    /// To a pipe of another socket.
    Socket { hub: Arc<Hub>, pipe: PipeId },
}

/// The socket's end of one pipe.
pub struct Pipe {
    pub(crate) tx: Producer,
    pub(crate) rx: Consumer,
    /// Where only the newest message is kept (ZMQ_CONFLATE): behind `tx`, before `rx`.
    pub(crate) outlet: Option<Box<Outlet>>,
    pub(crate) inlet: Option<Box<Inlet>>,
    /// Where it leads; `lead_to` changes it.
    pub(crate) far: Far,
    /// Where large bodies go, beside `tx`.
    lender: Option<Box<Lender>>,
    /// Who is at the other end, once that is known.
    pub peer: Peer,
    /// `peer.routing_id` is the one that ZMQ_CONNECT_ROUTING_ID gave, whatever the peer announces.
    pub(crate) has_given_id: bool,
    /// The peer is there: connected and shaken hands, or a socket of the same context.
    pub up: bool,
    /// Its peer cannot say what it wants and is sent everything (RADIO to a datagram address); set before the pattern
    /// hears of the pipe.
    pub takes_all: bool,
    /// The pipe has ended: nothing can be sent; what came in before can still be read.
    pub ended: bool,
    /// What the socket at the other end receives when ours leaves it (ZMQ_DISCONNECT_MSG over inproc).
    pub(crate) farewell: Option<Arc<[u8]>>,
    /// What was lost on its way to the peer, or from it; none so far where there is nothing.
    pub(crate) drops: Option<Box<Drops>>,
    /// Tells it apart from all other pipes that the socket has had.
    pub(crate) number: u64,
    /// Subscriptions and the like that went by as messages.
    pub(crate) commands_in: u64,
    pub(crate) commands_out: u64,
}

impl Pipe {
    /// A pipe of these ends.
    pub(crate) fn new(tx: Source, rx: Sink, far: Far, peer: Peer, up: bool) -> Pipe {
        let lender = lender(&far, tx.outlet.is_some());
        Pipe {
            tx: tx.queue,
            rx: rx.queue,
            outlet: tx.outlet,
            inlet: rx.inlet,
            far,
            lender,
            peer,
            has_given_id: false,
            up,
            takes_all: false,
            ended: false,
            farewell: None,
            drops: None,
            number: 0,
            commands_in: 0,
            commands_out: 0,
        }
    }

    /// Another peer is at the other end. It keeps the routing id that ZMQ_CONNECT_ROUTING_ID gave.
    pub(crate) fn meet(&mut self, peer: Peer) {
        let before = std::mem::replace(&mut self.peer, peer);
        if self.has_given_id {
            self.peer.routing_id = before.routing_id;
        }
    }

    /// Its link goes through shared memory from now on: large bodies go there, too.
    pub(crate) fn lend(&mut self) {
        // It has one already where it was led there since.
        if self.lender.is_none() {
            self.lender = lender(&self.far, self.outlet.is_some());
        }
    }

    /// It leads elsewhere from now on.
    pub(crate) fn lead_to(&mut self, far: Far) {
        self.lender = lender(&far, self.outlet.is_some());
        self.far = far;
    }

    /// A message is soon going to be put in.
    #[inline(always)]
    pub(super) fn foresee(&self) {
        self.tx.foresee();
        if let Far::Link(Some(link)) = &self.far {
            link.foresee();
        }
    }

    /// Whether anything came in that nobody has received.
    pub(crate) fn has_come_in(&mut self) -> bool {
        self.rx.has_frame() || self.inlet.as_ref().is_some_and(|inlet| inlet.is_full())
    }

    #[inline(always)]
    pub(super) fn push(&mut self, frame: &Outgoing<'_>, more: bool) -> Result<(), NoMemory> {
        let flags = if more { MORE } else { 0 };
        match frame {
            Outgoing::Bytes(data) if self.is_small(data) => self.tx.push(flags, data),
            Outgoing::Bytes(data) => self.push_large(flags, data),
            Outgoing::Body(body) if goes_by_reference(body) => self.tx.push_body(flags, body.clone()),
            Outgoing::Body(body) => self.tx.push(flags, body),
        }
    }

    /// Whether a frame is copied into the queue.
    #[inline(always)]
    fn is_small(&self, data: &[u8]) -> bool {
        data.len() < LOAN_MIN || (data.len() <= INLINE_MAX && self.lender.is_none())
    }

    /// Puts a large frame in, which lies elsewhere then: where the peer has it, if that can be.
    fn push_large(&mut self, flags: u8, data: &[u8]) -> Result<(), NoMemory> {
        let (message, limit) = (self.tx.messages(), self.tx.limit_elsewhere(data.len()));
        match self.lender.as_mut().and_then(|lender| lender.put(data, message, limit)) {
            Some(body) => self.tx.push_body(flags, body),
            None if data.len() <= INLINE_MAX => self.tx.push(flags, data),
            None => self.tx.push_body(flags, Body::copy_of(data)?),
        }
    }

    /// As `push`, for the last frame of a message.
    #[inline(always)]
    pub(super) fn push_last(&mut self, frame: &Outgoing<'_>) -> Result<(), NoMemory> {
        let data = match frame {
            Outgoing::Bytes(data) if self.is_small(data) => data,
            _ => {
                self.push(frame, false)?;
                self.tx.close();
                return Ok(());
            }
        };
        self.tx.push_last(data)
    }

    /// The messages that were closed can be taken, and the other end is told.
    #[inline(always)]
    pub(super) fn show(&mut self, turned: bool, chores: &mut Chores) {
        match &self.far {
            Far::Link(Some(link)) => {
                self.tx.show_quietly();
                let short = self.lender.as_mut().and_then(|lender| lender.take_short());
                if short.is_some_and(|short| link.waits_for_room(short)) {
                    // The peer makes room when it has what it was sent.
                    chores.push(Chore::Flush(link.clone()));
                    return chores.push(Chore::Pace(link.clone()));
                }
                match link.after_commit(&self.tx, turned) {
                    Next::Nothing => {}
                    Next::Flush => chores.push(Chore::Flush(link.clone())),
                    Next::Pace => chores.push(Chore::Pace(link.clone())),
                    Next::Unlinked => chores.push(Chore::Unlinked),
                }
            }
            Far::Link(None) => {
                self.tx.show_quietly();
                chores.push(Chore::Unlinked);
            }
            Far::Socket { hub, pipe: far } => {
                if self.tx.show() {
                    hub.post(Mail::Readable(*far));
                }
            }
        }
    }

    /// Takes back what was pushed and not committed.
    pub(super) fn rollback(&mut self, left: &mut impl FnMut(Body)) {
        self.tx.rollback_leaving(left);
        let message = self.tx.messages();
        self.lender.iter_mut().for_each(|lender| lender.rollback(message));
    }

    /// What comes in from now on is not received.
    pub(crate) fn stop_here(&mut self) {
        if let Some(mut inlet) = self.inlet.take() {
            inlet.refill();
        }
        self.rx.stop_here();
    }

    /// Takes out all that came in and nobody received; returns how many messages that were.
    pub(crate) fn drain(&mut self, left: &mut Vec<Body>) -> u64 {
        self.rx.resume();
        let mut messages = self.rx.drain(left).messages;
        if self.inlet.as_mut().is_some_and(|inlet| inlet.refill()) {
            messages += self.rx.drain(left).messages;
        }
        messages
    }
}

/// For who leads there. Where only the newest message is kept bodies are not put where the peer has them.
fn lender(far: &Far, conflates: bool) -> Option<Box<Lender>> {
    match far {
        Far::Link(Some(link)) if !conflates => link.lender(),
        _ => None,
    }
}
