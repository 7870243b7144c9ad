//! REQ: one request, then its reply, in strict turn (RFC 28).
//!
//! A request goes to the next peer in turn, with an empty frame in front, and with ZMQ_REQ_CORRELATE a number
//! before that. The reply is taken from that peer alone, and must bring both back; everything else that comes
//! in is dropped and counted.
//!
//! It does not give up by itself: when the peer is lost before it has replied, the socket goes on waiting, as
//! libzmq's does. With ZMQ_REQ_RELAXED another request may be sent instead, and the first is forgotten. As
//! libzmq does too, once the pipe of the request has ended the reply may come through another: a REP that has
//! connected to us comes back on a new pipe. Where requests are repeated, only ZMQ_REQ_CORRELATE tells an old
//! reply from the new one's.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::balance::Balance;
use super::dealer::probe;
use super::fair::Fair;
use crate::drops::Reason;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// The most messages that are dropped, as too late, before one request is sent.
const STALE_MAX: usize = 1000;

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Frames of the request are still to be sent.
    Sending,
    Waiting,
    /// The reply is here and its envelope read.
    Reading,
}

#[derive(Default)]
pub(super) struct Req {
    balance: Balance,
    fair: Fair,
    state: State,
    /// Where the reply must come from; None once that pipe has ended.
    asked: Option<PipeId>,
    request_id: u32,
    /// What the reply begins with, where requests have numbers.
    expected: Option<[u8; 4]>,
    correlate: bool,
    relaxed: bool,
    probe: bool,
}

impl Req {
    /// Sends what stands before the request's own frames.
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
        self.state = State::Sending;
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

    /// What came in before the request is sent cannot be its reply.
    fn drop_stale(&mut self, pipes: &mut Pipes) {
        for _ in 0..STALE_MAX {
            if self.fair.recv(pipes, &mut |_| ()).is_err() {
                return;
            }
            self.drop_rest(pipes);
        }
    }

    /// Drops the message of which a frame was read.
    fn drop_rest(&mut self, pipes: &mut Pipes) {
        self.fair.skip_rest(pipes);
        pipes.count_drop(None, Reason::Malformed, 1);
    }

    /// Goes on to the reply's first own frame, past its envelope. False: there is no reply yet.
    fn find_reply(&mut self, pipes: &mut Pipes) -> bool {
        while let Some(id) = self.fair.choose(pipes) {
            let asked = self.asked.is_none_or(|asked| asked == id);
            if self.read_envelope(pipes) && asked {
                self.state = State::Reading;
                return true;
            }
            self.drop_rest(pipes);
        }
        false
    }

    /// Reads the frames in front of the reply, one at least. False: it is no reply to the request.
    fn read_envelope(&mut self, pipes: &mut Pipes) -> bool {
        let expected = self.expected;
        expected.is_none_or(|bytes| self.read_frame(pipes, &bytes)) && self.read_frame(pipes, b"")
    }

    /// Whether the next frame is this one, and others follow.
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
        if self.state == State::Reading && !self.fair.is_inside() {
            self.state = State::Waiting;
        }
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.balance.add(id);
    }

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if matches!(self.state, State::Waiting | State::Reading) {
            if !self.relaxed {
                return Err(Error::State);
            }
            self.fair.skip_rest(pipes);
            self.state = State::Idle;
        }
        if self.state == State::Idle {
            self.begin(pipes)?;
        }
        self.balance.send(pipes, frame, more)?;
        if !more {
            self.state = State::Waiting;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.balance.rollback(pipes);
        if self.state == State::Sending {
            self.state = State::Idle;
        }
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if matches!(self.state, State::Idle | State::Sending) {
            return Err(Error::State);
        }
        if !self.can_recv(pipes) {
            return Err(Error::WouldBlock);
        }
        let (_, more) = self.fair.recv(pipes, sink)?;
        if !more {
            self.state = State::Idle;
        }
        Ok(more)
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        let waits = matches!(self.state, State::Waiting | State::Reading);
        (self.relaxed || !waits) && self.balance.can_send(pipes)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        match self.state {
            State::Idle | State::Sending => false,
            State::Waiting => self.find_reply(pipes),
            State::Reading => true,
        }
    }

    fn configure(&mut self, options: &Options) {
        self.correlate = options.req_correlate;
        self.relaxed = options.req_relaxed;
        self.probe = options.probe_router;
    }
}
