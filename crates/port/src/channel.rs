//! A socket as the client sees it: what it sends, with room for more, and what it receives, on the client's credit.

use std::collections::VecDeque;
use std::time::Instant;

use pinnace_engine::{Body, Error, Frame, Label, Outgoing, POLLIN, POLLOUT, Socket, SocketType};

use rustix::io::Errno;

use crate::credit::Credit;
use crate::large::Large;
use crate::pipes::Output;
use crate::wire::{
    BATCH_MAX, MORE_OCTET, Malformed, Messages, PART_MAX, Part, Parts, ProgramPacket, begin_delivery,
    end_packet, frame_header,
};

/// The most octets of messages that a client may have under way to a socket, beside the last one.
pub const WINDOW: usize = 1 << 20;

/// What comes before the content of a message, as a first frame of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Envelope {
    None,
    /// The routing id of a peer, four octets.
    RoutingId,
    Group,
}

impl Envelope {
    fn of(socket_type: SocketType) -> Envelope {
        match socket_type {
            SocketType::Server | SocketType::Peer => Envelope::RoutingId,
            SocketType::Radio | SocketType::Dish => Envelope::Group,
            _ => Envelope::None,
        }
    }
}

/// What the socket has not taken yet.
enum Waiting {
    Messages {
        octets: Vec<u8>,
        taken: usize,
        /// The request that wants to know when they are sent.
        confirms: Option<u32>,
    },
    /// A message that came in parts.
    Large { frames: Vec<Body>, octets: usize },
}

/// What has become of messages, for the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    pub messages: u32,
    pub octets: u32,
}

/// Whether a channel may have more messages to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The socket has none now.
    Nothing,
    /// A packet was filled, or the credit was used.
    Some,
}

pub struct Channel {
    pub socket: Socket,
    pub context: u32,
    envelope: Envelope,
    pub credit: Credit,
    waiting: VecDeque<Waiting>,
    /// The octets that the client has sent and that were not taken.
    under_way: usize,
    /// What was taken and not told to the client.
    pub taken: Taken,
    /// The message that comes in parts.
    parts: Parts,
    /// The message that is delivered in parts.
    large: Option<Large>,
    /// It has messages, and the pipe was full.
    pub is_held: bool,
    /// When it gives up what waits; None: never. Only if it is closed.
    pub closes: Option<Option<Instant>>,
}

impl Channel {
    pub fn new(socket: Socket, socket_type: SocketType, context: u32) -> Channel {
        Channel {
            socket,
            context,
            envelope: Envelope::of(socket_type),
            credit: Credit::default(),
            waiting: VecDeque::new(),
            under_way: 0,
            taken: Taken::default(),
            parts: Parts::default(),
            large: None,
            is_held: false,
            closes: None,
        }
    }

