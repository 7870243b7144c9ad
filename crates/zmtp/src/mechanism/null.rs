//! NULL: each side sends READY with its properties, and that is all.
//!
//! RFC 37 lets the client speak first; libzmq sends READY on both sides at once, and so do we.

use super::Outcome;
use crate::command::{self, Command};
use crate::error::{Error, Misbehaviour};
use crate::handshake::Limits;
use crate::metadata;

#[derive(Debug)]
pub(crate) struct Null;

impl Null {
    pub(crate) fn start(metadata: &[u8], output: &mut Vec<u8>) -> Null {
        command::encode_ready(metadata, output);
        Null
    }

    pub(crate) fn receive(&mut self, command: Command<'_>, limits: &Limits) -> Result<Outcome, Error> {
        let name: &[u8] = match command {
            Command::Ready(properties) => {
                return Ok(Outcome::Ready(metadata::parse(properties, limits.max_properties)?));
            }
            Command::Error { reason } => return Err(Error::PeerRefused { reason: reason.to_vec() }),
            Command::Ping { .. } => b"PING",
            Command::Pong { .. } => b"PONG",
            Command::Subscribe(_) => b"SUBSCRIBE",
            Command::Cancel(_) => b"CANCEL",
            Command::Unknown { name, .. } => name,
        };
        Err(Misbehaviour::UnexpectedCommand { name: name.to_vec() }.into())
    }
}
