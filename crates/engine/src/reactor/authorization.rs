//! Authorization: the ZAP handler is asked while a handshake waits.
//!
//! Meanwhile nothing is read from the peer, and the kernel bounds what it may send. A disconnect is noticed at
//! once, so that peers that come and go leave nothing behind, however long the handler takes.

use std::sync::Arc;
use std::task::{Wake, Waker};

use pinnace_sys::Errno;
use pinnace_sys::poll::{Interest, has_ended};
use pinnace_zmtp::Decision;

use super::connecter::ConnecterState;
use super::session::{HandshakeFailure, Session};
use super::stage::Refusal;
use super::{Entry, Reactor};
use crate::authorization::{Answer, Inquiry};
use crate::error::Error;
use crate::io::{Command, Io};
use crate::transports;

/// A ZAP request that the I/O thread waits for. It has no descriptor, because the handler may keep the other end of
/// its socket for as long as it likes.
pub(super) struct Asked {
    of: Box<dyn Inquiry>,
    waker: Waker,
}

/// Tells the I/O thread that the handler may have answered for the handshake with this token.
struct Answered(Arc<Io>, u64);

impl Wake for Answered {
    fn wake(self: Arc<Self>) {
        self.0.send(Command::Answered(self.1));
    }
}

impl Session {
    /// Admits or refuses the peer, as the ZAP handler decides, or the options if there is no handler. False: the
    /// handler has not answered yet.
    pub(super) fn decide(&mut self, io: &Arc<Io>, token: u64) -> Result<bool, HandshakeFailure> {
        let Some(mut inquiry) = self.inquiry.take() else { return self.ask(io, token) };
        inquiry.of.wake_with(&inquiry.waker).map_err(not_asked)?;
        let answer = inquiry.of.answer().map_err(not_asked)?;
        let Some(answer) = answer else {
            if has_ended(&self.stream) {
                return Err(HandshakeFailure::Lost(Errno::CONNRESET));
            }
            self.inquiry = Some(inquiry);
            return Ok(false);
        };
        drop(inquiry);
        io.poller().modify(&self.stream, token, self.interest()).map_err(HandshakeFailure::Lost)?;
        match answer {
            Answer::Admitted(admission) => {
                self.admission = admission;
                self.admit().map(|()| true)
            }
            Answer::Refused(refusal) => {
                self.stage.authorize(Decision::Refuse(refusal))?;
                Ok(true)
            }
            Answer::Broken(code) => Err(HandshakeFailure::Refused(Refusal::Handler(code))),
        }
    }

    /// Asks the handler. Until it answers, the connection is polled only for a disconnect.
    fn ask(&mut self, io: &Arc<Io>, token: u64) -> Result<bool, HandshakeFailure> {
        let Some(request) = self.stage.authorization() else { return Ok(true) };
        let options = &self.owner.options;
        let address = transports::peer_address(&self.stream);
        let started = self.owner.authorizer.ask(options, &address, &request);
        let Some(inquiry) = started.map_err(not_asked)? else {
            if !options.security.admits_unasked() {
                return Err(HandshakeFailure::Refused(Refusal::System(Errno::FAULT)));
            }
            return self.admit().map(|()| true);
        };
        io.poller().modify(&self.stream, token, Interest::END).map_err(HandshakeFailure::Lost)?;
        let waker = Waker::from(Arc::new(Answered(io.clone(), token)));
        self.inquiry = Some(Asked { of: inquiry, waker });
        self.decide(io, token)
    }

    fn admit(&mut self) -> Result<(), HandshakeFailure> {
        self.stage.authorize(Decision::Accept)?;
        let early = std::mem::take(&mut self.behind.bytes);
        self.input(&early)
    }
}

impl Reactor {
    /// The handler may have answered. The handshake may be over, and another may use its token.
    pub(super) fn answered(&mut self, token: u64) {
        match self.entries.get(&token) {
            Some(Entry::Accepted(_)) => self.accepted_ready(token),
            Some(Entry::Connecter(connecter)) if matches!(connecter.state, ConnecterState::Shaking(_)) => {
                self.connecter_ready(token);
            }
            _ => {}
        }
    }
}

/// Why the handler could not be asked.
fn not_asked(error: Error) -> HandshakeFailure {
    let errno = match error {
        Error::Fault => Errno::FAULT,
        Error::NoMemory => Errno::NOMEM,
        Error::TooManySockets => Errno::MFILE,
        Error::System(number) => Errno::from_raw_os_error(number),
        _ => return HandshakeFailure::Lost(Errno::CANCELED), // The context is being terminated.
    };
    HandshakeFailure::Refused(Refusal::System(errno))
}
