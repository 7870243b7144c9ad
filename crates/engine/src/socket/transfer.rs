//! Sending and receiving a frame.

use std::sync::atomic::Ordering;
use std::time::Instant;

use pinnace_ring::Frame;

use super::{Socket, Waiter};
use crate::error::Error;
use crate::pipe::Outgoing;

impl Socket {
    /// Sends one frame, `more` if others of the same message follow. With `wait` it waits for room, as long
    /// as ZMQ_SNDTIMEO says.
    #[inline]
    pub fn send(self, mut frame: Outgoing<'_>, more: bool, wait: bool) -> Result<(), Error> {
        match self.try_send(&mut frame, more, wait) {
            Err(Error::WouldBlock) => self.send_patiently(frame, more, wait),
            outcome => outcome,
        }
    }

    #[inline(always)]
    fn try_send(self, frame: &mut Outgoing<'_>, more: bool, wait: bool) -> Result<(), Error> {
        self.call(wait, |core| core.pattern.send(&mut core.pipes, frame, more))
    }

    #[cold]
    fn send_patiently(self, mut frame: Outgoing<'_>, more: bool, wait: bool) -> Result<(), Error> {
        let (mut waiter, timeout) = {
            let core = self.lock()?;
            (Waiter::new(&core), core.options.sndtimeo)
        };
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            // What has gathered may be all that stands in the way.
            waiter.flush();
            if !wait {
                waiter.serve_if_ours()?;
            }
            waiter.observe();
            match self.try_send(&mut frame, more, wait) {
                Err(Error::WouldBlock) if wait => waiter.wait(deadline)?,
                outcome => return outcome,
            }
        }
    }

    /// Receives one frame into `sink`, which is called once, with the socket's lock held; true: more of the
    /// message follows. With `wait` it waits for a message, as long as ZMQ_RCVTIMEO says.
    #[inline]
    pub fn recv(self, wait: bool, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        match self.try_recv(sink) {
            Err(Error::WouldBlock) => self.recv_patiently(wait, sink),
            outcome => outcome,
        }
    }

    #[inline(always)]
    fn try_recv(self, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.call(false, |core| {
            let outcome = core.pattern.recv(&mut core.pipes, sink);
            match outcome {
                Ok(more) => core.receive_more = more,
                Err(_) if !core.ended.is_empty() => core.sweep(),
                Err(_) => {}
            }
            outcome
        })
    }

    #[cold]
    fn recv_patiently(self, wait: bool, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        let (mut waiter, timeout) = {
            let core = self.lock()?;
            (Waiter::new(&core), core.options.rcvtimeo)
        };
        if !wait {
            waiter.serve_if_ours()?;
            return self.try_recv(sink);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        waiter.flush();
        waiter.observe();
        waiter.read_eagerly();
        loop {
            match self.try_recv(sink) {
                Err(Error::WouldBlock) => waiter.wait(deadline)?,
                outcome => return outcome,
            }
            waiter.observe();
        }
    }

    /// Messages that the pattern dropped, because its rules say so: a PUB's peer at its mark, a ROUTER's
    /// unknown peer; and those that a lost connection cut where their beginning was gone already.
    pub fn dropped(self) -> Result<u64, Error> {
        let core = self.lock()?;
        Ok(core.pattern.dropped() + core.hub.given_up.load(Ordering::Relaxed))
    }
}
