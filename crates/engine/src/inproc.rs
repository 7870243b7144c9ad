//! inproc:// (zmq_inproc(7)): the names of a context, and the pipes that wait for a name to be bound.
//!
//! Two sockets share one pair of queues, without the I/O thread. A socket may connect before the name is bound;
//! until then its pipe's far end waits here. A pipe accepts exactly the sum of both high-water marks. Both sockets
//! use the marks as they are when they attach the pipe (`socket::hwm`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{Amount, Body, Consumer, Limits, Producer};
use pinnace_zmtp::SocketType;

use crate::error::Error;
use crate::mailbox::{InprocBound, Mailbox, Notice};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe, PipeId};
use crate::queue::{FarEnds, QueueMode, QueueModes, Sink, Source, direction};
use crate::spin;

/// Maximum number of waiting pipes that closed sockets leave behind; the messages in any further ones are lost.
const LEFT_BEHIND_MAX: usize = 1023;

/// What one socket contributes to a pipe.
#[derive(Clone)]
pub(crate) struct InprocSide {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) socket_type: SocketType,
    pub(crate) peer: Peer,
    /// Message that this socket receives when a connected socket leaves (ZMQ_DISCONNECT_MSG).
    pub(crate) farewell: Option<Arc<[u8]>>,
    /// How it wants the queues.
    pub(crate) modes: QueueModes,
    /// The socket sends to each new peer before its application does: subscriptions, a greeting.
    pub(crate) speaks_first: bool,
}

/// The far end of a pipe that waits for its name to be bound.
struct Waiting {
    side: InprocSide,
    pipe: PipeId,
    ends: FarEnds,
}

#[derive(Default)]
struct InprocNames {
    bound: HashMap<String, InprocSide>,
    waiting: Vec<(String, Waiting)>,
}

/// The inproc names of one context.
#[derive(Default)]
pub(crate) struct Registry(Mutex<InprocNames>);

/// What a pipe between two sockets accepts, by their current high-water marks.
pub(crate) fn limits(sender: &Mailbox, receiver: &Mailbox) -> Limits {
    let (send, receive) = (alone(&sender.hwm.send), alone(&receiver.hwm.receive));
    let bounded = send.messages > 0 && receive.messages > 0;
    Limits { messages: if bounded { send.messages + receive.messages } else { 0 }, ahead_bytes: 0 }
}

/// Bytes that the pipe may hold: the sum of both limits, or the only one that is set. 0: no limit.
pub(crate) fn max_bytes(sender: &Mailbox, receiver: &Mailbox) -> u64 {
    sender.hwm.send_bytes() + receiver.hwm.receive_bytes()
}

/// The limit of one high-water mark alone.
fn alone(mark: &AtomicU32) -> Limits {
    Limits { messages: mark.load(Ordering::Relaxed).into(), ahead_bytes: 0 }
}

/// Creates a queue, within the context's budget.
type NewQueue<'a> = &'a dyn Fn(Limits) -> (Producer, Consumer);

/// A queue between threads of this process.
fn between_threads(new_queue: NewQueue<'_>, limits: Limits, mode: QueueMode) -> (Source, Sink) {
    let (tx, mut rx) = direction(mode, || new_queue(limits));
    if mode == QueueMode::All && !spin::is_single_processor() {
        rx.queue.set_patient();
    }
    (tx, rx)
}

impl Registry {
    /// Binds `name` to a socket, and connects the pipes that wait for it. Errors: EADDRINUSE.
    pub(crate) fn bind(&self, name: &str, side: &InprocSide) -> Result<(), Error> {
        let mut names = self.0.lock();
        if names.bound.contains_key(name) {
            return Err(Error::System(pinnace_sys::Errno::ADDRINUSE.raw_os_error()));
        }
        names.bound.insert(name.to_owned(), side.clone());
        let (here, others) =
            std::mem::take(&mut names.waiting).into_iter().partition(|(other, _)| other == name);
        names.waiting = others;
        drop(names);
        let here: Vec<(String, Waiting)> = here;
        for (_, waiting) in here {
            let Waiting { side: far, pipe: far_pipe, ends } = waiting;
            let id = side.mailbox.new_pipe();
            let far_end = Far::Socket { mailbox: far.mailbox.clone(), pipe: far_pipe };
            let pipe = Pipe::new(ends.incoming, ends.outgoing, far_end, far.peer, true);
            side.mailbox.post(Notice::Attach(id, Box::new(pipe)));
            let (peer, farewell) = (side.peer.clone(), side.farewell.clone());
            let bound = InprocBound { mailbox: side.mailbox.clone(), pipe: id, peer, farewell };
            far.mailbox.post(Notice::InprocBound(far_pipe, Box::new(bound)));
        }
        Ok(())
    }

