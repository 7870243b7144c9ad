//! Conversion between the frames in the queues and the bytes on a connection's wire, where they differ.
//!
//! Queues hold ZMTP 3 frames as they go to a 3.1 peer under NULL, which needs no codec. All other forms are encoded
//! when frames leave the queue ([`Encoder`]), and decoded before they enter it ([`Decoder`]). A codec belongs to one
//! connection, and both halves to the handshake that made them.
//!
//! ```text
//! frame -> subscriptions as the peer knows them -> [CURVE's box] -> [message of WebSocket | frame of 1.0] -> bytes
//! ```

use pinnace_sys::Errno;
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::curve::{OVERHEAD, Opener, Sealer};
use pinnace_zmtp::frame::{self, COMMAND, MORE};
use pinnace_zmtp::{Traffic, Version, subscription, v1, ws};

use super::packets::Packets;
use super::v1::FromV1;

/// The most bytes of one read if they have to be decoded.
pub(crate) const RAW_BYTES: usize = 64 * 1024;

/// The encoder and the decoder of a connection; None: frames pass unchanged.
#[derive(Default)]
pub(crate) struct Codec {
    pub(crate) encoder: Option<Encoder>,
    pub(crate) decoder: Option<Decoder>,
    /// The connection carries packets, not a stream of frames.
    pub(crate) packets: Option<Packets>,
}

/// Encodes outgoing frames.
pub(crate) struct Encoder {
    /// The peer's version, which decides the form of subscriptions.
    version: Version,
    sealer: Option<Sealer>,
    web: Option<Box<ws::Encoder>>,
    /// The peer speaks no ZMTP: only bodies are sent (STREAM, ZMQ_ROUTER_RAW).
    is_raw: bool,
    /// Scratch buffer between two encoding steps.
    scratch: Vec<u8>,
}

/// Decodes incoming bytes into ZMTP 3 frames.
pub(crate) struct Decoder {
    form: Form,
    boxes: Option<Boxes>,
}

/// The framing of the incoming bytes.
enum Form {
    Frames,
    V1(FromV1),
    Web(Box<ws::Decoder>),
    /// Not ZMTP: the bytes of one read become frames of at most this many bytes.
    Raw(usize),
}

/// Opens CURVE's boxes.
struct Boxes {
    opener: Opener,
    /// The first bytes of an incomplete frame.
    pending: Vec<u8>,
    /// The largest body accepted, in bytes.
    max_body: u64,
}

/// Upper limit on the bytes buffered for a fragmented message.
const FRAGMENTED_MAX: u64 = 16 << 20;
/// The largest command a peer may send, in bytes: a subscription to a topic of 64 KiB.
const COMMAND_MAX: u64 = pinnace_ring::COMMAND_MAX;
/// Close status "normal closure" (RFC 6455, section 7.4.1).
const CLOSE_NORMAL: u16 = 1000;

impl Codec {
    /// For a stream of ZMTP frames. `subscribes`: our socket sends subscriptions. `max_body`: the largest frame
    /// accepted, in bytes.
    pub(crate) fn new(version: Version, traffic: Traffic, subscribes: bool, max_body: u64) -> Codec {
        let old = version.uses_v1_framing();
        let (sealer, boxes) = halves(traffic, max_body);
        let encodes = old || subscribes || sealer.is_some();
        let form = if old { Form::V1(FromV1::default()) } else { Form::Frames };
        let decodes = old || boxes.is_some();
        Codec {
            encoder: encodes.then(|| Encoder {
                version,
                sealer,
                web: None,
                is_raw: false,
                scratch: Vec::new(),
            }),
            decoder: decodes.then_some(Decoder { form, boxes }),
            packets: None,
        }
    }

    /// For WebSocket, with the encoder and decoder that did the handshake.
    pub(crate) fn web(
        version: Version,
        traffic: Traffic,
        (encoder, mut decoder): (ws::Encoder, ws::Decoder),
        max_body: u64,
    ) -> Codec {
        let (sealer, boxes) = halves(traffic, max_body);
        let wire_max = if boxes.is_some() { max_body.saturating_add(OVERHEAD as u64) } else { max_body };
        let max_fragmented = wire_max.saturating_add(1).min(FRAGMENTED_MAX) as usize;
        decoder.set_limits(ws::DecoderLimits { max_body: wire_max, max_fragmented });
        let web = Some(Box::new(encoder));
        Codec {
            encoder: Some(Encoder { version, sealer, web, is_raw: false, scratch: Vec::new() }),
            decoder: Some(Decoder { form: Form::Web(Box::new(decoder)), boxes }),
            packets: None,
        }
    }

