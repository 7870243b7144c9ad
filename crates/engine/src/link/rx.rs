//! The way in of a link: from the kernel to the incoming queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_ring::{Intake, Limits, Producer, Refused, Verdict};
use pinnace_sys::{Errno, OwnedFd, net};
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::{Error, Version};

use super::v1::FromV1;
use super::{Link, STREAMING_BYTES, clock};
use crate::hub::Mail;
use crate::pipe::Pipe;

/// Bytes that one call reads at most, so that nobody is held up for long.
const ROUND_BYTES: usize = 512 * 1024;

pub(super) struct Rx {
    fd: Option<Arc<OwnedFd>>,
    intake: Option<Intake>,
    from_v1: Option<(FromV1, Vec<u8>)>,
    /// The queue is at its mark; its consumer reads on when it has made room.
    stalled: bool,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Bytes.
    Some,
    /// Nothing: EAGAIN.
    None,
    /// The queue is full, or the connection has ended.
    Stopped,
}

impl Rx {
    pub(super) fn new(fd: Arc<OwnedFd>, intake: Intake, version: Version) -> Rx {
        let from_v1 = version.uses_v1_framing().then(Default::default);
        Rx { fd: Some(fd), intake: Some(intake), from_v1, stalled: false }
    }

    fn take(&mut self) -> Option<Producer> {
        Some(self.intake.take()?.into_queue())
    }

    /// Makes the incoming queue small, where it is idle.
    pub(super) fn shrink(&mut self, pipe: &mut Pipe) -> bool {
        self.intake.as_mut().is_none_or(|intake| intake.queue().shrink(&mut pipe.rx))
    }

    /// Nothing more is read.
    pub(super) fn end(&mut self) -> Option<Producer> {
        self.fd = None;
        self.take()
    }
}