    /// Connects a socket to `name`. The far end of its pipe is attached now, or when the name is bound. True: the
    /// bound socket has to send something first.
    pub(crate) fn connect(
        &self,
        new_queue: NewQueue<'_>,
        name: &str,
        side: &InprocSide,
    ) -> (PipeId, Pipe, bool) {
        let id = side.mailbox.new_pipe();
        let mut names = self.0.lock();
        let Some(far) = names.bound.get(name).cloned() else {
            let (tx, outgoing) = between_threads(new_queue, alone(&side.mailbox.hwm.send), side.modes.out);
            let (incoming, rx) =
                between_threads(new_queue, alone(&side.mailbox.hwm.receive), side.modes.into);
            let ends = FarEnds { outgoing, incoming };
            let waiting = Waiting { side: side.clone(), pipe: id, ends };
            names.waiting.push((name.to_owned(), waiting));
            return (id, Pipe::new(tx, rx, Far::Link(None), Peer::default(), false), false);
        };
        // The bound socket may close meanwhile: it removes its name first, under this lock, and only then stops
        // reading its notices.
        let out = side.modes.out.or(far.modes.into);
        let back = far.modes.out.or(side.modes.into);
        let (tx, far_rx) = between_threads(new_queue, limits(&side.mailbox, &far.mailbox), out);
        let (far_tx, rx) = between_threads(new_queue, limits(&far.mailbox, &side.mailbox), back);
        let far_id = far.mailbox.new_pipe();
        let to_us = Far::Socket { mailbox: side.mailbox.clone(), pipe: id };
        let far_pipe = Pipe::new(far_tx, far_rx, to_us, side.peer.clone(), true);
        far.mailbox.post(Notice::Attach(far_id, Box::new(far_pipe)));
        drop(names);
        let to_far = Far::Socket { mailbox: far.mailbox.clone(), pipe: far_id };
        let mut pipe = Pipe::new(tx, rx, to_far, far.peer, true);
        pipe.farewell = far.farewell;
        (id, pipe, far.speaks_first)
    }

    /// The type of the socket that is bound to `name`.
    pub(crate) fn kind_at(&self, name: &str) -> Option<SocketType> {
        self.0.lock().bound.get(name).map(|side| side.socket_type)
    }

    /// Unbinds a name. False: it was not this socket's.
    pub(crate) fn unbind(&self, name: &str, mailbox: &Arc<Mailbox>) -> bool {
        let mut names = self.0.lock();
        let ours = names.bound.get(name).is_some_and(|side| Arc::ptr_eq(&side.mailbox, mailbox));
        if ours {
            names.bound.remove(name);
        }
        ours
    }

    /// Removes a pipe that waits for a name. Returns how much it held, or None if it was not waiting; the bodies go
    /// to `left`.
    pub(crate) fn stop_waiting(
        &self,
        mailbox: &Arc<Mailbox>,
        pipe: PipeId,
        left: &mut Vec<Body>,
    ) -> Option<Amount> {
        let mut found = false;
        let others = |waiting: &mut Waiting| {
            let is_it = Arc::ptr_eq(&waiting.side.mailbox, mailbox) && waiting.pipe == pipe;
            found |= is_it;
            !is_it
        };
        let held = self.keep_waiting(others, left);
        found.then_some(held)
    }

    /// A socket is closed: its names become free. Messages that it sent to unbound names keep waiting without it.
    /// Returns how much is lost nevertheless.
    pub(crate) fn leave(&self, mailbox: &Arc<Mailbox>) -> Amount {
        self.0.lock().bound.retain(|_, side| !Arc::ptr_eq(&side.mailbox, mailbox));
        let mut left_behind = 0;
        let keep = |waiting: &mut Waiting| {
            let closed = Arc::ptr_eq(&waiting.side.mailbox, mailbox) || waiting.side.mailbox.is_closed();
            let has_messages = !closed || waiting.ends.outgoing.has_message();
            left_behind += usize::from(closed && has_messages);
            has_messages && (!closed || left_behind <= LEFT_BEHIND_MAX)
        };
        self.keep_waiting(keep, &mut Vec::new())
    }

    /// No more names will be bound. Returns how much waited for one; the bodies go to `left`.
    pub(crate) fn end(&self, left: &mut Vec<Body>) -> Amount {
        self.keep_waiting(|_| false, left)
    }

    /// Keeps the waiting pipes that `keep` selects. Returns how much the others held. Their bodies go to `left`, to
    /// be dropped without a lock, because their owners' code may run.
    fn keep_waiting(&self, mut keep: impl FnMut(&mut Waiting) -> bool, left: &mut Vec<Body>) -> Amount {
        let mut names = self.0.lock();
        let mut dropped = Vec::new();
        for (name, mut waiting) in std::mem::take(&mut names.waiting) {
            match keep(&mut waiting) {
                true => names.waiting.push((name, waiting)),
                false => dropped.push(waiting),
            }
        }
        drop(names);
        let mut amount = Amount::default();
        dropped.iter_mut().for_each(|waiting| amount += waiting.ends.outgoing.give_up(left));
        amount
    }
}
