//! How a local connection between two Pinnace peers switches from its socket to shared memory.
//!
//! Shared memory costs more to set up than a short connection costs in all, and takes address space. So messages go
//! over the socket until the side that connected has moved [`DUE`]. Then the peers negotiate between messages
//! (`zmtp::sharing`), and each direction switches by itself, after its GO:
//!
//! ```text
//!              the side that connected      the side that accepted
//! ACCEPT came  writes memory behind its GO
//! GO came      reads memory                 reads memory, writes memory behind its GO
//! ```
//! After a direction has switched, the bytes on its socket are only wake-ups. The side that connected writes to
//! memory before its peer can send wake-ups. If the ring is full in that state, the link writes again when the peer's
//! GO comes. GO may be late, behind messages that the application does not receive, so the I/O thread also writes
//! again after a pause.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use pinnace_ring::{Body, Half, RING_MAX, Taking, Verdict, shared};
use pinnace_sys::memory::{Memory, Refused};
use pinnace_sys::{Errno, OwnedFd, net};
use pinnace_zmtp::Error;
use pinnace_zmtp::sharing::{self, Step};

use super::Link;
use super::rx::Rx;
use super::shared::SharedStream;
use super::tx::Tx;
use crate::io::Command;
use crate::mailbox::Notice;
use crate::medium::{FallbackReason, Medium};

/// The number of reads and writes of the socket, plus the KiB that they moved, after which a connection switches.
const DUE: i64 = 64;
/// A count that never reaches 0: this side does not offer memory.
const NEVER: i64 = i64::MIN;

/// The first pause before the I/O thread writes to a full ring again, and how many times the pause is doubled.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const DOUBLED: u32 = 4;

/// A bit of `Switch::directions`: incoming bytes go through memory.
const READS: u8 = 1;
/// A bit of `Switch::directions`: outgoing bytes go through memory.
const WRITES: u8 = 2;

/// The state of the switch, shared by the link and its stream.
#[derive(Debug)]
pub(super) struct Switch {
    /// Our side offers memory.
    offers: bool,
    /// Counts from -`DUE` up; memory is offered when the count reaches 0. `NEVER`: it is not offered.
    moved: AtomicI64,
    offered: AtomicBool,
    /// The directions that go through memory: `READS`, `WRITES`.
    directions: AtomicU8,
    /// How many times the I/O thread was asked to write to a full ring again.
    retries: AtomicU32,
    medium: Mutex<Medium>,
}

/// The socket and the memory of a connection that may switch.
pub(super) struct Local {
    pub(super) switch: Arc<Switch>,
    agreement: Mutex<Agreement>,
    memory: OnceLock<SharedStream>,
}

/// The memory exchanged so far.
#[derive(Default)]
struct Agreement {
    /// A descriptor that the peer has passed.
    passed: Option<OwnedFd>,
    ours: Option<Half>,
    theirs: Option<Half>,
}

/// A step of the negotiation, written as a frame of its own.
pub(super) struct StepFrame {
    frame: Vec<u8>,
    sent: usize,
    /// The descriptor passed with the frame's first byte.
    passing: Option<OwnedFd>,
    /// The step is GO: nothing follows on the socket.
    is_last: bool,
}

impl Switch {
    fn directions(&self) -> u8 {
        self.directions.load(Ordering::Acquire)
    }

    pub(super) fn reads_memory(&self) -> bool {
        self.directions() & READS != 0
    }

    pub(super) fn writes_memory(&self) -> bool {
        self.directions() & WRITES != 0
    }

    pub(super) fn is_complete(&self) -> bool {
        self.directions() == READS | WRITES
    }

    /// The connection has moved enough to be worth shared memory, which was not offered yet.
    pub(super) fn is_due(&self) -> bool {
        self.moved.load(Ordering::Relaxed) >= 0
    }

    fn moved(&self, bytes: usize) {
        self.moved.fetch_add(1 + (bytes >> 10) as i64, Ordering::Relaxed);
    }

