//! Translates a stream of WebSocket frames into a stream of ZMTP frames.
//!
//! An unfragmented message passes through in pieces as they arrive. A fragmented message is held until it is
//! complete, because a ZMTP frame begins with its length; libzmq rejects fragments, but browsers may send them. The
//! decoder answers pings and closes.

use super::encoder::{self, Masks, Role};
use super::frame::{self, MAX_CONTROL, Mask, Opcode, WsHeader};
use super::{COMMAND, Close, Error, MORE, Violation, close};
use crate::frame as zmtp;

/// Limits on what a peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderLimits {
    /// The largest body of a ZMTP frame, in bytes. A large limit costs no memory: such bodies pass through.
    pub max_body: u64,
    /// The largest fragmented message, in bytes including its flag byte: the decoder's buffer may grow to it.
    pub max_fragmented: usize,
}

impl Default for DecoderLimits {
    /// Bodies of any size, and fragmented messages of up to 16 MiB.
    fn default() -> DecoderLimits {
        DecoderLimits { max_body: u64::MAX, max_fragmented: 16 << 20 }
    }
}

/// Whether more data can come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The connection is open.
    Open,
    /// The peer has closed. We should close too, once the replies are written.
    Closed,
}

/// Translates the stream of one peer.
///
/// Holds the fragments of one message, at most [`DecoderLimits::max_fragmented`] bytes, and otherwise fewer than 256
/// bytes.
#[derive(Debug)]
pub struct Decoder {
    limits: DecoderLimits,
    /// Masks for our replies; `None` if we are the server.
    masks: Option<Masks>,
    /// The first bytes of an incomplete header.
    head: [u8; frame::MAX_HEADER],
    head_len: usize,
    state: DecoderState,
    /// The received part of a control frame.
    control: Vec<u8>,
    /// The received part of a fragmented message.
    fragments: Option<Vec<u8>>,
    /// We have sent a close frame.
    closing: bool,
    end: Option<Result<Close, Error>>,
}

/// The payload that is being read.
#[derive(Debug, Clone, Copy)]
struct Payload {
    mask: Mask,
    left: u64,
}

#[derive(Debug, Clone, Copy)]
enum DecoderState {
    Header,
    /// An unfragmented message, before its flag byte.
    Flags(Payload),
    /// An unfragmented message, after its flag byte.
    Body(Payload),
    /// A frame of a fragmented message; true if it is the last.
    Fragment(Payload, bool),
    Control(Payload, Opcode),
}

impl Decoder {
    /// For one connection. `role` is our own.
    pub fn new(role: &Role, limits: DecoderLimits) -> Decoder {
        Decoder {
            limits,
            masks: Masks::new(role, 1),
            head: [0; frame::MAX_HEADER],
            head_len: 0,
            state: DecoderState::Header,
            control: Vec::new(),
            fragments: None,
            closing: false,
            end: None,
        }
    }

    /// Consumes all of `bytes`. Appends their ZMTP frames to `out`, whole or in pieces, and to `replies` the frames
    /// that the caller has to write between two of our messages: pongs, and finally a close frame. A peer that
    /// sends only pings causes replies of up to three times its bytes, so the caller should limit unsent replies.
    ///
    /// # Errors
    /// The peer broke a rule. The error is final, and every further call returns it; `replies` ends with the close
    /// frame for the peer.
    pub fn translate(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        replies: &mut Vec<u8>,
    ) -> Result<Status, Error> {
        let mut rest = bytes;
        loop {
            match &self.end {
                None => {}
                Some(Ok(_)) => return Ok(Status::Closed),
                Some(Err(error)) => return Err(error.clone()),
            }
            match self.step(&mut rest, out, replies) {
                Ok(true) => {}
                Ok(false) => return Ok(Status::Open),
                Err(error) => self.fail(error, replies),
            }
        }
    }

    /// Sets new limits. What was already checked of a message that has begun is not checked again.
    pub fn set_limits(&mut self, limits: DecoderLimits) {
        self.limits = limits;
    }

    /// The peer's close code and reason.
    pub fn closed(&self) -> Option<&Close> {
        self.end.as_ref()?.as_ref().ok()
    }

    /// Reports that we have sent a close frame: the peer's close frame is then the answer to ours, and gets no
    /// reply.
    pub fn closing(&mut self) {
        self.closing = true;
    }

