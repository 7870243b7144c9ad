//! The handshake over WebSocket (RFC 45, "Handshake"): no greeting, since the HTTP upgrade has settled the mechanism.
//!
//! | subprotocol | what we send | what we wait for | version |
//! | --- | --- | --- | --- |
//! | with a mechanism | what the mechanism sends | its commands | 3.0 |
//! | bare | our routing id as a message | the peer's | 2.0 |

use super::{Context, State, Step, commands, identity};
use crate::Version;
use crate::error::{Error, Incompatibility};
use crate::ws::Subprotocol;

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

/// RFC 45 builds on ZMTP 3.0, and on 2.0 where there is no mechanism.
fn version(subprotocol: Subprotocol) -> Version {
    match subprotocol {
        Subprotocol::Mechanism => Version::V3_0,
        Subprotocol::Bare => Version::V2_0,
    }
}
