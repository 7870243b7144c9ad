//! The commands between a ZMTP 3 greeting and traffic: frames are taken apart here, the mechanism decides.

use super::{Context, State, Step, peer};
use crate::error::{Error, Misbehaviour};
use crate::mechanism::{Mechanism, Outcome};
use crate::{Version, command, frame, metadata};

#[derive(Debug)]
pub(super) struct Commands {
    version: Version,
    as_server: bool,
    mechanism: Mechanism,
}

impl Commands {
    pub(super) fn start(version: Version, as_server: bool, context: &mut Context<'_>) -> Commands {
        let metadata = own_metadata(context);
        let mechanism = Mechanism::start(&context.config.mechanism, &metadata, context.output);
        Commands { version, as_server, mechanism }
    }

    pub(super) fn advance(mut self, unit: &[u8], context: &mut Context<'_>) -> Result<Step, Error> {
        let Some(header) = frame::parse(unit) else {
            let need = if unit[0] & frame::LONG == 0 { 2 } else { frame::MAX_HEADER };
            return Ok(Step::Need(State::Command(self), need as u64));
        };
        if !header.is_command() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        if header.more() {
            return Err(Misbehaviour::CommandWithMore.into());
        }
        let len = (header.header_len as u64).saturating_add(header.body_len);
        if (unit.len() as u64) < len {
            return Ok(Step::Need(State::Command(self), len));
        }
        let command = command::parse(&unit[header.header_len..])?;
        match self.mechanism.receive(command, &context.config.limits)? {
            Outcome::Ready(properties) => {
                let peer = peer::from_properties(self.version, self.as_server, properties, context.config)?;
                Ok(Step::Done(peer))
            }
        }
    }
}

/// Socket-Type, and Identity where libzmq sends it: nothing else, so that nothing but speed tells the two
/// apart.
fn own_metadata(context: &Context<'_>) -> Vec<u8> {
    let config = context.config;
    let mut out = Vec::new();
    metadata::append(metadata::SOCKET_TYPE, config.socket_type.name().as_bytes(), &mut out);
    if config.socket_type.announces_routing_id() {
        metadata::append(metadata::IDENTITY, &config.routing_id, &mut out);
    }
    out
}