    /// For messages in packets.
    pub(crate) fn packets(packets: Packets) -> Codec {
        Codec { packets: Some(packets), ..Codec::default() }
    }

    /// Whether the link can send heartbeats to a peer of this version.
    pub(super) fn speaks_heartbeats(&self, version: Version) -> bool {
        version >= Version::V3_0 || self.encoder.as_ref().is_some_and(|encoder| encoder.web.is_some())
    }
}

fn halves(traffic: Traffic, max_body: u64) -> (Option<Sealer>, Option<Boxes>) {
    match traffic {
        Traffic::Clear => (None, None),
        Traffic::Sealed(sealer, opener) => {
            (Some(sealer), Some(Boxes { opener, pending: Vec::new(), max_body }))
        }
    }
}

impl Codec {
    /// For a peer that speaks no ZMTP: the raw bytes, in frames of at most `max` bytes.
    pub(crate) fn raw(max: usize) -> Codec {
        let (version, sealer, web, scratch) = (Version::V1_0, None, None, Vec::new());
        let form = Form::Raw(max.clamp(1, RAW_BYTES));
        Codec {
            encoder: Some(Encoder { version, sealer, web, is_raw: true, scratch }),
            decoder: Some(Decoder { form, boxes: None }),
            packets: None,
        }
    }
}

impl Encoder {
    /// Appends a frame in its wire form. Commands are subscriptions, groups, and PINGs that request a receipt.
    /// Errors: NOMEM; PROTO if the connection has used up its CURVE nonces.
    pub(super) fn encode(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        if self.is_raw {
            out.extend_from_slice(if flags & COMMAND == 0 { body } else { &[] });
            return Ok(());
        }
        if flags & COMMAND == 0 {
            return self.frame(flags & MORE, body, out);
        }
        let mut form = std::mem::take(&mut self.scratch);
        form.clear();
        match command::parse(body) {
            Ok(Command::Subscribe(topic)) => subscription::encode(self.version, true, topic, &mut form),
            Ok(Command::Cancel(topic)) => subscription::encode(self.version, false, topic, &mut form),
            // Groups have one form: a peer older than 3.0 knows neither RADIO nor DISH.
            Ok(Command::Join(_) | Command::Leave(_) | Command::Ping { .. })
                if self.version >= Version::V3_0 =>
            {
                frame::append(COMMAND, &[body], &mut form);
            }
            _ => {}
        }
        let encoded = self.frames(&form, out);
        self.scratch = form;
        encoded
    }

    /// Appends a command of the link's own, given as whole ZMTP 3 frames, in its wire form.
    pub(super) fn encode_control(&mut self, command: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        if self.is_raw {
            return Ok(());
        }
        let body = frame::parse(command).map(|header| &command[header.header_len..]);
        match (&mut self.web, body) {
            (Some(web), Some(body)) if matches!(command::parse(body), Ok(Command::Ping { .. })) => {
                web.ping(b"", out);
                Ok(())
            }
            _ => self.frames(command, out),
        }
    }

    /// Appends the closing message that is sent before our end is shut.
    pub(super) fn encode_farewell(&mut self, out: &mut Vec<u8>) {
        if let Some(web) = &mut self.web {
            web.close(CLOSE_NORMAL, "", out);
        }
    }

    /// Appends whole frames, which have their headers.
    fn frames(&mut self, mut frames: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        if self.version.uses_v1_framing() {
            out.extend_from_slice(frames); // Already in the form of 1.0.
            return Ok(());
        }
        while let Some(header) = frame::parse(frames) {
            let (whole, rest) = frames.split_at(header.header_len + header.body_len as usize);
            self.frame(header.flags & (MORE | COMMAND), &whole[header.header_len..], out)?;
            frames = rest;
        }
        Ok(())
    }

    fn frame(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        match (&mut self.sealer, &mut self.web) {
            (None, None) if self.version.uses_v1_framing() => {
                let mut head = [0; v1::MAX_HEADER];
                let len = v1::encode(flags & MORE, body.len() as u64, &mut head);
                out.extend_from_slice(&head[..len]);
                out.extend_from_slice(body);
            }
            (None, None) => frame::append(flags, &[body], out),
            (None, Some(web)) => web.encode(flags, body, out),
            (Some(sealer), None) => sealer.seal(flags, body, out).map_err(refused)?,
            (Some(sealer), Some(web)) => {
                let mut sealed = Vec::new();
                sealer.seal(flags, body, &mut sealed).map_err(refused)?;
                web.encode_frames(&sealed, out);
            }
        }
        Ok(())
    }
}

