//! What was read becomes messages in the incoming queue: decoding, parsing, commands.

use std::sync::atomic::Ordering;

use pinnace_ring::{Body, Intake, Refused, Verdict};
use pinnace_sys::Errno;
use pinnace_zmtp::Error;
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::sharing::Step;

use super::Link;
use super::codec::{Decoder, RAW_BYTES};
use crate::drops::Reason;
use crate::mailbox::Notice;
use crate::queue::Outlet;

/// Bytes of an incomplete frame that show that the peer is alive and sends it. Fewer may be PINGs of an idle peer,
/// taken for the body of a bogus frame.
const PROGRESS_BYTES: usize = 4 * 1024;

/// The incoming queue and, if only the newest message is kept, the outlet that empties it.
pub(super) struct Incoming {
    pub(super) intake: Intake,
    pub(super) outlet: Option<Box<Outlet>>,
    /// The peer's last step towards shared memory, not answered yet.
    pub(super) step: Option<Step>,
    /// Bytes of an incomplete frame since the peer was last heard of.
    dribbled: usize,
}

impl Incoming {
    pub(super) fn new(intake: Intake, outlet: Option<Box<Outlet>>) -> Incoming {
        Incoming { intake, outlet, step: None, dribbled: 0 }
    }
}

/// Buffers for input that has to be decoded.
pub(super) struct Decoding {
    pub(super) decoder: Decoder,
    pub(super) raw: Box<[u8]>,
    pub(super) frames: Vec<u8>,
    replies: Vec<u8>,
}

impl Decoding {
    pub(super) fn new(decoder: Decoder) -> Decoding {
        Decoding { decoder, raw: vec![0; RAW_BYTES].into(), frames: Vec::new(), replies: Vec::new() }
    }
}

impl Link {
    /// Takes in `bytes`, decoded from `taken` bytes of the wire. In pieces, so that the rest of a large body goes
    /// straight to its final place once its header is parsed.
    pub(super) fn feed_incoming(
        &self,
        incoming: &mut Incoming,
        bytes: &[u8],
        taken: usize,
        done: &mut Vec<Body>,
    ) -> Result<(), Errno> {
        for piece in bytes.chunks(RAW_BYTES) {
            incoming.intake.feed(piece).map_err(|_| Errno::NOMEM)?;
            self.after_read(incoming, 0, done)?;
        }
        self.after_read(incoming, taken, done)
    }

    /// Decodes bytes and takes in their frames.
    pub(super) fn decode(
        &self,
        decoding: &mut Decoding,
        raw: &mut [u8],
        incoming: &mut Incoming,
        done: &mut Vec<Body>,
    ) -> Result<(), Errno> {
        let Decoding { decoder, frames, replies, .. } = decoding;
        frames.clear();
        replies.clear();
        let decoded = decoder.decode(raw, frames, replies);
        if decoder.is_web() {
            self.heard(); // A WebSocket PONG leaves no frame.
        }
        if !replies.is_empty() {
            self.send_reply(replies, done);
        }
        self.feed_incoming(incoming, frames, raw.len(), done)?; // Frames before a violation are delivered.
        decoded
    }

    /// Parses what `taken` bytes of the wire brought. Bodies written out with an answer to the peer go to `done`.
    pub(super) fn after_read(
        &self,
        incoming: &mut Incoming,
        taken: usize,
        done: &mut Vec<Body>,
    ) -> Result<(), Errno> {
        let (mut answers, before, mut commands) = (Vec::new(), incoming.intake.whole_bytes(), 0);
        let step = &mut incoming.step;
        let parsed = incoming.intake.parse(|body| {
            commands += 1;
            self.note_step(body, step).unwrap_or_else(|| self.on_command(body, &mut answers))
        });
        incoming.dribbled += taken;
        if commands > 0 || incoming.intake.whole_bytes() != before || incoming.dribbled >= PROGRESS_BYTES {
            incoming.dribbled = 0;
            self.heard();
        }
        let passed = incoming.outlet.as_mut().map(|outlet| outlet.pass_on(done)).unwrap_or_default();
        self.mailbox.lost.add(Reason::Conflated, passed.replaced);
        self.mailbox.lost.add(Reason::NoMemory, passed.no_memory);
        match parsed {
            Ok(told) => {
                if told || passed.told {
                    self.mailbox.post(Notice::Readable(self.pipe));
                }
                // Answer after delivering the messages before the PING: a receipt tells the peer that they have
                // arrived.
                answers.iter().for_each(|answer| self.answer(answer, done));
                Ok(())
            }
            Err(refused) => {
                // Deliver the whole messages before the error. `parse` does not say whether the consumer is parked,
                // so always notify it.
                self.mailbox.post(Notice::Readable(self.pipe));
                Err(match refused {
                    Refused::TooLarge(_) | Refused::TooManyParts => Errno::MSGSIZE,
                    Refused::NoMemory => Errno::NOMEM,
                    Refused::CommandInsideMessage | Refused::Loan | Refused::Command(_) => Errno::PROTO,
                })
            }
        }
    }

    /// Handles a command. Appends answers to the peer to `answers`, as whole frames.
    fn on_command(&self, body: &[u8], answers: &mut Vec<Vec<u8>>) -> Result<Verdict, Error> {
        match command::parse(body)? {
            Command::Ping { context, ttl_ds } => {
                self.peer_ttl_ds.store(ttl_ds.into(), Ordering::Relaxed);
                if ttl_ds > 0 && self.begin_heartbeats() {
                    self.io.send(crate::io::Command::AwaitPeer(self.mailbox.clone(), self.pipe));
                }
                let mut pong = Vec::new();
                command::encode_pong(context, &mut pong);
                answers.push(pong);
            }
            Command::Subscribe(_) | Command::Cancel(_) if self.config.keeps_subscriptions => {
                return Ok(Verdict::Keep);
            }
            Command::Join(_) | Command::Leave(_) if self.config.keeps_groups => return Ok(Verdict::Keep),
            Command::Pong { context } => self.ponged(context),
            // Unknown commands are ignored, as in libzmq.
            _ => {}
        }
        Ok(Verdict::Drop)
    }
}
