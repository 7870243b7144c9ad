//! Sending and receiving whole messages, so that several threads or tasks may do so on one socket: the frames of one
//! message are never mixed with those of another, and who gives up waiting has taken nothing.

use std::time::{Duration, Instant};

use pinnace_ring::Frame;

use super::{Core, Received, Socket};
use crate::error::Error;
use crate::pipe::Outgoing;

/// How long a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: WouldBlock.
    Never,
    /// As ZMQ_SNDTIMEO or ZMQ_RCVTIMEO says.
    AsSet,
    /// The same, but the call does not sleep itself: Deferred, and its caller sleeps for it (`nap`).
    Deferred,
    /// The same call at a later turn, with the deadline of the first.
    Resumed(Option<Instant>),
    /// Until then; None: for ever.
    Until(Option<Instant>),
}

impl From<bool> for Wait {
    /// Whether it may wait, as C says it (ZMQ_DONTWAIT).
    #[inline(always)]
    fn from(waits: bool) -> Wait {
        if waits { Wait::AsSet } else { Wait::Never }
    }
}

impl Wait {
    #[inline(always)]
    pub(super) fn waits(self) -> bool {
        self != Wait::Never
    }

    /// When it is over, where the option says `set`; None: never.
    pub(super) fn deadline(self, set: Option<Duration>) -> Option<Instant> {
        let as_set = || set.and_then(|timeout| Instant::now().checked_add(timeout));
        match self {
            Wait::Until(deadline) | Wait::Resumed(deadline) => deadline,
            Wait::Never | Wait::AsSet | Wait::Deferred => as_set(),
        }
    }

    pub(super) fn defers(self) -> bool {
        matches!(self, Wait::Deferred | Wait::Resumed(_))
    }
}

impl Socket {
    /// Sends a whole message, all its frames or none of them, whoever else uses the socket. Errors: Invalid where it
    /// has no frame, State while another message is being sent frame by frame.
    pub fn send_message(self, frames: &mut [Outgoing<'_>], wait: impl Into<Wait>) -> Result<(), Error> {
        let wait = wait.into();
        let Some(last) = frames.len().checked_sub(1) else { return Err(Error::Invalid) };
        self.sending(wait, |core| {
            if core.sending {
                return Err(Error::State);
            }
            let mut each = frames.iter_mut().enumerate();
            let sent = each.try_for_each(|(index, frame)| core.send(frame, index < last));
            if sent.is_err() {
                core.pattern.abort(&mut core.pipes);
                core.sending = false;
            }
            sent
        })
    }

    /// Receives a whole message into `sink`, which is called for each frame, with the socket's lock held. What is
    /// returned is about its first frame.
    pub fn recv_message(
        self,
        wait: impl Into<Wait>,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<Received, Error> {
        self.receiving(wait.into(), |core| core.recv_message(sink))
    }

    /// As `recv_message`, and nothing is said of where it came from.
    #[inline]
    pub fn recv_frames(self, wait: impl Into<Wait>, sink: &mut dyn FnMut(Frame<'_>)) -> Result<(), Error> {
        self.receiving(wait.into(), |core| {
            while core.recv(sink)? {}
            Ok(())
        })
    }
}

impl Core {
    fn recv_message(&mut self, sink: &mut dyn FnMut(Frame<'_>)) -> Result<Received, Error> {
        self.pipes.received.clear();
        let mut more = self.recv(sink)?;
        let received = Received { more: false, label: self.pipes.received.take(), about: self.pipes.about() };
        while more {
            // A queue shows a message when all of it is there.
            more = self.recv(sink)?;
        }
        Ok(received)
    }
}
