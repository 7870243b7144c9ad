//! The identity frame, which ends the handshake of a ZMTP 1.0 or 2.0 peer (RFC 13, "The Connection Layer"; RFC 15,
//! "Formal Grammar").

use super::{HandshakeStep, MAX_ROUTING_ID, Peer, State, peer};
use crate::error::{Error, Misbehaviour};
use crate::frame::Header;
use crate::mechanism::Traffic;
use crate::{SocketType, Version, frame, v1};

#[derive(Debug)]
pub(super) struct Identity {
    version: Version,
    socket_type: Option<SocketType>,
}

impl Identity {
    pub(super) fn new(version: Version, socket_type: Option<SocketType>) -> Identity {
        Identity { version, socket_type }
    }

    pub(super) fn advance(self, unit: &[u8]) -> Result<HandshakeStep, Error> {
        let Some(header) = self.parse_header(unit)? else {
            let need = self.header_len(unit) as u64;
            return Ok(HandshakeStep::Need(State::Identity(self), need));
        };
        if header.body_len > MAX_ROUTING_ID as u64 {
            return Err(Misbehaviour::RoutingIdTooLong { len: header.body_len }.into());
        }
        let len = header.header_len as u64 + header.body_len;
        if (unit.len() as u64) < len {
            return Ok(HandshakeStep::Need(State::Identity(self), len));
        }
        let routing_id = &unit[header.header_len..];
        peer::accept_routing_id(routing_id)?;
        let peer = Peer::without_properties(self.version, self.socket_type, routing_id);
        Ok(HandshakeStep::Done(peer, Traffic::Clear))
    }

    fn parse_header(&self, unit: &[u8]) -> Result<Option<Header>, Error> {
        if self.version.uses_v1_framing() {
            return v1::parse(unit); // RFC 13: the flags of this frame are not validated.
        }
        match frame::parse(unit) {
            Some(header) if header.has_more() || header.is_command() => {
                Err(Misbehaviour::IdentityFrameFlags.into())
            }
            header => Ok(header),
        }
    }

    /// Length of the header, given its first bytes.
    fn header_len(&self, unit: &[u8]) -> usize {
        match (self.version.uses_v1_framing(), unit.first()) {
            (true, Some(255)) => v1::MAX_HEADER,
            (false, Some(flags)) if flags & frame::LONG != 0 => frame::MAX_HEADER,
            _ => 2,
        }
    }
}