impl Link {
    /// Reads what is there, as far as the queue has room for it.
    pub(crate) fn read(&self) -> ReadOutcome {
        let mut rx = self.rx.lock();
        let mut left = ROUND_BYTES;
        let mut outcome = ReadOutcome::None;
        while left > 0 && !self.is_broken() {
            let Some(intake) = &mut rx.intake else { return ReadOutcome::Stopped };
            let messages = self.hub.marks.receive.load(Ordering::Relaxed).into();
            intake.queue().set_limits(Limits { messages, ahead_bytes: 0 });
            if !intake.queue().has_room() && !intake.queue().want_room() {
                if !std::mem::replace(&mut rx.stalled, true) {
                    self.watch_for(|watching| watching.read = false);
                }
                return ReadOutcome::Stopped;
            }
            let (taken, room) = match self.read_once(&mut rx) {
                Ok(found) => found,
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.fail();
                    return ReadOutcome::Stopped;
                }
            };
            outcome = ReadOutcome::Some;
            // The next read finds something too, where this one found much.
            self.read_pays.store(taken >= STREAMING_BYTES, Ordering::Relaxed);
            self.moved(taken);
            left = left.saturating_sub(taken);
            if taken < room {
                break;
            }
        }
        if std::mem::take(&mut rx.stalled) {
            self.watch_for(|watching| watching.read = true);
        }
        outcome
    }

    /// Reads what a full queue has left unread. A link that has not joined has read nothing yet: what came
    /// behind its handshake comes first.
    pub(crate) fn read_on(&self) {
        if self.token.get().is_some() {
            self.read();
        }
    }

    /// Whether to read before being told that there is something to read.
    pub(crate) fn reading_pays(&self) -> bool {
        self.read_pays.load(Ordering::Relaxed)
    }

    /// Reads for a receiver that has nothing: if that finds nothing, the next one waits to be told.
    pub(crate) fn try_read(&self) {
        if self.read() != ReadOutcome::Some {
            self.read_pays.store(false, Ordering::Relaxed);
        }
    }

    /// One system call: how many bytes it gave, and how many it could have given.
    fn read_once(&self, rx: &mut Rx) -> Result<(usize, usize), Errno> {
        let (Some(fd), Some(intake)) = (&rx.fd, &mut rx.intake) else { return Err(Errno::AGAIN) };
        if let Some((from_v1, buffer)) = &mut rx.from_v1 {
            let mut raw = [0; 4096];
            let taken = net::read(fd, &mut raw, &mut [])?;
            buffer.clear();
            let fed = from_v1.translate(&raw[..taken], buffer).is_ok() && intake.feed(buffer).is_ok();
            if !fed || taken == 0 {
                return Err(Errno::PROTO);
            }
            self.after_read(intake)?;
            return Ok((taken, raw.len()));
        }
        let (first, second) = intake.space().map_err(|_| Errno::NOMEM)?;
        let room = first.len() + second.len();
        let taken = net::read(fd, first, second)?;
        if taken == 0 {
            return Err(Errno::PIPE);
        }
        intake.filled(taken);
        self.after_read(intake)?;
        Ok((taken, room))
    }

    /// Bytes that came behind the handshake.
    pub(crate) fn feed(&self, bytes: &[u8]) {
        let mut rx = self.rx.lock();
        let rx = &mut *rx;
        let Some(intake) = &mut rx.intake else { return };
        let fed = match &mut rx.from_v1 {
            Some((from_v1, buffer)) => {
                buffer.clear();
                from_v1.translate(bytes, buffer).is_ok() && intake.feed(buffer).is_ok()
            }
            None => intake.feed(bytes).is_ok(),
        };
        if !fed || self.after_read(intake).is_err() {
            self.fail();
        }
    }

    fn after_read(&self, intake: &mut Intake) -> Result<(), Errno> {
        self.last_read.store(clock(), Ordering::Relaxed);
        match intake.parse(|body| self.on_command(body)) {
            Ok(told) => {
                if told {
                    self.hub.post(Mail::Readable(self.pipe));
                }
                Ok(())
            }
            Err(refused) => {
                // Whole messages before it are delivered; a consumer that is parked looks again when the pipe
                // ends.
                self.hub.post(Mail::Readable(self.pipe));
                Err(match refused {
                    Refused::TooLarge(_) | Refused::TooManyParts => Errno::MSGSIZE,
                    Refused::NoMemory => Errno::NOMEM,
                    Refused::CommandInsideMessage | Refused::Command(_) => Errno::PROTO,
                })
            }
        }
    }

    fn on_command(&self, body: &[u8]) -> Result<Verdict, Error> {
        match command::parse(body)? {
            Command::Ping { context, ttl_ds } => {
                if self.peer_ttl_ds.swap(ttl_ds.into(), Ordering::Relaxed) == 0 && ttl_ds > 0 {
                    self.io.send(crate::reactor::Command::AwaitPeer(self.hub.clone(), self.pipe));
                }
                let mut pong = Vec::new();
                command::encode_pong(context, &mut pong);
                self.send_control(&pong);
            }
            Command::Subscribe(_) | Command::Cancel(_) if self.config.keeps_subscriptions => {
                return Ok(Verdict::Keep);
            }
            // PONG has done its work by being read; what nobody knows is passed over, as libzmq does.
            _ => {}
        }
        Ok(Verdict::Drop)
    }

    /// Nothing more is taken in; what came in before stays to be received.
    pub(super) fn stop_reading(&self) {
        if self.rx.lock().take().is_some() {
            self.watch_for(|watching| watching.read = false);
        }
    }

    /// Whether bytes wait that the queue has no room for.
    pub(crate) fn has_unread(&self) -> bool {
        self.rx.lock().fd.as_ref().is_some_and(|fd| net::unread(fd) > 0)
    }

    /// Reads and drops what is there. True: the peer has ended its side.
    pub(super) fn discard_input(&self) -> bool {
        let mut sink = [0; 16 * 1024];
        let rx = self.rx.lock();
        let Some(fd) = &rx.fd else { return true };
        for _ in 0..64 {
            match net::read(fd, &mut sink, &mut []) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
        false
    }
}
