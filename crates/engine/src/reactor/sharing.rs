//! The last stage of a local connection between two of us: they agree whether its messages go through shared memory.
//!
//! Whoever connected offers. Whatever keeps either side from it, the connection goes on over its socket, and
//! [`Carrier`] says why.

use pinnace_ring::{Half, Incoming, Outgoing, RING_MAX, shared};
use pinnace_sys::memory::{Memory, Refused};
use pinnace_sys::{AsFd, BorrowedFd, OwnedFd, net, process};
use pinnace_zmtp::Handshake;
use pinnace_zmtp::sharing::{self, Step};

use super::session::Side;
use super::stage::Refusal;
use crate::link::{Because, Carrier};
use crate::options::Options;

/// Whether a connection may go through shared memory, as far as it is ours to say.
pub(super) fn may_share(fd: &impl AsFd, options: &Options) -> Result<(), Because> {
    let Some(peer) = net::peer_process(fd) else { return Err(Because::Remote) };
    match options.shared_memory {
        0 => Err(Because::Off),
        _ if options.security.is_curve() => Err(Because::Secured),
        1 if peer.uid != process::user() => Err(Because::User),
        _ => Ok(()),
    }
}

/// What the two have agreed on.
pub(super) struct Agreed {
    pub(super) carrier: Carrier,
    pub(super) memory: Option<(Outgoing, Incoming)>,
}

/// The agreement in progress.
pub(super) struct Sharing {
    /// The stage before, which is done.
    pub(super) handshake: Box<Handshake>,
    output: Vec<u8>,
    /// What goes with the output.
    passing: Option<OwnedFd>,
    input: Vec<u8>,
    ours: Option<Half>,
    theirs: Option<Half>,
    side: Side,
    agreed: Option<Carrier>,
}

impl Sharing {
    pub(super) fn new(handshake: Box<Handshake>, side: Side) -> Sharing {
        let (output, input) = (Vec::new(), Vec::new());
        let mut sharing =
            Sharing { handshake, output, passing: None, input, ours: None, theirs: None, side, agreed: None };
        if side == Side::Connected {
            sharing.give(Step::Offer);
        }
        sharing
    }

    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// What is to be passed along with the output's first byte.
    pub(super) fn passing(&self) -> Option<BorrowedFd<'_>> {
        self.passing.as_ref().map(|fd| fd.as_fd())
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes);
        self.passing = None;
    }

    pub(super) fn is_done(&self) -> bool {
        self.agreed.is_some()
    }

    /// What was to be passed along cannot be: it is not offered, and nothing is written of what said so.
    pub(super) fn withdraw(&mut self) {
        self.output.clear();
        self.passing = None;
        self.decline(Because::NoMemory);
    }

    /// Takes what the peer says, and what it has `passed` along; returns how many bytes that were.
    pub(super) fn input(&mut self, bytes: &[u8], passed: &mut Option<OwnedFd>) -> Result<usize, Refusal> {
        let before = self.input.len();
        self.input.extend_from_slice(bytes);
        let mut taken = 0;
        while self.agreed.is_none() {
            let Some((step, len)) = sharing::parse(&self.input[taken..]).map_err(Refusal::Zmtp)? else {
                break;
            };
            taken += len;
            self.step(step, passed.take())?;
        }
        let of_these = if self.agreed.is_some() { taken - before } else { bytes.len() };
        self.input.drain(..taken);
        Ok(of_these)
    }

    fn step(&mut self, step: Step, passed: Option<OwnedFd>) -> Result<(), Refusal> {
        match (step, self.side) {
            (Step::Offer, Side::Accepted) if self.theirs.is_none() => match open(passed) {
                Ok(theirs) => {
                    self.theirs = Some(theirs);
                    self.give(Step::Accept);
                }
                Err(because) => self.decline(because),
            },
            (Step::Accept, Side::Connected) if self.ours.is_some() => match open(passed) {
                Ok(theirs) => {
                    self.theirs = Some(theirs);
                    sharing::encode(Step::Go, &mut self.output);
                    self.agreed = Some(Carrier::Memory);
                }
                Err(because) => self.decline(because),
            },
            (Step::Go, Side::Accepted) if self.ours.is_some() => self.agreed = Some(Carrier::Memory),
            (Step::Decline, _) => self.agreed = Some(Carrier::Socket(Because::Declined)),
            _ => return Err(Refusal::Zmtp(sharing::out_of_turn())),
        }
        Ok(())
    }

    /// Makes our memory, and says so.
    fn give(&mut self, step: Step) {
        match Memory::create(Half::size(RING_MAX)) {
            Ok((memory, fd)) => {
                sharing::encode(step, &mut self.output);
                (self.ours, self.passing) = (Half::new(memory), Some(fd));
            }
            Err(Refused::Full) => self.decline(Because::Full),
            Err(_) => self.decline(Because::NoMemory),
        }
    }

    fn decline(&mut self, because: Because) {
        sharing::encode(Step::Decline, &mut self.output);
        self.agreed = Some(Carrier::Socket(because));
    }

    /// Once it is done.
    pub(super) fn take_agreed(&mut self) -> Agreed {
        let carrier = self.agreed.unwrap_or(Carrier::Socket(Because::Declined));
        let memory = match (carrier, self.ours.take(), self.theirs.take()) {
            (Carrier::Memory, Some(ours), Some(theirs)) => Some(shared(ours, theirs)),
            _ => None,
        };
        Agreed { carrier, memory }
    }
}

/// The peer's memory, if it can do us no harm.
fn open(passed: Option<OwnedFd>) -> Result<Half, Because> {
    match Memory::open(&passed.ok_or(Because::Unfit)?, Half::is_size) {
        Ok(memory) => Half::new(memory).ok_or(Because::Unfit),
        Err(Refused::Full) => Err(Because::Full),
        Err(Refused::System(_)) => Err(Because::NoMemory),
        Err(Refused::Unsealed | Refused::Size(_)) => Err(Because::Unfit),
    }
}
