//! The handshake over WebSocket (RFC 45, "Handshake"): no greeting, because the HTTP upgrade has settled the
//! mechanism.
//!
//! | subprotocol | what we send | what we wait for | version |
//! | --- | --- | --- | --- |
//! | with a mechanism | what the mechanism sends | its commands | 3.0 |
//! | bare | our routing id as a message | the peer's | 2.0 |
//!
//! A server may answer with the subprotocol that we named first and yet speak the bare one (jszmq does). So a
//! client that accepts both lets the server send first, and the server's first frame decides: a command, or a
//! routing id.

use super::{Context, HandshakeStep, State, commands, identity};
use crate::error::{Error, Incompatibility};
use crate::ws::Subprotocol;
use crate::{Version, frame};

pub(super) fn start(subprotocol: Subprotocol, context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
    let (theirs, oldest) = (version(subprotocol), context.config.oldest_version());
    if theirs < oldest {
        return Err(Incompatibility::Version { theirs, oldest }.into());
    }
    match subprotocol {
        Subprotocol::Mechanism => commands::Commands::start(theirs, false, context),
        Subprotocol::Bare => {
            context.output.message(&context.config.routing_id);
            Ok(HandshakeStep::Next(State::Identity(identity::Identity::new(theirs, None))))
        }
    }
}

/// The client's side: as [`start`], but the server sends first if both subprotocols are acceptable.
pub(super) fn start_as_client(
    subprotocol: Subprotocol,
    context: &mut Context<'_>,
) -> Result<HandshakeStep, Error> {
    match subprotocol {
        Subprotocol::Mechanism if context.config.oldest_version() <= version(Subprotocol::Bare) => {
            Ok(HandshakeStep::Next(State::FirstOverWs))
        }
        _ => start(subprotocol, context),
    }
}

/// Called with the first byte of the server's first frame.
pub(super) fn advance(unit: &[u8], context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
    let is_command = unit[0] & frame::COMMAND != 0;
    let subprotocol = if is_command { Subprotocol::Mechanism } else { Subprotocol::Bare };
    match start(subprotocol, context)? {
        HandshakeStep::Next(State::Command(commands)) => commands.advance(unit, context),
        HandshakeStep::Next(State::Identity(identity)) => identity.advance(unit),
        step => Ok(step),
    }
}

/// RFC 45 builds on ZMTP 3.0, or on 2.0 if there is no mechanism.
fn version(subprotocol: Subprotocol) -> Version {
    match subprotocol {
        Subprotocol::Mechanism => Version::V3_0,
        Subprotocol::Bare => Version::V2_0,
    }
}
