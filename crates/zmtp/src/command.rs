//! The bodies of command frames (RFC 37, "Commands" and the sections on each command).
//!
//! A body is a name, preceded by its length, then data in a form that depends on the name. [`parse`] borrows from
//! the body and copies nothing. It reports an unknown name as [`Command::Unknown`]: libzmq drops such commands, and
//! a newer peer may send them. The `encode_*` functions append whole frames, header included.
//!
//! ```
//! use pinnace_zmtp::{command::{self, Command}, frame};
//!
//! let mut out = Vec::new();
//! command::encode_ping(300, b"here", &mut out);
//! let header = frame::parse(&out).unwrap();
//! assert!(header.is_command());
//! let ping = command::parse(&out[header.header_len..])?;
//! assert_eq!(ping, Command::Ping { ttl_ds: 300, context: b"here" });
//! # Ok::<(), pinnace_zmtp::Error>(())
//! ```

use crate::error::{Error, Misbehaviour};
use crate::frame;

/// The longest context of a PING or PONG, in bytes (RFC 37, "Connection Heartbeating").
pub const MAX_CONTEXT: usize = 16;
/// The longest name of a group that a DISH may join, in bytes (RFC 48).
pub const MAX_GROUP: usize = 255;
/// The longest reason of an ERROR, in bytes.
pub const MAX_REASON: usize = 255;

const PING: &[u8] = b"\x04PING";
const PONG: &[u8] = b"\x04PONG";
const SUBSCRIBE: &[u8] = b"\x09SUBSCRIBE";
const CANCEL: &[u8] = b"\x06CANCEL";
const JOIN: &[u8] = b"\x04JOIN";
const LEAVE: &[u8] = b"\x05LEAVE";
const ERROR: &[u8] = b"\x05ERROR";
const READY: &[u8] = b"\x05READY";

/// A command, borrowed from the body of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// Asks for a PONG with the same context.
    Ping {
        /// The peer disconnects us after this many tenths of a second without traffic; 0: it sets no limit.
        ttl_ds: u16,
        /// At most 16 bytes. Longer contexts from a peer are truncated, as in libzmq.
        context: &'a [u8],
    },
    /// Answers a PING.
    Pong {
        /// The PING's context, at most 16 bytes.
        context: &'a [u8],
    },
    /// Asks for messages that begin with this topic.
    Subscribe(&'a [u8]),
    /// Cancels a subscription.
    Cancel(&'a [u8]),
    /// Asks for the messages of this group (RFC 48). Its length is not checked here.
    Join(&'a [u8]),
    /// Leaves a group.
    Leave(&'a [u8]),
    /// The peer aborts the handshake, with a textual reason or a ZAP status code (RFC 27).
    Error {
        /// At most 255 bytes.
        reason: &'a [u8],
    },
    /// Ends the handshake; carries [metadata](crate::metadata), which is not parsed here.
    Ready(&'a [u8]),
    /// Any other command.
    Unknown {
        /// At least one byte.
        name: &'a [u8],
        /// Everything after the name.
        body: &'a [u8],
    },
}

/// Reads the body of a command frame.
///
/// # Errors
/// [`Error::PeerMisbehaved`] if there is no name, if the name or a reason reaches beyond the body, or if a PING has
/// no room for its time-to-live.
pub fn parse(body: &[u8]) -> Result<Command<'_>, Error> {
    let (&len, rest) = body.split_first().ok_or(Misbehaviour::EmptyCommand)?;
    if len == 0 {
        return Err(Misbehaviour::EmptyCommandName.into());
    }
    let (name, data) = rest.split_at_checked(usize::from(len)).ok_or(Misbehaviour::TruncatedCommandName)?;
    Ok(match name {
        b"PING" => {
            let (ttl, context) = data.split_first_chunk().ok_or(Misbehaviour::MalformedPing)?;
            Command::Ping { ttl_ds: u16::from_be_bytes(*ttl), context: cut(context, MAX_CONTEXT) }
        }
        b"PONG" => Command::Pong { context: cut(data, MAX_CONTEXT) },
        b"SUBSCRIBE" => Command::Subscribe(data),
        b"CANCEL" => Command::Cancel(data),
        b"JOIN" => Command::Join(data),
        b"LEAVE" => Command::Leave(data),
        b"ERROR" => Command::Error { reason: parse_reason(data)? },
        b"READY" => Command::Ready(data),
        _ => Command::Unknown { name, body: data },
    })
}

/// RFC 37, "The NULL Security Mechanism": `error-reason = short-size 0*255VCHAR`, and nothing after it.
pub(crate) fn parse_reason(data: &[u8]) -> Result<&[u8], Misbehaviour> {
    match data.split_first() {
        Some((&len, reason)) if reason.len() == usize::from(len) => Ok(reason),
        _ => Err(Misbehaviour::MalformedError),
    }
}

/// Appends a PING frame. The context is truncated to 16 bytes.
pub fn encode_ping(ttl_ds: u16, context: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[PING, &ttl_ds.to_be_bytes(), cut(context, MAX_CONTEXT)], out);
}

/// The body of a PING without a time-to-live. The context is truncated to 16 bytes.
pub fn ping(context: &[u8]) -> Vec<u8> {
    [PING, &[0, 0], cut(context, MAX_CONTEXT)].concat()
}

/// Appends a PONG frame. The context is truncated to 16 bytes.
pub fn encode_pong(context: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[PONG, cut(context, MAX_CONTEXT)], out);
}

/// Appends a SUBSCRIBE frame. See [`subscription`](crate::subscription) for peers older than ZMTP 3.1.
pub fn encode_subscribe(topic: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[SUBSCRIBE, topic], out);
}

/// Appends a CANCEL frame. See [`subscription`](crate::subscription) for peers older than ZMTP 3.1.
pub fn encode_cancel(topic: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[CANCEL, topic], out);
}

/// Appends the body of a JOIN or a LEAVE, without a frame header.
pub fn append_group(join: bool, group: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(if join { JOIN } else { LEAVE });
    out.extend_from_slice(group);
}

/// Appends an ERROR frame. The reason is truncated to 255 bytes.
pub fn encode_error(reason: &[u8], out: &mut Vec<u8>) {
    let reason = cut(reason, MAX_REASON);
    frame::append(frame::COMMAND, &[ERROR, &[reason.len() as u8], reason], out);
}

/// Appends a READY frame with encoded [metadata](crate::metadata).
pub fn encode_ready(metadata: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[READY, metadata], out);
}

fn cut(bytes: &[u8], limit: usize) -> &[u8] {
    &bytes[..bytes.len().min(limit)]
}