    /// What it waits for.
    pub fn interest(&self) -> i16 {
        let receives = self.credit.is_left() && !self.is_held && self.closes.is_none();
        (i16::from(receives) * POLLIN) | (i16::from(!self.waiting.is_empty()) * POLLOUT)
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends whole messages. Error: they are none, or the client has sent beyond its room.
    pub fn send(
        &mut self,
        number: u32,
        octets: &[u8],
        confirms: Option<u32>,
        output: &mut Output,
    ) -> Result<(), Malformed> {
        let messages = Messages::new(octets)?;
        self.admit(octets.len())?;
        if !self.waiting.is_empty() {
            self.waiting.push_back(Waiting::Messages { octets: octets.to_vec(), taken: 0, confirms });
            return Ok(());
        }
        let taken = self.send_now(number, messages, confirms, output);
        if taken < octets.len() {
            self.waiting.push_back(Waiting::Messages {
                octets: octets[taken..].to_vec(),
                taken: 0,
                confirms,
            });
        }
        Ok(())
    }

    /// Adds a part to the message that comes in parts, and sends it with the last. Errors: as of `send`.
    pub fn send_part(
        &mut self,
        number: u32,
        part: Part,
        content: &[u8],
        output: &mut Output,
    ) -> Result<(), Malformed> {
        if part == Part::GivenUp {
            self.parts = Parts::default();
            return Ok(());
        }
        if self.parts.is_empty() {
            self.admit(0)?;
        }
        self.parts.add(content)?;
        if part == Part::Last {
            let octets = self.parts.octets();
            let frames = std::mem::take(&mut self.parts).finish()?;
            self.under_way += octets;
            let frames = frames.into_iter().map(Body::from).collect();
            self.waiting.push_back(Waiting::Large { frames, octets });
            self.send_waiting(number, output);
        }
        Ok(())
    }

    /// Error: there was no room left before.
    fn admit(&mut self, octets: usize) -> Result<(), Malformed> {
        if self.under_way >= WINDOW {
            return Err(Malformed::Room);
        }
        self.under_way += octets;
        Ok(())
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn send_waiting(&mut self, number: u32, output: &mut Output) {
        while let Some(mut first) = self.waiting.pop_front() {
            let is_sent = match &mut first {
                Waiting::Messages { octets, taken, confirms } => {
                    let messages = Messages::checked(&octets[*taken..]);
                    *taken += self.send_now(number, messages, *confirms, output);
                    *taken == octets.len()
                }
                Waiting::Large { frames, octets } => {
                    let mut outgoing: Vec<_> = frames.iter().cloned().map(Outgoing::Body).collect();
                    let sent = self.send_message(&mut outgoing);
                    self.note_taken(number, *octets, sent, None, output)
                }
            };
            if !is_sent {
                self.waiting.push_front(first);
                return;
            }
        }
    }

    /// Gives up what waits. Returns the number of messages.
    pub fn give_up(&mut self) -> u32 {
        let left = |waiting: Waiting| match waiting {
            Waiting::Messages { octets, taken, .. } => Messages::checked(&octets[taken..]).count(),
            Waiting::Large { .. } => 1,
        };
        self.waiting.drain(..).map(left).sum()
    }

    /// Sends messages until the socket has no room. Returns the octets that were taken, sent or refused.
    fn send_now(
        &mut self,
        number: u32,
        mut messages: Messages<'_>,
        confirms: Option<u32>,
        output: &mut Output,
    ) -> usize {
        let (mut frames, mut taken) = (Vec::new(), 0);
        loop {
            let length = messages.next(&mut frames);
            if length == 0 {
                return taken;
            }
            let mut outgoing: Vec<_> = frames.iter().copied().map(Outgoing::Bytes).collect();
            let sent = self.send_message(&mut outgoing);
            if !self.note_taken(number, length, sent, confirms, output) {
                return taken;
            }
            taken += length;
        }
    }

    /// Tells what became of a message of so many octets. False: the socket has no room for it now.
    fn note_taken(
        &mut self,
        number: u32,
        octets: usize,
        sent: Result<(), Error>,
        confirms: Option<u32>,
        output: &mut Output,
    ) -> bool {
        if sent == Err(Error::WouldBlock) {
            return false;
        }
        self.under_way -= octets;
        self.taken.messages += 1;
        self.taken.octets += u32::try_from(octets).unwrap_or(u32::MAX);
        match (sent, confirms) {
            (Ok(()), Some(id)) => output.put(ProgramPacket::Result { id, values: &[] }),
            (Err(error), Some(id)) => {
                output.put(ProgramPacket::Failure { id, errno: error.errno(), text: &error.to_string() });
            }
            (Ok(()), None) => {}
            (Err(error), None) => {
                output.put(ProgramPacket::Unsent { channel: number, messages: 1, errno: error.errno() });
            }
        }
        true
    }

    fn send_message(&self, frames: &mut [Outgoing<'_>]) -> Result<(), Error> {
        let (label, body) = match (self.envelope, frames) {
            (Envelope::None, frames) => return self.socket.send_message(frames, false),
            (Envelope::RoutingId, [id, body]) => {
                let id = <[u8; 4]>::try_from(id.data()).map_err(|_| Error::Unreachable)?;
                (Label { routing_id: u32::from_be_bytes(id), group: Vec::new() }, body)
            }
            (Envelope::Group, [group, body]) => (Label { routing_id: 0, group: group.data().to_vec() }, body),
            _ => return Err(Error::Invalid(pinnace_engine::Invalid::MultipartMessage)),
        };
        self.socket.send_labelled(std::mem::replace(body, Outgoing::Bytes(&[])), &label, false, false)
    }

    /// Delivers at most one packet, as far as there is credit. Error: the socket has ended.
    pub fn deliver(&mut self, number: u32, output: &mut Output) -> Result<Delivered, Error> {
        if let Some(large) = &mut self.large {
            large.deliver_part(number, &mut output.buffer);
            if large.left() == 0 {
                self.large = None;
            }
            return Ok(Delivered::Some);
        }
        let at = begin_delivery(&mut output.buffer, number);
        let begin = output.buffer.len();
        let mut outcome = Ok(Delivered::Some);
        while self.credit.is_left() {
            let before = output.buffer.len();
            if let Err(error) = self.receive(&mut output.buffer) {
                output.buffer.truncate(before);
                outcome = match error {
                    Error::WouldBlock | Error::State | Error::NotSupported => Ok(Delivered::Nothing),
                    error => Err(error),
                };
                break;
            }
            let length = match &self.large {
                Some(large) => large.left(),
                None => output.buffer.len() - before,
            };
            self.credit.use_for(length);
            // The next message may be as long.
            if self.large.is_some() || output.buffer.len() - at + length > BATCH_MAX {
                break;
            }
        }
        if output.buffer.len() == begin {
            output.buffer.truncate(at);
        } else {
            end_packet(&mut output.buffer, at);
        }
        outcome
    }

    /// Appends the next message, or makes it the large one.
    fn receive(&mut self, to: &mut Vec<u8>) -> Result<(), Error> {
        let begin = to.len();
        let (mut large, mut length, mut last, mut is_too_long) = (None::<Large>, 0, None, false);
        let mut sink = |frame: Frame<'_>| {
            let data = frame.data();
            let Some(header) = frame_header(data.len(), false) else {
                is_too_long = true;
                return;
            };
            if large.is_none() && length + header.len() + data.len() > PART_MAX {
                large = Some(Large::of(&to.split_off(begin)));
            }
            length += header.len() + data.len();
            if let Some(large) = &mut large {
                return large.push(header.len(), frame);
            }
            if let Some(last) = last.replace(to.len()) {
                to[last] |= MORE_OCTET;
            }
            to.extend_from_slice(&header);
            to.extend_from_slice(data);
        };
        if self.envelope == Envelope::None {
            self.socket.recv_frames(false, &mut sink)?;
        } else {
            let received = self.socket.recv_message(false, &mut sink)?;
            let envelope = match self.envelope {
                Envelope::RoutingId => received.label.routing_id.to_be_bytes().to_vec(),
                _ => received.label.group,
            };
            let header = frame_header(envelope.len(), true).unwrap_or_default();
            match &mut large {
                Some(large) => large.push_first(header.len(), envelope),
                None => drop(to.splice(begin..begin, header.into_iter().chain(envelope))),
            }
        }
        if is_too_long {
            return Err(Error::System(Errno::MSGSIZE.raw_os_error()));
        }
        self.large = large;
        Ok(())
    }

    /// True if a message is left that has begun to be delivered.
    pub fn has_large(&self) -> bool {
        self.large.is_some()
    }

    pub fn may_deliver(&self) -> bool {
        self.has_large() || self.credit.is_left()
    }
}
