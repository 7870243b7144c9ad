//! Messages in the packets of a reliable multicast (pgm://, epgm://). PUB and XPUB only send, SUB and XSUB only
//! receive. A subscriber's subscriptions are not sent: it filters what it receives.
//!
//! Each sender's packets are reassembled separately, and a message enters the queue when it is complete. An
//! unrecoverable loss costs the messages that it cuts. How many messages a gap held is unknown, so a gap counts as
//! one.

use std::collections::HashMap;

use pinnace_ring::{Body, Consumer, Intake, MAX_PARTS};
use pinnace_sys::Errno;
use pinnace_sys::pgm::{Received, Tsi};
use pinnace_zmtp::frame::{COMMAND, MORE};
use pinnace_zmtp::pgm::{Assembler, AssemblerLimits, Packer, Refused};

use super::Stream;
use crate::drops::Reason;

/// Senders known at once; beyond that, the sender that was silent for longest is forgotten.
const SENDERS_MAX: usize = 1024;
/// The largest incomplete message of a sender, in bytes: MESSAGE_BODIES of its largest frames, at least MESSAGE_MIN.
const MESSAGE_BODIES: u64 = 64;
const MESSAGE_MIN: u64 = 16 << 20;
/// Cost of a packet to the round's byte budget, besides its bytes.
const PACKET_COST: usize = 256;

/// Sends messages as packets. None: the link only receives.
pub(super) struct MulticastWriter(Option<Packer>);

/// Receives packets as messages.
#[derive(Default)]
pub(super) struct MulticastReader {
    senders: HashMap<Tsi, Sender>,
    /// Number of packets received.
    packets: u64,
    packet: Vec<u8>,
    frames: Vec<u8>,
}

struct Sender {
    assembler: Assembler,
    /// Its last packet: the sender's sequence number, and `packets` at that time.
    number: u32,
    last: u64,
}

impl MulticastWriter {
    /// For packets with at most this many bytes of data.
    pub(super) fn new(max_data: Option<usize>) -> MulticastWriter {
        MulticastWriter(max_data.map(Packer::new))
    }

    /// Sends the next packet of the queue. None: the queue is empty. Otherwise the cost in bytes, or EAGAIN.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        queue: &mut Consumer,
        done: &mut Vec<Body>,
        mut lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        let (Some(packer), Some(socket)) = (&mut self.0, stream.packets()) else {
            let mut next = None;
            queue.show_frames(|flags, _| {
                next = Some(flags);
                false
            });
            if next? & (COMMAND | MORE) == 0 {
                lost(Reason::Unwanted);
            }
            queue.pass_frames(1, done);
            return Some(Ok(PACKET_COST));
        };
        if packer.apdu().is_none() {
            let mut is_command = false;
            queue.show_frames(|flags, body| {
                is_command = flags & COMMAND != 0;
                !is_command && packer.push(flags, body)
            });
            if is_command && packer.apdu().is_none() {
                queue.pass_frames(1, done);
                return Some(Ok(PACKET_COST));
            }
        }
        let apdu = packer.apdu()?;
        let cost = apdu.len() + PACKET_COST;
        let sent = socket.send(apdu);
        Some(sent.map(|()| {
            queue.pass_frames(packer.sent(), done);
            cost
        }))
    }
}

impl MulticastReader {
    /// Receives the next packet. Returns the cost in bytes, or EAGAIN.
    pub(super) fn receive(
        &mut self,
        stream: &Stream,
        intake: &mut Intake,
        max_body: u64,
        mut lost: impl FnMut(Reason),
    ) -> Result<usize, Errno> {
        let socket = stream.packets().ok_or(Errno::AGAIN)?;
        match socket.receive(&mut self.packet)? {
            Received::Nothing => {}
            Received::Data(tsi, first, last) => {
                if let Some(reason) = self.take(tsi, (first, last), max_body, &mut lost).err() {
                    lost(reason);
                }
                intake.feed(&self.frames).map_err(|_| Errno::NOMEM)?;
            }
        }
        Ok(self.packet.len() + PACKET_COST)
    }

    /// Appends the messages that the packet completes to `frames`.
    fn take(
        &mut self,
        tsi: Tsi,
        (first, last): (u32, u32),
        max_body: u64,
        lost: &mut impl FnMut(Reason),
    ) -> Result<(), Reason> {
        self.packets += 1;
        self.frames.clear();
        if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(&tsi) {
            self.forget_one(lost);
        }
        let max_message = max_body.saturating_mul(MESSAGE_BODIES).max(MESSAGE_MIN);
        let max_message = usize::try_from(max_message).unwrap_or(usize::MAX);
        let limits = AssemblerLimits { max_body, max_message, max_parts: MAX_PARTS };
        let new = || Sender { assembler: Assembler::new(limits), number: first.wrapping_sub(1), last: 0 };
        let sender = self.senders.entry(tsi).or_insert_with(new);
        if first != sender.number.wrapping_add(1) && sender.assembler.lose() {
            lost(Reason::Cut);
        }
        (sender.number, sender.last) = (last, self.packets);
        sender.assembler.take(&self.packet, &mut self.frames).map_err(|refused| match refused {
            Refused::Malformed => Reason::Malformed,
            Refused::TooLarge => Reason::Limit,
            Refused::NoMemory => Reason::NoMemory,
        })
    }

    fn forget_one(&mut self, lost: &mut impl FnMut(Reason)) {
        let oldest = self.senders.iter().min_by_key(|(_, sender)| sender.last).map(|(tsi, _)| *tsi);
        if let Some(mut sender) = oldest.and_then(|tsi| self.senders.remove(&tsi))
            && sender.assembler.lose()
        {
            lost(Reason::Limit);
        }
    }
}
