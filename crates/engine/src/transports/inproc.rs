//! inproc:// (zmq_inproc(7)): the names of a context, and those who wait for one.
//!
//! Two sockets share one pair of queues and need nobody in between. A socket may connect before the name is
//! bound: then its pipe's far end waits here. A pipe accepts what both marks allow together, exactly; both
//! sockets go by the marks as they are when they take the pipe in (`socket::marks`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{Amount, Body, Limits};
use pinnace_zmtp::SocketType;

use crate::context::Context;
use crate::ends::{FarEnds, Sink, Source, way};
use crate::error::Error;
use crate::hub::{Bound, Hub, Mail};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe, PipeId};
use crate::spin;

/// So many closed sockets may have left messages for names that are not bound; those of later ones are lost.
const LEFT_BEHIND_MAX: usize = 1023;

/// What one side brings into a pipe.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) hub: Arc<Hub>,
    pub(crate) socket_type: SocketType,
    pub(crate) peer: Peer,
    /// What it receives when one that has connected to it leaves (ZMQ_DISCONNECT_MSG).
    pub(crate) farewell: Option<Arc<[u8]>>,
    /// Of what it sends, or receives, the newest message is kept alone (ZMQ_CONFLATE).
    pub(crate) conflates_out: bool,
    pub(crate) conflates_in: bool,
    /// It sends to each new peer before its application does: subscriptions, a greeting.
    pub(crate) speaks_first: bool,
}

/// The far end of a pipe whose name is not bound yet.
struct Waiting {
    side: Side,
    pipe: PipeId,
    ends: FarEnds,
}

#[derive(Default)]
struct Names {
    bound: HashMap<String, Side>,
    waiting: Vec<(String, Waiting)>,
}

/// The inproc names of one context.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Names>);

/// What a pipe accepts that two sockets share, by their marks as they are now.
pub(crate) fn limits(sender: &Hub, receiver: &Hub) -> Limits {
    let (send, receive) = (alone(&sender.marks.send), alone(&receiver.marks.receive));
    let bounded = send.messages > 0 && receive.messages > 0;
    Limits { messages: if bounded { send.messages + receive.messages } else { 0 }, ahead_bytes: 0 }
}

/// The bytes that it may hold: what both sides allow together, or the one that has a limit. 0 is no limit.
pub(crate) fn max_bytes(sender: &Hub, receiver: &Hub) -> u64 {
    sender.marks.send_bytes() + receiver.marks.receive_bytes()
}

/// What one mark allows by itself.
fn alone(mark: &AtomicU32) -> Limits {
    Limits { messages: mark.load(Ordering::Relaxed).into(), ahead_bytes: 0 }
}

/// A queue whose ends are used by threads of this process.
fn between_threads(context: &Context, limits: Limits, conflates: bool) -> (Source, Sink) {
    let (tx, mut rx) = way(context, limits, conflates);
    if !conflates && !spin::is_single_processor() {
        rx.queue.set_patient();
    }
    (tx, rx)
}

