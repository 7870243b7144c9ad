//! The handshake over WebSocket (RFC 45, "Handshake"): no greeting, since the HTTP upgrade has settled the mechanism.
//!
//! | subprotocol | what we send | what we wait for | version |
//! | --- | --- | --- | --- |
//! | with a mechanism | what the mechanism sends | its commands | 3.0 |
//! | bare | our routing id as a message | the peer's | 2.0 |
//!
//! A server may answer with the subprotocol that we named first and speak the bare one all the same (jszmq does). So a
//! client that takes both lets the server begin, and its first frame shows which it is: a command, or a routing id.

use super::{Context, State, Step, commands, identity};
use crate::error::{Error, Incompatibility};
use crate::ws::Subprotocol;
use crate::{Version, frame};

pub(super) fn start(subprotocol: Subprotocol, context: &mut Context<'_>) -> Result<Step, Error> {
    let (theirs, oldest) = (version(subprotocol), context.config.oldest_version());
    if theirs < oldest {
        return Err(Incompatibility::Version { theirs, oldest }.into());
    }
    match subprotocol {
        Subprotocol::Mechanism => commands::Commands::start(theirs, false, context),
        Subprotocol::Bare => {
            context.output.message(&context.config.routing_id);
            Ok(Step::Next(State::Identity(identity::Identity::new(theirs, None))))
        }
    }
}

/// A client's side: as [`start`], but where both are taken the server begins.
pub(super) fn start_as_client(subprotocol: Subprotocol, context: &mut Context<'_>) -> Result<Step, Error> {
    match subprotocol {
        Subprotocol::Mechanism if context.config.oldest_version() <= version(Subprotocol::Bare) => {
            Ok(Step::Next(State::FirstOverWs))
        }
        _ => start(subprotocol, context),
    }
}

/// The first byte of the server's first frame is there.
pub(super) fn advance(unit: &[u8], context: &mut Context<'_>) -> Result<Step, Error> {
    let is_command = unit[0] & frame::COMMAND != 0;
    let subprotocol = if is_command { Subprotocol::Mechanism } else { Subprotocol::Bare };
    match start(subprotocol, context)? {
        Step::Next(State::Command(commands)) => commands.advance(unit, context),
        Step::Next(State::Identity(identity)) => identity.advance(unit),
        step => Ok(step),
    }
}

/// RFC 45 builds on ZMTP 3.0, and on 2.0 where there is no mechanism.
fn version(subprotocol: Subprotocol) -> Version {
    match subprotocol {
        Subprotocol::Mechanism => Version::V3_0,
        Subprotocol::Bare => Version::V2_0,
    }
}
