//! REQ: strictly alternates between a request and its reply (RFC 28).
//!
//! Requests go round robin to the peers, prefixed with an empty frame and, with ZMQ_REQ_CORRELATE, a request id
//! before it. The reply is accepted only from the peer that was asked and only with the same prefix. All other input
//! is dropped and counted.
//!
//! There is no timeout: if the peer is lost before it replies, the socket keeps waiting, as libzmq's does. With
//! ZMQ_REQ_RELAXED the application may send another request and abandon the first. As in libzmq, once the request's
//! pipe has ended, any pipe may bring the reply: a REP that connects to us comes back on a new pipe. If requests are
//! repeated, only ZMQ_REQ_CORRELATE distinguishes a stale reply from the current one.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::dealer::probe;
use crate::drops::Reason;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Balance, Fair};

/// Limit of stale messages that are dropped before one request is sent.
const STALE_MAX: usize = 1000;

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ReqState {
    #[default]
    Idle,
    /// More frames of the request follow.
    Sending,
    Waiting,
    /// The reply's envelope was read; its own frames are being received.
    Reading,
}

#[derive(Default)]
pub(super) struct Req {
    balance: Balance,
    fair: Fair,
    state: ReqState,
    /// The only pipe that may bring the reply; None once it has ended: then any pipe may.
    asked: Option<PipeId>,
    request_id: u32,
    /// The request id that the reply must begin with (ZMQ_REQ_CORRELATE).
    expected: Option<[u8; 4]>,
    correlate: bool,
    relaxed: bool,
    probe: bool,
}

impl Req {
    /// Sends the envelope in front of the request's own frames.
    fn begin(&mut self, pipes: &mut Pipes) -> Result<(), Error> {
        self.drop_stale(pipes);
        let request_id = self.correlate.then(|| self.request_id.wrapping_add(1).to_ne_bytes());
        match self.send_envelope(pipes, request_id) {
            Ok(asked) => self.asked = asked,
            Err(error) => {
                self.balance.rollback(pipes);
                return Err(error);
            }
        }
        self.request_id = self.request_id.wrapping_add(1);
        self.expected = request_id;
        self.state = ReqState::Sending;
        Ok(())
    }

    fn send_envelope(
        &mut self,
        pipes: &mut Pipes,
        request_id: Option<[u8; 4]>,
    ) -> Result<Option<PipeId>, Error> {
        if let Some(bytes) = request_id {
            self.balance.send(pipes, &Outgoing::Bytes(&bytes), true)?;
        }
        self.balance.send(pipes, &Outgoing::Bytes(b""), true)
    }

    /// Messages that arrived before the request was sent cannot be its reply.
    fn drop_stale(&mut self, pipes: &mut Pipes) {
        for _ in 0..STALE_MAX {
            if self.fair.recv(pipes, &mut |_| ()).is_err() {
                return;
            }
            self.drop_rest(pipes);
        }
    }

    /// Drops the rest of the message that is being read, and counts it as malformed.
    fn drop_rest(&mut self, pipes: &mut Pipes) {
        self.fair.skip_rest(pipes);
        pipes.count_drop(None, Reason::Malformed, 1);
    }

    /// Advances past the envelope to the reply's first own frame. False if no reply has arrived.
    fn find_reply(&mut self, pipes: &mut Pipes) -> bool {
        while let Some(id) = self.fair.choose(pipes) {
            let asked = self.asked.is_none_or(|asked| asked == id);
            if self.read_envelope(pipes) && asked {
                self.state = ReqState::Reading;
                return true;
            }
            self.drop_rest(pipes);
        }
        false
    }

    /// Reads at least one frame of the envelope. False if the message is no reply to the request.
    fn read_envelope(&mut self, pipes: &mut Pipes) -> bool {
        let expected = self.expected;
        expected.is_none_or(|bytes| self.read_frame(pipes, &bytes)) && self.read_frame(pipes, b"")
    }

    /// Returns true if the next frame equals `expected` and more frames follow.
    fn read_frame(&mut self, pipes: &mut Pipes, expected: &[u8]) -> bool {
        let mut fits = false;
        let result = self.fair.recv(pipes, &mut |frame| {
            fits = frame.flags() & MORE != 0 && frame.data() == expected;
        });
        fits && result.is_ok()
    }
}

impl Pattern for Req {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.add(id);
        self.fair.add(id);
        if self.probe {
            probe(pipes, id);
        }
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.remove(pipes, id);
        self.asked = self.asked.filter(|&asked| asked != id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.remove(pipes, id);
        self.asked = self.asked.filter(|&asked| asked != id);
        self.fair.remove(id);
        if self.state == ReqState::Reading && !self.fair.is_inside() {
            self.state = ReqState::Waiting;
        }
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.balance.add(id);
    }

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if matches!(self.state, ReqState::Waiting | ReqState::Reading) {
            if !self.relaxed {
                return Err(Error::State);
            }
            self.fair.skip_rest(pipes);
            self.state = ReqState::Idle;
        }
        if self.state == ReqState::Idle {
            self.begin(pipes)?;
        }
        self.balance.send(pipes, frame, more)?;
        if !more {
            self.state = ReqState::Waiting;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.balance.rollback(pipes);
        if self.state == ReqState::Sending {
            self.state = ReqState::Idle;
        }
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if matches!(self.state, ReqState::Idle | ReqState::Sending) {
            return Err(Error::State);
        }
        if !self.can_recv(pipes) {
            return Err(Error::WouldBlock);
        }
        let (_, more) = self.fair.recv(pipes, sink)?;
        if !more {
            self.state = ReqState::Idle;
        }
        Ok(more)
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        let waits = matches!(self.state, ReqState::Waiting | ReqState::Reading);
        (self.relaxed || !waits) && self.balance.can_send(pipes)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        match self.state {
            ReqState::Idle | ReqState::Sending => false,
            ReqState::Waiting => self.find_reply(pipes),
            ReqState::Reading => true,
        }
    }

    fn configure(&mut self, options: &Options) {
        self.correlate = options.req_correlate;
        self.relaxed = options.req_relaxed;
        self.probe = options.probe_router;
    }
}
