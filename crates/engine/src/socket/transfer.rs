//! Sending and receiving a frame.

use std::sync::Arc;

use pinnace_ring::Frame;

use super::{Core, Socket, Wait, Waiter};
use crate::drops::Drops;
use crate::error::Error;
use crate::label::Label;
use crate::peer::About;
use crate::pipe::Outgoing;

/// What comes with a frame beside its bytes.
pub struct Received {
    /// More of its message follows.
    pub more: bool,
    pub label: Label,
    /// What is known of who sent it; None over inproc.
    pub about: Option<Arc<About>>,
}

impl Socket {
    /// Sends one frame, `more` if others of the same message follow. With `wait` it waits for room, as long
    /// as ZMQ_SNDTIMEO says.
    #[inline]
    pub fn send(self, mut frame: Outgoing<'_>, more: bool, wait: bool) -> Result<(), Error> {
        let mut attempt = || self.call(wait, |core| core.send(&mut frame, more));
        match attempt() {
            Err(Error::WouldBlock) => self.send_patiently(wait.into(), &mut attempt),
            outcome => outcome,
        }
    }

    /// As `send`, with a label, for the socket types that look at one.
    pub fn send_labelled(
        self,
        mut frame: Outgoing<'_>,
        label: &Label,
        more: bool,
        wait: impl Into<Wait>,
    ) -> Result<(), Error> {
        let wait = wait.into();
        let mut attempt = || {
            self.call(wait.waits(), |core| {
                core.pipes.sending.assign(label);
                let sent = core.send(&mut frame, more);
                core.pipes.sending.clear();
                sent
            })
        };
        match attempt() {
            Err(Error::WouldBlock) => self.send_patiently(wait, &mut attempt),
            outcome => outcome,
        }
    }

    #[cold]
    pub(super) fn send_patiently(
        self,
        wait: Wait,
        attempt: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut waiter, timeout) = {
            let core = self.lock()?;
            (Waiter::new(&core), core.options.sndtimeo)
        };
        let deadline = wait.deadline(timeout);
        loop {
            // What has gathered may be all that stands in the way.
            waiter.flush();
            if !wait.waits() {
                waiter.serve_if_ours()?;
            }
            waiter.observe();
            match attempt() {
                Err(Error::WouldBlock) if wait.waits() => waiter.wait(deadline)?,
                outcome => return outcome,
            }
        }
    }

    /// Receives one frame into `sink`, which is called once, with the socket's lock held; true: more of the
    /// message follows. With `wait` it waits for a message, as long as ZMQ_RCVTIMEO says.
    #[inline]
    pub fn recv(self, wait: bool, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        let mut attempt = || self.call(false, |core| core.recv(sink));
        match attempt() {
            Err(Error::WouldBlock) => self.recv_patiently(wait.into(), &mut attempt),
            outcome => outcome,
        }
    }

    /// As `recv`, with all that is known of the frame.
    #[inline]
    pub fn recv_labelled(self, wait: bool, sink: &mut dyn FnMut(Frame<'_>)) -> Result<Received, Error> {
        let mut attempt = || {
            self.call(false, |core| {
                core.pipes.received.clear();
                let more = core.recv(sink)?;
                Ok(Received { more, label: core.pipes.received.take(), about: core.pipes.about() })
            })
        };
        match attempt() {
            Err(Error::WouldBlock) => self.recv_patiently(wait.into(), &mut attempt),
            outcome => outcome,
        }
    }

    #[cold]
    pub(super) fn recv_patiently<R>(
        self,
        wait: Wait,
        attempt: &mut dyn FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (mut waiter, timeout) = {
            let core = self.lock()?;
            (Waiter::new(&core), core.options.rcvtimeo)
        };
        if !wait.waits() {
            waiter.serve_if_ours()?;
            return attempt();
        }
        let deadline = wait.deadline(timeout);
        waiter.flush();
        waiter.observe();
        waiter.read_eagerly();
        loop {
            match attempt() {
                Err(Error::WouldBlock) => waiter.wait(deadline)?,
                outcome => return outcome,
            }
            waiter.observe();
        }
    }

    /// The messages that were lost, by reason.
    pub fn drops(self) -> Result<Drops, Error> {
        let core = self.lock()?;
        let mut drops = core.pipes.drops;
        drops.absorb(&core.hub.lost.read());
        Ok(drops)
    }
}

impl Core {
    #[inline(always)]
    pub(super) fn send(&mut self, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        self.pattern.send(&mut self.pipes, frame, more)?;
        self.sending = more;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn recv(&mut self, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        let outcome = self.pattern.recv(&mut self.pipes, sink);
        match outcome {
            Ok(more) => self.receive_more = more,
            Err(_) if !self.ended.is_empty() => self.sweep(),
            Err(_) => {}
        }
        outcome
    }
}