    /// Records that one direction has switched. True: now both have.
    fn switched(&self, direction: u8) -> bool {
        let is_complete = self.directions.fetch_or(direction, Ordering::SeqCst) | direction == READS | WRITES;
        if is_complete {
            *self.medium.lock() = Medium::Memory;
        }
        is_complete
    }
}

impl Local {
    /// `offers`: our side connected. `passed`: a descriptor that came with the handshake.
    pub(super) fn new(offers: bool, passed: Option<OwnedFd>) -> Local {
        let switch = Switch {
            offers,
            moved: AtomicI64::new(if offers { -DUE } else { NEVER }),
            offered: AtomicBool::new(false),
            directions: AtomicU8::new(0),
            retries: AtomicU32::new(0),
            medium: Mutex::new(Medium::Socket(FallbackReason::Brief)),
        };
        let agreement = Mutex::new(Agreement { passed, ..Agreement::default() });
        Local { switch: Arc::new(switch), agreement, memory: OnceLock::new() }
    }

    /// The memory, if incoming bytes go through it.
    #[inline]
    pub(super) fn reader(&self) -> Option<&SharedStream> {
        if self.switch.reads_memory() { self.memory.get() } else { None }
    }

    /// The memory, if outgoing bytes go through it.
    #[inline]
    pub(super) fn writer(&self) -> Option<&SharedStream> {
        if self.switch.writes_memory() { self.memory.get() } else { None }
    }

    /// The memory, if both directions go through it.
    #[inline]
    pub(super) fn whole(&self) -> Option<&SharedStream> {
        if self.switch.is_complete() { self.memory.get() } else { None }
    }

    #[inline]
    pub(super) fn read(&self, fd: &OwnedFd, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        if let Some(memory) = self.reader() {
            return memory.read(fd, first, second);
        }
        let (taken, passed) = net::read_passed(fd, first, second)?;
        if passed.is_some() {
            self.agreement.lock().passed = passed;
        }
        self.switch.moved(taken);
        Ok(taken)
    }