impl Registry {
    /// Gives `name` to a socket; those who wait for it are connected.
    pub(crate) fn bind(&self, name: &str, side: &Side) -> Result<(), Error> {
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
            let id = side.hub.new_pipe();
            let far_end = Far::Socket { hub: far.hub.clone(), pipe: far_pipe };
            let pipe = Pipe::new(ends.incoming, ends.outgoing, far_end, far.peer, true);
            side.hub.post(Mail::Attach(id, Box::new(pipe)));
            let (peer, farewell) = (side.peer.clone(), side.farewell.clone());
            let bound = Bound { hub: side.hub.clone(), pipe: id, peer, farewell };
            far.hub.post(Mail::Bound(far_pipe, Box::new(bound)));
        }
        Ok(())
    }

    /// Connects a socket to `name`: its pipe, whose far end is attached now, or when the name is bound. True: the other
    /// socket has to send something first.
    pub(crate) fn connect(&self, context: &Context, name: &str, side: &Side) -> (PipeId, Pipe, bool) {
        let id = side.hub.new_pipe();
        let mut names = self.0.lock();
        let Some(far) = names.bound.get(name).cloned() else {
            let (tx, outgoing) = between_threads(context, alone(&side.hub.marks.send), side.conflates_out);
            let (incoming, rx) = between_threads(context, alone(&side.hub.marks.receive), side.conflates_in);
            let ends = FarEnds { outgoing, incoming };
            let waiting = Waiting { side: side.clone(), pipe: id, ends };
            names.waiting.push((name.to_owned(), waiting));
            return (id, Pipe::new(tx, rx, Far::Link(None), Peer::default(), false), false);
        };
        // The name's owner may close meanwhile: it takes its name out first, under this lock, and then reads
        // its mail no more.
        let out = side.conflates_out || far.conflates_in;
        let back = far.conflates_out || side.conflates_in;
        let (tx, far_rx) = between_threads(context, limits(&side.hub, &far.hub), out);
        let (far_tx, rx) = between_threads(context, limits(&far.hub, &side.hub), back);
        let far_id = far.hub.new_pipe();
        let to_us = Far::Socket { hub: side.hub.clone(), pipe: id };
        let far_pipe = Pipe::new(far_tx, far_rx, to_us, side.peer.clone(), true);
        far.hub.post(Mail::Attach(far_id, Box::new(far_pipe)));
        drop(names);
        let to_far = Far::Socket { hub: far.hub.clone(), pipe: far_id };
        let mut pipe = Pipe::new(tx, rx, to_far, far.peer, true);
        pipe.farewell = far.farewell;
        (id, pipe, far.speaks_first)
    }

    /// The kind of the socket that has the name.
    pub(crate) fn kind_at(&self, name: &str) -> Option<SocketType> {
        self.0.lock().bound.get(name).map(|side| side.socket_type)
    }

    /// Takes a name back. False: it was not this socket's.
    pub(crate) fn unbind(&self, name: &str, hub: &Arc<Hub>) -> bool {
        let mut names = self.0.lock();
        let ours = names.bound.get(name).is_some_and(|side| Arc::ptr_eq(&side.hub, hub));
        if ours {
            names.bound.remove(name);
        }
        ours
    }

    /// A socket's pipe no longer waits for a name. Returns how much it held, or None where it was not
    /// waiting; the bodies go to `left`.
    pub(crate) fn stop_waiting(&self, hub: &Arc<Hub>, pipe: PipeId, left: &mut Vec<Body>) -> Option<Amount> {
        let mut found = false;
        let others = |waiting: &mut Waiting| {
            let is_it = Arc::ptr_eq(&waiting.side.hub, hub) && waiting.pipe == pipe;
            found |= is_it;
            !is_it
        };
        let held = self.keep_waiting(others, left);
        found.then_some(held)
    }

    /// A socket is closed: its names are free. What it sent to names that are not bound yet goes on waiting for
    /// them, without it. Returns how much is lost nevertheless.
    pub(crate) fn leave(&self, hub: &Arc<Hub>) -> Amount {
        self.0.lock().bound.retain(|_, side| !Arc::ptr_eq(&side.hub, hub));
        let mut left_behind = 0;
        let keep = |waiting: &mut Waiting| {
            let closed = Arc::ptr_eq(&waiting.side.hub, hub) || waiting.side.hub.is_closed();
            let has_messages = !closed || waiting.ends.outgoing.has_message();
            left_behind += usize::from(closed && has_messages);
            has_messages && (!closed || left_behind <= LEFT_BEHIND_MAX)
        };
        self.keep_waiting(keep, &mut Vec::new())
    }

    /// No name is going to be bound any more. Returns how much waited for one; the bodies go to `left`.
    pub(crate) fn end(&self, left: &mut Vec<Body>) -> Amount {
        self.keep_waiting(|_| false, left)
    }

    /// Of those who wait, `keep` says who goes on. Returns how much the others held; the bodies go to `left`,
    /// to end with no lock held: their owners' code may run.
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
