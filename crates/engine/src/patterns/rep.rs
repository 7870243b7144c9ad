//! REP: one request, then its reply, in strict turn (RFC 28).
//!
//! Requests come from the peers in turn. The frames of a request up to and including the first empty one are
//! the way back: they are kept, not handed out, and stand before the reply, which goes to the peer that the
//! request came from. A request without an empty frame, or with nothing behind it, is dropped and counted; so
//! is a reply whose peer is gone or takes no more.

use pinnace_ring::{Frame, NoMemory};

use super::Pattern;
use super::fair::Fair;
use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// Bytes of a way back that are kept for the next one.
const KEPT_BYTES: usize = 64 * 1024;

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// A request's own frames are being received.
    Reading,
    Answering,
    /// Frames of the reply are still to be sent.
    Sending,
}

#[derive(Default)]
pub(super) struct Rep {
    fair: Fair,
    state: State,
    /// Where the reply goes; None: nowhere.
    asker: Option<PipeId>,
    way_back: WayBack,
}

impl Rep {
    /// Goes on to the own frames of the next request, past its envelope. False: there is none.
    fn find_request(&mut self, pipes: &mut Pipes) -> bool {
        while let Some(id) = self.fair.choose(pipes) {
            if self.read_envelope(pipes) {
                self.asker = Some(id);
                self.state = State::Reading;
                return true;
            }
            self.fair.skip_rest(pipes);
            pipes.count_drop(Some(id), Reason::Malformed, 1);
        }
        false
    }

    /// Reads the frames up to the empty one. False: there is none with others behind it, or they are too
    /// large to be kept.
    fn read_envelope(&mut self, pipes: &mut Pipes) -> bool {
        self.way_back.clear();
        loop {
            let mut end = false;
            let mut kept = Ok(());
            let result = self.fair.recv(pipes, &mut |frame| {
                end = frame.data().is_empty();
                kept = self.way_back.add(frame.data());
            });
            if !matches!(result, Ok((_, true))) || kept.is_err() {
                return false;
            }
            if end {
                return true;
            }
        }
    }

    /// Sends what stands before the reply's own frames.
    fn begin(&mut self, pipes: &mut Pipes) -> Result<(), NoMemory> {
        let full = self.asker.filter(|&id| !pipes.has_room(id));
        self.asker = self.asker.filter(|_| full.is_none());
        match self.asker {
            None => {
                let reason = if full.is_some() { Reason::Full } else { Reason::PeerLost };
                pipes.count_drop(full, reason, 1);
            }
            Some(id) => {
                if let Err(error) = self.way_back.push(pipes, id) {
                    pipes.rollback(id);
                    return Err(error);
                }
            }
        }
        self.state = State::Sending;
        Ok(())
    }

    fn lose(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.asker != Some(id) {
            return;
        }
        self.asker = None;
        if self.state == State::Sending {
            pipes.count_drop(Some(id), Reason::PeerLost, 1);
        }
    }
}

impl Pattern for Rep {
    fn attached(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.state == State::Sending && self.asker == Some(id) {
            pipes.rollback(id);
        }
        self.lose(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.lose(pipes, id);
        self.fair.remove(id);
        if self.state == State::Reading && !self.fair.is_inside() {
            self.state = State::Idle;
        }
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        match self.state {
            State::Idle | State::Reading => return Err(Error::State),
            State::Answering => self.begin(pipes)?,
            State::Sending => {}
        }
        if let Some(id) = self.asker {
            pipes.push(id, frame, more)?;
            if !more {
                pipes.commit(id);
            }
        }
        if !more {
            self.asker = None;
            self.state = State::Idle;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        if self.state == State::Sending {
            self.asker.into_iter().for_each(|id| pipes.rollback(id));
            self.state = State::Answering;
        }
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if matches!(self.state, State::Answering | State::Sending) {
            return Err(Error::State);
        }
        if !self.can_recv(pipes) {
            return Err(Error::WouldBlock);
        }
        let (_, more) = self.fair.recv(pipes, sink)?;
        if !more {
            self.state = State::Answering;
        }
        Ok(more)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        matches!(self.state, State::Answering | State::Sending)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        match self.state {
            State::Idle => self.find_request(pipes),
            State::Reading => true,
            State::Answering | State::Sending => false,
        }
    }
}

/// The frames in front of a request, which lead its reply back.
#[derive(Default)]
struct WayBack {
    bytes: Vec<u8>,
    /// Where in `bytes` each frame ends.
    ends: Vec<usize>,
}

impl WayBack {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.shrink_to(KEPT_BYTES / size_of::<usize>());
    }

    fn add(&mut self, frame: &[u8]) -> Result<(), NoMemory> {
        self.bytes.try_reserve(frame.len()).map_err(|_| NoMemory)?;
        self.ends.try_reserve(1).map_err(|_| NoMemory)?;
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn push(&self, pipes: &mut Pipes, id: PipeId) -> Result<(), NoMemory> {
        let mut start = 0;
        for &end in &self.ends {
            pipes.push(id, &Outgoing::Bytes(&self.bytes[start..end]), true)?;
            start = end;
        }
        Ok(())
    }
}
