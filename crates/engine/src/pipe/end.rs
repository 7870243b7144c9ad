//! The socket's end of one pipe: of the queue to the peer and of the queue from it.

use std::sync::Arc;

use pinnace_ring::{Body, INLINE_MAX, LOAN_MIN, Lender, MORE, NoMemory};

use super::outgoing::{Outgoing, goes_by_reference};
use super::{Deferred, DeferredList, PipeId};
use crate::drops::Drops;
use crate::link::{AfterCommit, Link};
use crate::mailbox::{Mailbox, Notice};
use crate::peer::Peer;
use crate::queue::{Sink, Source};

/// Where a pipe leads.
pub(crate) enum Far {
    /// To a link, while there is one.
    Link(Option<Arc<Link>>),
    /// To a pipe of another socket in the context.
    Socket { mailbox: Arc<Mailbox>, pipe: PipeId },
}

/// The socket's end of one pipe.
pub struct Pipe {
    pub(crate) tx: Source,
    pub(crate) rx: Sink,
    /// Where the pipe leads; `lead_to` changes it.
    pub(crate) far: Far,
    /// Puts large bodies into shared memory, if the link uses it.
    lender: Option<Box<Lender>>,
    /// The peer at the other end, once it is known.
    pub peer: Peer,
    /// `peer.routing_id` is from ZMQ_CONNECT_ROUTING_ID, whatever the peer announces.
    pub(crate) has_given_id: bool,
    /// The peer is reachable: its handshake is done, or it is a socket of the same context.
    pub up: bool,
    /// The pipe has had a peer.
    pub(crate) has_met: bool,
    /// The peer cannot subscribe and is sent everything (RADIO to a datagram address). Set before the pattern learns
    /// of the pipe.
    pub takes_all: bool,
    /// The pipe has ended: nothing can be sent; what came in before can still be read.
    pub ended: bool,
    /// The message that the other socket receives when ours leaves the pipe (ZMQ_DISCONNECT_MSG over inproc).
    pub(crate) farewell: Option<Arc<[u8]>>,
    /// Messages lost on the way to or from the peer; None: none so far.
    pub(crate) drops: Option<Box<Drops>>,
    /// Unique among all pipes that the socket has had.
    pub(crate) number: u64,
    /// Subscriptions and other commands that the queues counted as messages.
    pub(crate) commands_in: u64,
    pub(crate) commands_out: u64,
}

impl Pipe {
    /// A pipe with these ends.
    pub(crate) fn new(tx: Source, rx: Sink, far: Far, peer: Peer, up: bool) -> Pipe {
        let lender = lender(&far, &tx);
        Pipe {
            tx,
            rx,
            far,
            lender,
            peer,
            has_given_id: false,
            up,
            has_met: up,
            takes_all: false,
            ended: false,
            farewell: None,
            drops: None,
            number: 0,
            commands_in: 0,
            commands_out: 0,
        }
    }

    /// Sets the peer at the other end. A routing id from ZMQ_CONNECT_ROUTING_ID is kept.
    pub(crate) fn meet(&mut self, peer: Peer) {
        self.has_met = true;
        let before = std::mem::replace(&mut self.peer, peer);
        if self.has_given_id {
            self.peer.routing_id = before.routing_id;
        }
    }

    /// The link uses shared memory from now on: large bodies go there.
    pub(crate) fn lend(&mut self) {
        // `lead_to` may have set the lender already.
        if self.lender.is_none() {
            self.lender = lender(&self.far, &self.tx);
        }
    }

    /// Changes where the pipe leads.
    pub(crate) fn lead_to(&mut self, far: Far) {
        self.lender = lender(&far, &self.tx);
        self.far = far;
    }

    /// Prefetches what the next message needs.
    #[inline(always)]
    pub(super) fn prefetch_next(&self) {
        self.tx.queue.prefetch_next();
        if let Far::Link(Some(link)) = &self.far {
            link.prefetch_next();
        }
    }

