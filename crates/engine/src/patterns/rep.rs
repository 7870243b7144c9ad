//! REP: strictly alternates between a request and its reply (RFC 28).
//!
//! Requests are fair-queued from the peers. The frames of a request up to and including the first empty one are the
//! return path: REP keeps them and sends them in front of the reply, to the peer that sent the request. A request
//! without an empty frame, or with nothing after it, is dropped and counted. So is a reply if its peer is gone or at
//! the high-water mark.

use pinnace_ring::{Frame, NoMemory};

use super::Pattern;
use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::Fair;

/// Capacity in bytes that the return path keeps between requests.
const KEPT_BYTES: usize = 64 * 1024;

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum RepState {
    #[default]
    Idle,
    /// The request's own frames are being received.
    Reading,
    Answering,
    /// More frames of the reply follow.
    Sending,
}

#[derive(Default)]
pub(super) struct Rep {
    fair: Fair,
    state: RepState,
    /// Destination of the reply; None: the reply is dropped.
    asker: Option<PipeId>,
    way_back: WayBack,
}

impl Rep {
    /// Advances past the envelope of the next request to its own frames. False if no request has arrived.
    fn find_request(&mut self, pipes: &mut Pipes) -> bool {
        while let Some(id) = self.fair.choose(pipes) {
            if self.read_envelope(pipes) {
                self.asker = Some(id);
                self.state = RepState::Reading;
                return true;
            }
            self.fair.skip_rest(pipes);
            pipes.count_drop(Some(id), Reason::Malformed, 1);
        }
        false
    }

    /// Reads the frames up to the empty one. False if none is empty with more frames after it, or if there is no
    /// memory to keep them.
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

    /// Sends the return path in front of the reply's own frames.
    fn begin(&mut self, pipes: &mut Pipes) -> Result<(), NoMemory> {
        let refused = self.asker.filter(|&id| !pipes.has_room(id));
        self.asker = self.asker.filter(|_| refused.is_none());
        match self.asker {
            None => {
                let full = refused.filter(|&id| pipes.get(id).is_some_and(|pipe| !pipe.ended));
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
        self.state = RepState::Sending;
        Ok(())
    }

    fn lose(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.asker != Some(id) {
            return;
        }
        self.asker = None;
        if self.state == RepState::Sending {
            pipes.count_drop(Some(id), Reason::PeerLost, 1);
        }
    }
}

impl Pattern for Rep {
    fn attached(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.state == RepState::Sending && self.asker == Some(id) {
            pipes.rollback(id);
        }
        self.lose(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.lose(pipes, id);
        self.fair.remove(id);
        if self.state == RepState::Reading && !self.fair.is_inside() {
            self.state = RepState::Idle;
        }
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        match self.state {
            RepState::Idle | RepState::Reading => return Err(Error::State),
            RepState::Answering => self.begin(pipes)?,
            RepState::Sending => {}
        }
        if let Some(id) = self.asker {
            pipes.push(id, frame, more)?;
            if !more {
                pipes.commit(id);
            }
        }
        if !more {
            self.asker = None;
            self.state = RepState::Idle;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        if self.state == RepState::Sending {
            self.asker.into_iter().for_each(|id| pipes.rollback(id));
            self.state = RepState::Answering;
        }
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if matches!(self.state, RepState::Answering | RepState::Sending) {
            return Err(Error::State);
        }
        if !self.can_recv(pipes) {
            return Err(Error::WouldBlock);
        }
        let (_, more) = self.fair.recv(pipes, sink)?;
        if !more {
            self.state = RepState::Answering;
        }
        Ok(more)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        matches!(self.state, RepState::Answering | RepState::Sending)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        match self.state {
            RepState::Idle => self.find_request(pipes),
            RepState::Reading => true,
            RepState::Answering | RepState::Sending => false,
        }
    }
}

/// The envelope frames of a request, which route its reply back.
#[derive(Default)]
struct WayBack {
    bytes: Vec<u8>,
    /// End offset of each frame in `bytes`.
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
