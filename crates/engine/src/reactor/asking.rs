//! Who may come in: the handler of ZAP is asked while a handshake waits.
//!
//! Nothing is read from the peer meanwhile, and the kernel bounds what it may send. Its end is noticed at once, so that
//! peers that come and go leave nothing behind however long the handler takes.

use std::sync::Arc;
use std::task::{Wake, Waker};

use pinnace_sys::Errno;
use pinnace_sys::poll::{Interest, has_ended};
use pinnace_zmtp::Decision;

use super::connecter::State;
use super::session::{Failure, Session};
use super::stage::Refusal;
use super::{Command, Entry, Io, Reactor};
use crate::error::Error;
use crate::socket::Place;
use crate::transports;
use crate::zap::{Answer, Inquiry};

/// A question whose answer the I/O thread waits for. It has no descriptor: the handler may keep the other end of its
/// socket for as long as it likes.
pub(super) struct Asked {
    of: Inquiry,
    waker: Waker,
    place: Option<Place>,
}

/// Tells the I/O thread that the answer may be there for the handshake of this token.
struct Answered(Arc<Io>, u64);

impl Wake for Answered {
    fn wake(self: Arc<Self>) {
        self.0.send(Command::Answered(self.1));
    }
}

impl Session {
    /// Lets the peer in or not, as the handler of ZAP says, or the options where there is none. False: it has not
    /// answered yet.
    pub(super) fn decide(&mut self, io: &Arc<Io>, token: u64) -> Result<bool, Failure> {
        let Some(mut inquiry) = self.inquiry.take() else { return self.ask(io, token) };
        inquiry.of.wake_with(&inquiry.waker, &mut inquiry.place).map_err(not_asked)?;
        let answer = inquiry.of.answer().map_err(not_asked)?;
        let Some(answer) = answer else {
            if has_ended(&self.stream) {
                return Err(Failure::Lost(Errno::CONNRESET));
            }
            self.inquiry = Some(inquiry);
            return Ok(false);
        };
        drop(inquiry);
        io.poller().modify(&self.stream, token, self.interest()).map_err(Failure::Lost)?;
        match answer {
            Answer::Admitted(admission) => {
                self.admission = admission;
                self.admit().map(|()| true)
            }
            Answer::Refused(refusal) => {
                self.stage.authorize(Decision::Refuse(refusal))?;
                Ok(true)
            }
            Answer::Broken(code) => Err(Failure::Refused(Refusal::Handler(code))),
        }
    }

    /// Asks the handler. Until it answers the connection is watched for its end alone.
    fn ask(&mut self, io: &Arc<Io>, token: u64) -> Result<bool, Failure> {
        let Some(request) = self.stage.authorization() else { return Ok(true) };
        let (context, options) = (&self.owner.context, &self.owner.options);
        let address = transports::peer_address(&self.stream);
        let started = Inquiry::start(context, options, &address, &request);
        let Some(inquiry) = started.map_err(not_asked)? else {
            if !options.security.admits_unasked() {
                return Err(Failure::Refused(Refusal::System(Errno::FAULT)));
            }
            return self.admit().map(|()| true);
        };
        io.poller().modify(&self.stream, token, Interest::END).map_err(Failure::Lost)?;
        let waker = Waker::from(Arc::new(Answered(io.clone(), token)));
        self.inquiry = Some(Asked { of: inquiry, waker, place: None });
        self.decide(io, token)
    }

    fn admit(&mut self) -> Result<(), Failure> {
        self.stage.authorize(Decision::Accept)?;
        let early = std::mem::take(&mut self.behind.bytes);
        self.input(&early)
    }
}

impl Reactor {
    /// A handshake's answer may be there. The handshake may be over, and another have begun.
    pub(super) fn answered(&mut self, token: u64) {
        match self.entries.get(&token) {
            Some(Entry::Accepted(_)) => self.accepted_ready(token),
            Some(Entry::Connecter(connecter)) if matches!(connecter.state, State::Shaking(_)) => {
                self.connecter_ready(token);
            }
            _ => {}
        }
    }
}

/// Why nobody could be asked who may come in.
fn not_asked(error: Error) -> Failure {
    let errno = match error {
        Error::Fault => Errno::FAULT,
        Error::NoMemory => Errno::NOMEM,
        Error::TooManySockets => Errno::MFILE,
        Error::System(number) => Errno::from_raw_os_error(number),
        _ => return Failure::Lost(Errno::CANCELED), // The context ends.
    };
    Failure::Refused(Refusal::System(errno))
}