    fn fail(&mut self, error: Error, replies: &mut Vec<u8>) {
        if let Error::Violation(violation) = error {
            self.reply_close(&close::body(violation.close_code(), &violation.to_string()), replies);
        }
        self.fragments = None;
        self.end = Some(Err(error));
    }

    fn reply_close(&mut self, body: &[u8], replies: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.closing, true) {
            frame::encode(Opcode::Close, &[body], encoder::next(&mut self.masks), replies);
        }
    }

    /// Advances by one header, or by one piece of a payload. False if it needs more bytes.
    fn step(&mut self, rest: &mut &[u8], out: &mut Vec<u8>, replies: &mut Vec<u8>) -> Result<bool, Error> {
        match self.state {
            DecoderState::Header => {
                let Some(header) = self.take_header(rest) else { return Ok(false) };
                self.state = match self.begin(&header)? {
                    DecoderState::Flags(payload) if payload.left <= rest.len() as u64 => {
                        pass(payload, rest, out)?;
                        DecoderState::Header
                    }
                    state => state,
                };
            }
            DecoderState::Flags(mut payload) => {
                let Some((&flags, behind)) = rest.split_first() else { return Ok(false) };
                payload.left -= 1;
                *rest = behind;
                append_header(payload.mask.byte(flags), payload.left, out)?;
                self.state = DecoderState::Body(payload);
            }
            DecoderState::Body(mut payload) => {
                let piece = payload.take(rest);
                append(piece, &mut payload.mask, out)?;
                let whole = payload.left == 0;
                self.state = if whole { DecoderState::Header } else { DecoderState::Body(payload) };
                return Ok(whole);
            }
            DecoderState::Fragment(mut payload, last) => {
                let piece = payload.take(rest);
                self.hold(piece, &mut payload.mask)?;
                let whole = payload.left == 0;
                self.state = if whole { DecoderState::Header } else { DecoderState::Fragment(payload, last) };
                if whole && last {
                    self.assembled(out)?;
                }
                return Ok(whole);
            }
            DecoderState::Control(mut payload, opcode) => {
                let piece = payload.take(rest);
                payload.mask.append(piece, &mut self.control);
                if payload.left > 0 {
                    self.state = DecoderState::Control(payload, opcode);
                    return Ok(false);
                }
                self.state = DecoderState::Header;
                self.on_control(opcode, replies)?;
            }
        }
        Ok(true)
    }

    /// The next header, if it is complete; it may have begun in an earlier call.
    fn take_header(&mut self, rest: &mut &[u8]) -> Option<WsHeader> {
        if self.head_len == 0
            && let Some(header) = frame::parse(rest)
        {
            *rest = &rest[header.header_len..];
            return Some(header);
        }
        while let Some((&byte, behind)) = rest.split_first() {
            self.head[self.head_len] = byte;
            self.head_len += 1;
            *rest = behind;
            if let Some(header) = frame::parse(&self.head[..self.head_len]) {
                self.head_len = 0;
                return Some(header);
            }
        }
        None
    }

    /// Checks a header, and returns the state for its payload.
    fn begin(&mut self, header: &WsHeader) -> Result<DecoderState, Error> {
        if header.reserved {
            return Err(Violation::ReservedBits.into());
        }
        let opcode = header.opcode.map_err(Violation::ReservedOpcode)?;
        match (self.masks.is_some(), header.mask.is_some()) {
            (true, true) => return Err(Violation::Masked.into()),
            (false, false) => return Err(Violation::Unmasked.into()),
            _ => {}
        }
        if header.payload_len > i64::MAX as u64 {
            return Err(Violation::Length.into());
        }
        let payload = Payload { mask: Mask::new(header.mask), left: header.payload_len };
        if opcode.is_control() {
            if !header.fin {
                return Err(Violation::FragmentedControl.into());
            }
            if header.payload_len > MAX_CONTROL as u64 {
                return Err(Violation::LongControl.into());
            }
            self.control.clear();
            return Ok(DecoderState::Control(payload, opcode));
        }
        match (opcode, &self.fragments) {
            (Opcode::Continuation, None) => return Err(Violation::StrayContinuation.into()),
            (Opcode::Continuation, Some(_)) => {}
            (_, Some(_)) => return Err(Violation::Interrupted.into()),
            (Opcode::Text, None) => return Err(Violation::Text.into()),
            (_, None) if header.fin => return self.begin_whole(payload),
            (_, None) => self.fragments = Some(Vec::new()),
        }
        self.begin_fragment(payload, header.fin)
    }

    fn begin_whole(&self, payload: Payload) -> Result<DecoderState, Error> {
        let body_len = payload.left.checked_sub(1).ok_or(Violation::MissingFlags)?;
        self.check_body(body_len)?;
        Ok(DecoderState::Flags(payload))
    }

    /// Rejects a message that would be too large before any of its bytes are held.
    fn begin_fragment(&self, payload: Payload, last: bool) -> Result<DecoderState, Error> {
        let held = self.fragments.as_ref().map_or(0, |held| held.len() as u64);
        let len = held.saturating_add(payload.left);
        let limit = self.limits.max_fragmented as u64;
        if len > limit {
            return Err(Violation::TooLarge { len, limit }.into());
        }
        self.check_body(len.saturating_sub(1))?;
        Ok(DecoderState::Fragment(payload, last))
    }

    fn check_body(&self, len: u64) -> Result<(), Error> {
        let limit = self.limits.max_body;
        if len > limit { Err(Violation::TooLarge { len, limit }.into()) } else { Ok(()) }
    }

    /// Holds a piece of a fragment. Memory grows with the received bytes, and never above the limit.
    fn hold(&mut self, piece: &[u8], mask: &mut Mask) -> Result<(), Error> {
        let held = self.fragments.get_or_insert_default();
        let len = held.len() + piece.len();
        if len > held.capacity() {
            let capacity = (held.capacity() * 2).min(self.limits.max_fragmented).max(len);
            held.try_reserve_exact(capacity - held.len()).map_err(|_| Error::NoMemory)?;
        }
        mask.append(piece, held);
        Ok(())
    }

    fn assembled(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let message = self.fragments.take().unwrap_or_default();
        let (&flags, body) = message.split_first().ok_or(Violation::MissingFlags)?;
        append_header(flags, body.len() as u64, out)?;
        append(body, &mut Mask::new(None), out)
    }

    fn on_control(&mut self, opcode: Opcode, replies: &mut Vec<u8>) -> Result<(), Error> {
        match opcode {
            Opcode::Ping if !self.closing => {
                frame::encode(Opcode::Pong, &[&self.control], encoder::next(&mut self.masks), replies);
            }
            Opcode::Close => {
                let close = Close::parse(&self.control)?;
                let body = std::mem::take(&mut self.control);
                self.reply_close(&body, replies);
                self.fragments = None;
                self.end = Some(Ok(close));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Payload {
    /// Takes the available bytes of the payload.
    fn take<'b>(&mut self, rest: &mut &'b [u8]) -> &'b [u8] {
        let len = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
        let (piece, behind) = rest.split_at(len);
        *rest = behind;
        self.left -= len as u64;
        piece
    }
}

/// Fast path: appends a message that is completely in `rest`, as most are.
fn pass(mut payload: Payload, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let message = payload.take(rest);
    out.try_reserve(zmtp::MAX_HEADER + message.len()).map_err(|_| Error::NoMemory)?;
    append_header(payload.mask.byte(message[0]), message.len() as u64 - 1, out)?;
    payload.mask.append(&message[1..], out);
    Ok(())
}

/// Appends the ZMTP header for the flag byte of a message. Unknown flags are ignored, as libzmq does.
fn append_header(flags: u8, body_len: u64, out: &mut Vec<u8>) -> Result<(), Error> {
    let more = if flags & MORE != 0 { zmtp::MORE } else { 0 };
    let command = if flags & COMMAND != 0 { zmtp::COMMAND } else { 0 };
    let mut header = [0; zmtp::MAX_HEADER];
    let len = zmtp::encode(more | command, body_len, &mut header);
    append(&header[..len], &mut Mask::new(None), out)
}

/// Appends bytes; fails if out of memory.
fn append(bytes: &[u8], mask: &mut Mask, out: &mut Vec<u8>) -> Result<(), Error> {
    out.try_reserve(bytes.len()).map_err(|_| Error::NoMemory)?;
    mask.append(bytes, out);
    Ok(())
}