fn refused(error: pinnace_zmtp::Error) -> Errno {
    match error {
        pinnace_zmtp::Error::NoMemory => Errno::NOMEM,
        _ => Errno::PROTO,
    }
}

impl Decoder {
    /// Whether the wire is WebSocket, which has heartbeats of its own.
    pub(super) fn is_web(&self) -> bool {
        matches!(self.form, Form::Web(_))
    }

    /// Decodes `bytes`, possibly in place, and appends the frames to `out`, and replies of the wire protocol itself
    /// to `replies`. Errors: PROTO, the peer broke the rules; PIPE, the peer has closed; MSGSIZE; NOMEM.
    pub(super) fn decode(
        &mut self,
        bytes: &mut [u8],
        out: &mut Vec<u8>,
        replies: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let Some(boxes) = &mut self.boxes else { return self.form.unframe(bytes, out, replies) };
        if matches!(self.form, Form::Frames) {
            return boxes.open(bytes, out);
        }
        let mut frames = Vec::new();
        let unframed = self.form.unframe(bytes, &mut frames, replies);
        boxes.open(&mut frames, out)?;
        unframed
    }
}

impl Form {
    fn unframe(&mut self, bytes: &[u8], out: &mut Vec<u8>, replies: &mut Vec<u8>) -> Result<(), Errno> {
        match self {
            Form::Frames => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            Form::Raw(max) => {
                bytes.chunks(*max).for_each(|chunk| frame::append(0, &[chunk], out));
                Ok(())
            }
            Form::V1(from) => from.translate(bytes, out).map_err(|_| Errno::PROTO),
            Form::Web(web) => match web.translate(bytes, out, replies) {
                Ok(ws::Status::Open) => Ok(()),
                Ok(ws::Status::Closed) => Err(Errno::PIPE),
                Err(ws::Error::Violation(ws::Violation::TooLarge { .. })) => Err(Errno::MSGSIZE),
                Err(_) => Err(Errno::PROTO),
            },
        }
    }
}

impl Boxes {
    /// Decrypts complete frames in place, and keeps an incomplete one.
    fn open(&mut self, mut bytes: &mut [u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        while !self.pending.is_empty() && !bytes.is_empty() {
            let wanted = self.wanted(&self.pending)?;
            let take = (wanted - self.pending.len()).min(bytes.len());
            self.pending.try_reserve(take).map_err(|_| Errno::NOMEM)?;
            let (more, rest) = std::mem::take(&mut bytes).split_at_mut(take);
            self.pending.extend_from_slice(more);
            bytes = rest;
            if self.pending.len() == self.wanted(&self.pending)? {
                let mut whole = std::mem::take(&mut self.pending);
                self.open_frame(&mut whole, out)?;
                whole.clear();
                self.pending = whole;
            }
        }
        while !bytes.is_empty() {
            let wanted = self.wanted(bytes)?;
            if wanted > bytes.len() {
                self.pending.extend_from_slice(bytes);
                return Ok(());
            }
            let (whole, rest) = bytes.split_at_mut(wanted);
            self.open_frame(whole, out)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Bytes needed to go on with a frame that begins with `bytes`: its header, or the whole frame. Errors: MSGSIZE.
    fn wanted(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(header) = frame::parse(bytes) else {
            let len = if bytes[0] & frame::LONG == 0 { 2 } else { frame::MAX_HEADER };
            return Ok(len.max(bytes.len() + 1).min(frame::MAX_HEADER));
        };
        // Only the decrypted box shows whether it is a command, so the larger of the two limits applies.
        if header.body_len > self.max_body.max(COMMAND_MAX).saturating_add(OVERHEAD as u64) {
            return Err(Errno::MSGSIZE);
        }
        usize::try_from(header.body_len).map(|len| len + header.header_len).map_err(|_| Errno::MSGSIZE)
    }

    fn open_frame(&mut self, whole: &mut [u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        let header = frame::parse(whole).ok_or(Errno::PROTO)?;
        let opened = self.opener.open(&mut whole[header.header_len..]).map_err(refused)?;
        out.try_reserve(frame::MAX_HEADER + opened.payload.len()).map_err(|_| Errno::NOMEM)?;
        frame::append(opened.flags, &[opened.payload], out);
        Ok(())
    }
}
