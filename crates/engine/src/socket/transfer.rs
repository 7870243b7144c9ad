//! Sending and receiving single frames.

use std::sync::Arc;

use pinnace_ring::Frame;

use super::{Core, Socket};
use crate::drops::Drops;
use crate::error::Error;
use crate::label::Label;
use crate::peer::About;
use crate::pipe::Outgoing;
use crate::waiting::{Wait, Waiter};

/// A frame's metadata.
pub struct Received {
    /// More frames of the message follow.
    pub more: bool,
    pub label: Label,
    /// What is known of the peer that sent it; None over inproc.
    pub about: Option<Arc<About>>,
}

impl Socket {
    /// Sends one frame; `more`: further frames of the message follow. With `wait` it blocks until there is room, at
    /// most for ZMQ_SNDTIMEO.
    #[inline(always)]
    pub fn send(self, mut frame: Outgoing<'_>, more: bool, wait: impl Into<Wait>) -> Result<(), Error> {
        let wait = wait.into();
        match self.send_now(&mut frame, more, wait.waits()) {
            Some(Ok(())) => Ok(()),
            None => self.send_later(&mut frame, more, wait, false),
            Some(Err(Error::WouldBlock)) => self.send_later(&mut frame, more, wait, true),
            Some(failed) => failed,
        }
    }

    /// Sends the frame on the fast path, if there is room. None: nothing was tried, for example because of notices.
    /// After None and after WouldBlock the caller continues with `send_later`. `wait`: the caller may be delayed.
    #[inline(always)]
    pub fn send_now(self, frame: &mut Outgoing<'_>, more: bool, wait: bool) -> Option<Result<(), Error>> {
        self.call_at_once(wait, |core| core.send(frame, more))
    }

    /// Continues after `send_now` of the same frame; `tried`: that returned WouldBlock.
    pub fn send_later(
        self,
        frame: &mut Outgoing<'_>,
        more: bool,
        wait: Wait,
        tried: bool,
    ) -> Result<(), Error> {
        self.send_slow(wait, tried, &mut move |core| core.send(frame, more))
    }

    /// As `send`, with a label, for the socket types that use one.
    pub fn send_labelled(
        self,
        mut frame: Outgoing<'_>,
        label: &Label,
        more: bool,
        wait: impl Into<Wait>,
    ) -> Result<(), Error> {
        self.sending(wait.into(), |core| {
            core.pipes.sending.assign(label);
            let sent = core.send(&mut frame, more);
            core.pipes.sending.clear();
            sent
        })
    }

    /// Runs `work`, which sends; with `wait` repeats it until there is room.
    #[inline(always)]
    pub(super) fn sending(
        self,
        wait: Wait,
        mut work: impl FnMut(&mut Core) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.call_at_once(wait.waits(), |core| work(core)) {
            None => self.send_slow(wait, false, &mut work),
            Some(Err(Error::WouldBlock)) => self.send_slow(wait, true, &mut work),
            Some(outcome) => outcome,
        }
    }

    /// `tried`: `work` has returned WouldBlock.
    #[cold]
    #[inline(never)]
    fn send_slow(
        self,
        wait: Wait,
        tried: bool,
        work: &mut dyn FnMut(&mut Core) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !tried {
            match self.call(wait.waits(), &mut *work) {
                Err(Error::WouldBlock) => {}
                outcome => return outcome,
            }
        }
        let (mut waiter, timeout) = {
            let core = self.lock()?;
            (Waiter::of(core.mailbox.clone()), core.options.sndtimeo)
        };
        let deadline = wait.deadline(timeout);
        loop {
            // Unwritten data may be all that takes up the room.
            waiter.flush();
            if !wait.waits() {
                waiter.serve_if_ours()?;
            }
            waiter.observe();
            match self.call(wait.waits(), &mut *work) {
                Err(Error::WouldBlock) if wait.waits() => waiter.wait(deadline, wait.defers())?,
                outcome => return outcome,
            }
        }
    }

    /// Receives one frame into `sink`, which is called once with the socket's lock held. Returns true if more frames
    /// of the message follow. With `wait` it blocks until a message arrives, at most for ZMQ_RCVTIMEO.
    #[inline(always)]
    pub fn recv(self, wait: impl Into<Wait>, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.receiving(wait.into(), |core| core.recv(sink))
    }

    /// Receives a frame on the fast path, if there is one. None: nothing was tried, for example because of notices.
    /// After None and after WouldBlock the caller continues with `recv_later`.
    #[inline(always)]
    pub fn recv_now(self, sink: &mut dyn FnMut(Frame<'_>)) -> Option<Result<bool, Error>> {
        self.call_at_once(false, |core| core.recv(sink))
    }

    /// Continues after `recv_now`; `tried`: that returned WouldBlock.
    pub fn recv_later(self, wait: Wait, tried: bool, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.recv_slow(wait, tried, &mut |core: &mut Core| core.recv(sink))
    }

    /// As `recv`, with label and peer.
    #[inline]
    pub fn recv_labelled(
        self,
        wait: impl Into<Wait>,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<Received, Error> {
        self.receiving(wait.into(), |core| {
            core.pipes.received.clear();
            let more = core.recv(sink)?;
            Ok(Received { more, label: core.pipes.received.take(), about: core.pipes.about() })
        })
    }

    /// Runs `work`, which receives; with `wait` repeats it until there is a message.
    #[inline(always)]
    pub(super) fn receiving<R>(
        self,
        wait: Wait,
        mut work: impl FnMut(&mut Core) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match self.call_at_once(false, |core| work(core)) {
            None => self.recv_slow(wait, false, &mut work),
            Some(Err(Error::WouldBlock)) => self.recv_slow(wait, true, &mut work),
            Some(outcome) => outcome,
        }
    }

    /// `tried`: `work` has returned WouldBlock.
    #[cold]
    #[inline(never)]
    fn recv_slow<R>(
        self,
        wait: Wait,
        tried: bool,
        work: &mut dyn FnMut(&mut Core) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if !tried {
            match self.call(false, &mut *work) {
                Err(Error::WouldBlock) => {}
                outcome => return outcome,
            }
        }
        let (mut waiter, timeout) = {
            let core = self.lock()?;
            (core.waiter(), core.options.rcvtimeo)
        };
        if !wait.waits() {
            waiter.serve_if_ours()?;
            return self.call(false, &mut *work);
        }
        let deadline = wait.deadline(timeout);
        waiter.flush();
        waiter.observe();
        waiter.read_eagerly();
        loop {
            match self.call(false, &mut *work) {
                Err(Error::WouldBlock) => waiter.wait(deadline, wait.defers())?,
                outcome => return outcome,
            }
            waiter.observe();
        }
    }

    /// Lost messages, by reason.
    pub fn drops(self) -> Result<Drops, Error> {
        let core = self.lock()?;
        let mut drops = core.pipes.drops;
        drops.absorb(&core.mailbox.lost.read());
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