    /// Whether there is input that was not received.
    pub(crate) fn has_come_in(&mut self) -> bool {
        self.rx.has_message()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, frame: &Outgoing<'_>, more: bool) -> Result<(), NoMemory> {
        let flags = if more { MORE } else { 0 };
        match frame {
            Outgoing::Bytes(data) if self.is_small(data) => self.tx.queue.push(flags, data),
            Outgoing::Bytes(data) => self.push_large(flags, data),
            Outgoing::Body(body) if goes_by_reference(body) => self.tx.queue.push_body(flags, body.clone()),
            Outgoing::Body(body) => self.tx.queue.push(flags, body),
        }
    }

    /// Whether a frame is copied into the queue.
    #[inline(always)]
    fn is_small(&self, data: &[u8]) -> bool {
        data.len() < LOAN_MIN || (data.len() <= INLINE_MAX && self.lender.is_none())
    }

    /// Puts a large frame in by reference: its bytes go to shared memory if possible.
    fn push_large(&mut self, flags: u8, data: &[u8]) -> Result<(), NoMemory> {
        let (message, limit) = (self.tx.queue.messages(), self.tx.queue.limit_elsewhere(data.len()));
        match self.lender.as_mut().and_then(|lender| lender.put(data, message, limit)) {
            Some(body) => self.tx.queue.push_body(flags, body),
            None if data.len() <= INLINE_MAX => self.tx.queue.push(flags, data),
            None => self.tx.queue.push_body(flags, Body::copy_of(data)?),
        }
    }

    /// As `push`, for the last frame of a message.
    #[inline(always)]
    pub(super) fn push_last(&mut self, frame: &Outgoing<'_>) -> Result<(), NoMemory> {
        let data = match frame {
            Outgoing::Bytes(data) if self.is_small(data) => data,
            _ => {
                self.push(frame, false)?;
                self.tx.queue.close();
                return Ok(());
            }
        };
        self.tx.queue.push_last(data)
    }

    /// Publishes the closed messages, and notifies the other end.
    #[inline(always)]
    pub(super) fn publish(&mut self, received_since_send: bool, deferred: &mut DeferredList) {
        match &self.far {
            Far::Link(Some(link)) => {
                self.tx.queue.publish_quietly();
                let short = self.lender.as_mut().and_then(|lender| lender.take_short());
                if short.is_some_and(|short| link.waits_for_room(short)) {
                    // Flush first: the peer makes room after it has received what was sent.
                    deferred.push(Deferred::Flush(link.clone()));
                    return deferred.push(Deferred::Pace(link.clone()));
                }
                match link.after_commit(&self.tx.queue, received_since_send) {
                    AfterCommit::Nothing => {}
                    AfterCommit::Flush => deferred.push(Deferred::Flush(link.clone())),
                    AfterCommit::Pace => deferred.push(Deferred::Pace(link.clone())),
                    AfterCommit::Unlinked => deferred.push(Deferred::Unlinked),
                }
            }
            Far::Link(None) => {
                self.tx.queue.publish_quietly();
                deferred.push(Deferred::Unlinked);
            }
            Far::Socket { mailbox, pipe: far } => {
                if self.tx.queue.publish() {
                    mailbox.post(Notice::Readable(*far));
                }
            }
        }
    }

    /// Takes back the uncommitted frames.
    pub(super) fn rollback(&mut self, left: &mut impl FnMut(Body)) {
        self.tx.queue.rollback_leaving(left);
        let message = self.tx.queue.messages();
        self.lender.iter_mut().for_each(|lender| lender.rollback(message));
    }

    /// Input that comes in from now on is not received.
    pub(crate) fn stop_here(&mut self) {
        self.rx.stop_here();
    }

    /// Removes all input that was not received, and returns the number of its messages.
    pub(crate) fn drain(&mut self, left: &mut Vec<Body>) -> u64 {
        self.rx.drain(left)
    }
}

/// The lender of a link. Where only the newest message is kept, no bodies go to shared memory.
fn lender(far: &Far, tx: &Source) -> Option<Box<Lender>> {
    match far {
        Far::Link(Some(link)) if !tx.keeps_newest() => link.lender(),
        _ => None,
    }
}
