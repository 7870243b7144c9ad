//! High-water marks: pipes that are there follow when ZMQ_SNDHWM or ZMQ_RCVHWM is set (zmq_setsockopt(3), since
//! libzmq 4.2).
//!
//! A mark lives in two places: what the producer of a queue accepts, and how often its consumer looks whether the
//! producer waits. Where both are ours, or the other is a link's, they change at once; a link goes by the
//! socket's marks at each read. The socket at the other end of an inproc pipe is told, and follows when it is
//! used next.
//!
//! Nobody waits in vain meanwhile. A producer whose mark is lowered first is told of room late by a consumer that
//! still goes by the old mark, but at the latest when that one's socket is used, for that reads the mail. A
//! producer whose mark is raised last is woken by its mail.

use std::sync::atomic::Ordering;

use pinnace_ring::Limits;

use super::Core;
use crate::hub::Mail;
use crate::link;
use crate::pipe::{Chore, Far, PipeId};
use crate::transports::inproc;

impl Core {
    /// The marks were set.
    pub(super) fn apply_marks(&mut self) {
        self.hub.marks.set(&self.options);
        let ids: Vec<_> = self.pipes.ids().collect();
        for id in ids {
            self.settle_marks(id);
            self.hub.post(Mail::Writable(id)); // A sender may sleep.
        }
    }

    /// Both ends of a pipe go by the marks as they are now: whoever made it, or has the other end, may have
    /// seen others.
    pub(super) fn settle_marks(&mut self, id: PipeId) {
        self.follow_marks(id);
        match self.pipes.get(id).map(|pipe| &pipe.far) {
            // It may have stopped at the mark that was.
            Some(Far::Link(Some(link))) => {
                let chore = Chore::ReadOn(link.clone());
                self.pipes.chores.push(chore);
            }
            Some(Far::Socket { hub, pipe }) => hub.post(Mail::Marks(*pipe)),
            Some(Far::Link(None)) | None => {}
        }
    }

    /// Our ends of a pipe go by the marks as they are now.
    pub(super) fn follow_marks(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get(id) else { return };
        let send = self.hub.marks.send.load(Ordering::Relaxed).into();
        let receive = self.hub.marks.receive.load(Ordering::Relaxed).into();
        let (limits, mark) = match &pipe.far {
            Far::Link(None) => (Limits { messages: send, ahead_bytes: 0 }, receive),
            Far::Link(Some(_)) => (Limits { messages: send, ahead_bytes: link::AHEAD_BYTES }, receive),
            Far::Socket { hub, .. } => {
                (inproc::limits(&self.hub, hub), inproc::limits(hub, &self.hub).messages)
            }
        };
        let (send_bytes, receive_bytes) = match &pipe.far {
            Far::Link(_) => (self.hub.marks.send_bytes(), self.hub.marks.receive_bytes()),
            Far::Socket { hub, .. } => (inproc::max_bytes(&self.hub, hub), inproc::max_bytes(hub, &self.hub)),
        };
        pipe.tx.set_limits(limits);
        pipe.tx.set_max_bytes(send_bytes);
        pipe.rx.look_often(receive_bytes > 0);
        pipe.rx.set_mark(mark);
        if pipe.rx.take_room_wanted() {
            self.pipes.tell_of_room(id);
        }
    }
}
