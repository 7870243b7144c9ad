//! inproc:// (zmq_inproc(7)): the names of a context, and those who wait for one.
//!
//! Two sockets share one pair of queues and need nobody in between. A socket may connect before the name is
//! bound: then its pipe's far end waits here. A pipe accepts what both marks allow together, exactly; both
//! sockets go by the marks as they are when they take the pipe in (`socket::marks`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{Consumer, Limits, Producer, queue};

use crate::error::Error;
use crate::hub::{Bound, Hub, Mail};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe, PipeId};
use crate::spin;

/// What one side brings into a pipe.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) hub: Arc<Hub>,
    pub(crate) peer: Peer,
}

/// The far end of a pipe whose name is not bound yet.
struct Waiting {
    side: Side,
    pipe: PipeId,
    tx: Producer,
    rx: Consumer,
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

/// What one mark allows by itself.
fn alone(mark: &AtomicU32) -> Limits {
    Limits { messages: mark.load(Ordering::Relaxed).into(), ahead_bytes: 0 }
}

/// A queue whose ends are used by threads of this process.
fn between_threads(limits: Limits) -> (Producer, Consumer) {
    let (tx, mut rx) = queue(limits);
    if !spin::is_single_processor() {
        rx.set_patient();
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
            let Waiting { side: far, pipe: far_pipe, tx, rx } = waiting;
            let id = side.hub.new_pipe();
            let far_end = Far::Socket { hub: far.hub.clone(), pipe: far_pipe };
            let pipe = Pipe { tx, rx, far: far_end, peer: far.peer, up: true, ended: false };
            side.hub.post(Mail::Attach(id, Box::new(pipe)));
            let bound = Bound { hub: side.hub.clone(), pipe: id, peer: side.peer.clone() };
            far.hub.post(Mail::Bound(far_pipe, Box::new(bound)));
        }
        Ok(())
    }

    /// Connects a socket to `name`: its pipe, whose far end is attached now, or when the name is bound.
    pub(crate) fn connect(&self, name: &str, side: &Side) -> (PipeId, Pipe) {
        let id = side.hub.new_pipe();
        let mut names = self.0.lock();
        let Some(far) = names.bound.get(name).cloned() else {
            let (tx, far_rx) = between_threads(alone(&side.hub.marks.send));
            let (far_tx, rx) = between_threads(alone(&side.hub.marks.receive));
            let waiting = Waiting { side: side.clone(), pipe: id, tx: far_tx, rx: far_rx };
            names.waiting.push((name.to_owned(), waiting));
            return (
                id,
                Pipe { tx, rx, far: Far::Link(None), peer: Peer::default(), up: false, ended: false },
            );
        };
        // The name's owner may close meanwhile: it takes its name out first, under this lock, and then reads
        // its mail no more.
        let (tx, far_rx) = between_threads(limits(&side.hub, &far.hub));
        let (far_tx, rx) = between_threads(limits(&far.hub, &side.hub));
        let far_id = far.hub.new_pipe();
        let to_us = Far::Socket { hub: side.hub.clone(), pipe: id };
        let far_pipe =
            Pipe { tx: far_tx, rx: far_rx, far: to_us, peer: side.peer.clone(), up: true, ended: false };
        far.hub.post(Mail::Attach(far_id, Box::new(far_pipe)));
        drop(names);
        let to_far = Far::Socket { hub: far.hub.clone(), pipe: far_id };
        (id, Pipe { tx, rx, far: to_far, peer: far.peer, up: true, ended: false })
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

    /// A socket's pipe, or all of them, no longer wait for a name.
    pub(crate) fn stop_waiting(&self, hub: &Arc<Hub>, pipe: Option<PipeId>) {
        let ours = |waiting: &Waiting| {
            Arc::ptr_eq(&waiting.side.hub, hub) && pipe.is_none_or(|pipe| pipe == waiting.pipe)
        };
        self.0.lock().waiting.retain(|(_, waiting)| !ours(waiting));
    }

    /// A socket is closed: its names are free.
    pub(crate) fn leave(&self, hub: &Arc<Hub>) {
        self.0.lock().bound.retain(|_, side| !Arc::ptr_eq(&side.hub, hub));
        self.stop_waiting(hub, None);
    }
}
