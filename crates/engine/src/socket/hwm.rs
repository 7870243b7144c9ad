//! High-water marks: existing pipes follow when ZMQ_SNDHWM or ZMQ_RCVHWM is set (zmq_setsockopt(3), since libzmq
//! 4.2).
//!
//! A mark has two copies: the limit that the producer of a queue enforces, and the interval at which the consumer
//! checks whether the producer waits. If this socket has both, or a link has the other, they change at once; a link
//! reloads the socket's marks at each read. The socket at the other end of an inproc pipe gets a notice and follows
//! at its next call.
//!
//! No producer is left waiting. If the producer's mark is lowered first, a consumer with the old mark reports room
//! late, but at the latest when its socket is used, because that call handles the notice. If the producer's mark is
//! raised last, the notice wakes it.

use std::sync::atomic::Ordering;

use pinnace_ring::Limits;

use super::Core;
use crate::inproc;
use crate::link;
use crate::mailbox::Notice;
use crate::pipe::{Deferred, Far, PipeId};

impl Core {
    /// Applies changed marks to all pipes.
    pub(super) fn apply_hwm_to_all(&mut self) {
        self.mailbox.hwm.set(&self.options);
        let ids: Vec<_> = self.pipes.ids().collect();
        for id in ids {
            self.apply_hwm(id);
            self.mailbox.post(Notice::Writable(id)); // A sender may be asleep.
        }
    }

    /// Applies the current marks to both ends of a pipe. The other end, or the creator of the pipe, may have used
    /// older marks.
    pub(super) fn apply_hwm(&mut self, id: PipeId) {
        self.update_hwm(id);
        match self.pipes.get(id).map(|pipe| &pipe.far) {
            // The link may have stalled at the old mark.
            Some(Far::Link(Some(link))) => {
                let deferred = Deferred::ReadOn(link.clone());
                self.pipes.deferred.push(deferred);
            }
            Some(Far::Socket { mailbox, pipe }) => mailbox.post(Notice::HighWaterMarks(*pipe)),
            Some(Far::Link(None)) | None => {}
        }
    }

    /// Applies the current marks to our ends of a pipe.
    pub(super) fn update_hwm(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get(id) else { return };
        let send = self.mailbox.hwm.send.load(Ordering::Relaxed).into();
        let receive = self.mailbox.hwm.receive.load(Ordering::Relaxed).into();
        let (limits, mark) = match &pipe.far {
            Far::Link(None) => (Limits { messages: send, ahead_bytes: 0 }, receive),
            Far::Link(Some(_)) => (Limits { messages: send, ahead_bytes: link::AHEAD_BYTES }, receive),
            Far::Socket { mailbox, .. } => {
                (inproc::limits(&self.mailbox, mailbox), inproc::limits(mailbox, &self.mailbox).messages)
            }
        };
        let (send_bytes, receive_bytes) = match &pipe.far {
            Far::Link(_) => (self.mailbox.hwm.send_bytes(), self.mailbox.hwm.receive_bytes()),
            Far::Socket { mailbox, .. } => {
                (inproc::max_bytes(&self.mailbox, mailbox), inproc::max_bytes(mailbox, &self.mailbox))
            }
        };
        pipe.tx.queue.set_limits(limits);
        pipe.tx.queue.set_max_bytes(send_bytes);
        pipe.rx.queue.check_room_at_each_message(receive_bytes > 0);
        pipe.rx.queue.set_mark(mark);
        if pipe.rx.queue.take_room_wanted() {
            self.pipes.tell_of_room(id);
        }
    }
}