    #[inline]
    pub(super) fn write(&self, fd: &OwnedFd, slices: &[std::io::IoSlice<'_>]) -> Result<usize, Errno> {
        if let Some(memory) = self.writer() {
            return memory.write(fd, slices, self.switch.reads_memory());
        }
        let taken = net::write(fd, slices)?;
        self.switch.moved(taken);
        Ok(taken)
    }

    /// Prevents a later offer of memory.
    pub(super) fn never_offer(&self) {
        self.switch.moved.store(NEVER, Ordering::Relaxed);
    }

    /// The connection keeps its socket.
    fn keep_socket(&self, reason: FallbackReason) {
        *self.switch.medium.lock() = Medium::Socket(reason);
        *self.agreement.lock() = Agreement::default();
    }

    fn decline(&self, reason: FallbackReason) -> StepFrame {
        self.keep_socket(reason);
        StepFrame::new(Step::Decline, None)
    }

    /// Creates our memory, and the step that passes its descriptor.
    fn create_memory(&self, step: Step) -> Result<StepFrame, FallbackReason> {
        let (memory, fd) = Memory::create(Half::size(RING_MAX)).map_err(|refused| match refused {
            Refused::TooManyMappings => FallbackReason::Full,
            _ => FallbackReason::NoMemory,
        })?;
        self.agreement.lock().ours = Half::new(memory);
        Ok(StepFrame::new(step, Some(fd)))
    }

    /// Maps the peer's memory, if its size and seals are as agreed.
    fn open(&self) -> Result<(), FallbackReason> {
        let passed = self.agreement.lock().passed.take().ok_or(FallbackReason::Unfit)?;
        let memory = Memory::open(&passed, Half::is_size).map_err(|refused| match refused {
            Refused::TooManyMappings => FallbackReason::Full,
            Refused::System(_) => FallbackReason::NoMemory,
            Refused::Unsealed | Refused::Size(_) => FallbackReason::Unfit,
        })?;
        self.agreement.lock().theirs = Some(Half::new(memory).ok_or(FallbackReason::Unfit)?);
        Ok(())
    }

    /// Makes the shared stream of both sides' memory. False: one of the two is missing.
    fn build_stream(&self, fd: &OwnedFd) -> bool {
        let mut agreement = self.agreement.lock();
        let (Some(ours), Some(theirs)) = (agreement.ours.take(), agreement.theirs.take()) else {
            return false;
        };
        self.memory.set(SharedStream::new(fd, shared(ours, theirs))).is_ok()
    }

    /// Our answer to the peer's step. Errors: PROTO, the step is out of turn.
    fn answer(&self, step: Step, fd: &OwnedFd) -> Result<Option<StepFrame>, Errno> {
        let switch = &self.switch;
        let has_ours = self.agreement.lock().ours.is_some();
        let is_first = !switch.offered.load(Ordering::Relaxed);
        match step {
            Step::Offer if !switch.offers && is_first => {
                switch.offered.store(true, Ordering::Relaxed);
                let given = self.open().and_then(|()| self.create_memory(Step::Accept));
                Ok(Some(given.unwrap_or_else(|reason| self.decline(reason))))
            }
            Step::Accept if switch.offers && has_ours => Ok(Some(match self.open() {
                Ok(()) if self.build_stream(fd) => StepFrame::new(Step::Go, None),
                Ok(()) => self.decline(FallbackReason::Unfit),
                Err(reason) => self.decline(reason),
            })),
            Step::Go if switch.offers && self.memory.get().is_some() && !switch.reads_memory() => Ok(None),
            Step::Go if !switch.offers && has_ours && self.build_stream(fd) => {
                Ok(Some(StepFrame::new(Step::Go, None)))
            }
            Step::Decline if has_ours || !switch.offers && is_first => {
                switch.offered.store(true, Ordering::Relaxed);
                self.keep_socket(FallbackReason::Declined);
                Ok(None)
            }
            _ => Err(Errno::PROTO),
        }
    }
}

impl StepFrame {
    fn new(step: Step, passing: Option<OwnedFd>) -> StepFrame {
        let mut frame = Vec::new();
        sharing::encode(step, &mut frame);
        StepFrame { frame, sent: 0, passing, is_last: step == Step::Go }
    }

    /// Whether part of it was written.
    pub(super) fn is_begun(&self) -> bool {
        self.sent > 0
    }
}

impl Link {
    /// Offers memory.
    pub(super) fn offer(&self, tx: &mut Tx) {
        let Some(local) = tx.stream.as_ref().and_then(|stream| stream.local()) else { return };
        local.switch.offered.store(true, Ordering::Relaxed);
        local.never_offer();
        match local.create_memory(Step::Offer) {
            Ok(step_frame) => tx.step = Some(step_frame),
            Err(reason) => local.keep_socket(reason),
        }
    }

    /// Writes the pending step, if there is one. Returns the error if the step is still pending.
    pub(super) fn write_step(&self, tx: &mut Tx) -> Option<Errno> {
        let (Some(stream), Some(step_frame)) = (&tx.stream, &mut tx.step) else { return None };
        let rest = &step_frame.frame[step_frame.sent..];
        let written = match &step_frame.passing {
            Some(passing) => net::write_passing(stream, rest, passing),
            None => net::write(stream, &[std::io::IoSlice::new(rest)]),
        };
        match written {
            Ok(taken) => step_frame.sent += taken,
            // Too many descriptors are in flight (unix(7)), or there is no memory.
            Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) if step_frame.passing.is_some() => {
                let declined = stream
                    .local()
                    .map(|local| (local.switch.offers, local.decline(FallbackReason::NoMemory)));
                // An offer that was never sent need not be withdrawn.
                tx.step = declined.filter(|(offers, _)| !offers).map(|(_, step_frame)| step_frame);
                return if tx.step.is_some() { self.write_step(tx) } else { None };
            }
            Err(error) => return Some(error),
        }
        step_frame.passing = None;
        if step_frame.sent < step_frame.frame.len() {
            return Some(Errno::AGAIN);
        }
        let is_last = step_frame.is_last;
        tx.step = None;
        if let Some(local) = stream.local().filter(|_| is_last) {
            if local.switch.switched(WRITES) {
                tx.lend();
                self.switched();
            } else {
                self.set_interest(|registration| registration.write = false); // Room in memory has no event.
            }
        }
        None
    }

    /// Stores a step for `take_step`. None: the command is no step.
    pub(super) fn note_step(&self, body: &[u8], noted: &mut Option<Step>) -> Option<Result<Verdict, Error>> {
        let step = sharing::parse(body).filter(|_| self.switch.is_some())?;
        Some(match step {
            Ok(_) if noted.is_some() => Err(sharing::out_of_turn()),
            Ok(step) => Ok(if *noted.insert(step) == Step::Go { Verdict::Last } else { Verdict::Drop }),
            Err(error) => Err(error),
        })
    }

    /// Acts on the peer's step.
    pub(super) fn take_step(&self, rx: &mut Rx, done: &mut Vec<Body>) -> Result<(), Errno> {
        let (Some(stream), Some(incoming)) = (&rx.stream, &mut rx.incoming) else { return Ok(()) };
        let (Some(step), Some(local)) = (incoming.step.take(), stream.local()) else { return Ok(()) };
        let step_frame = local.answer(step, stream.descriptor())?;
        if step == Step::Go
            && let Some(memory) = local.memory.get()
        {
            let doorbell = Arc::downgrade(stream);
            let wake = move || doorbell.upgrade().iter().for_each(|stream| stream.ring());
            let taking = if incoming.outlet.is_none() { self.config.taking } else { Taking::AtOnce };
            incoming.intake.borrow_by(memory.borrower(taking, Box::new(wake)));
            if local.switch.switched(READS) {
                self.tx.lock().lend();
                self.switched();
                self.write_out(done); // The peer reports room from now on, if asked.
            } else {
                self.reregister(); // Bytes on the socket are now wake-ups.
            }
        }
        if let Some(step_frame) = step_frame {
            self.tx.lock().step = Some(step_frame);
            if !self.is_blocked() {
                self.write_out(done);
            }
        }
        Ok(())
    }

    /// Both directions go through memory.
    fn switched(&self) {
        self.reregister();
        self.mailbox.post(Notice::SwitchedToMemory(self.pipe));
    }

    /// What carries the messages now.
    pub(crate) fn medium(&self) -> Medium {
        self.switch.as_ref().map_or(self.config.medium, |switch| *switch.medium.lock())
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.switch.as_ref().is_some_and(|switch| switch.is_complete())
    }

    /// Whether incoming bytes come through memory.
    pub(crate) fn reads_memory(&self) -> bool {
        self.switch.as_ref().is_some_and(|switch| switch.reads_memory())
    }

    /// Whether outgoing bytes go through memory.
    pub(super) fn writes_memory(&self) -> bool {
        self.switch.as_ref().is_some_and(|switch| switch.writes_memory())
    }

    /// Has the I/O thread write again after a pause, which grows each time.
    pub(super) fn retry_later(&self) {
        let Some(switch) = &self.switch else { return };
        let retries = switch.retries.fetch_add(1, Ordering::Relaxed);
        let pause = FIRST_PAUSE * (1 << retries.min(DOUBLED));
        self.io.send(Command::TryLater(self.io_token, pause));
    }

    /// Writes again if the peer cannot send wake-ups yet.
    pub(crate) fn try_again(&self) {
        if self.is_half_switched() {
            self.flush();
        }
    }

    /// Whether outgoing bytes go through memory while the peer cannot send wake-ups yet.
    pub(super) fn is_half_switched(&self) -> bool {
        self.switch.as_ref().is_some_and(|switch| switch.directions() == WRITES)
    }
}
