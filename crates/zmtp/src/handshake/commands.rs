//! The command phase between a ZMTP 3 greeting and traffic: parses frames and passes commands to the mechanism.

use super::{Context, HandshakeStep, State, peer};
use crate::error::{Error, Misbehaviour};
use crate::mechanism::{AuthorizationRequest, Mechanism, Outcome};
use crate::{Version, frame, metadata};

#[derive(Debug)]
pub(super) struct Commands {
    version: Version,
    as_server: bool,
    mechanism: Box<dyn Mechanism>,
}

impl Commands {
    pub(super) fn start(
        version: Version,
        as_server: bool,
        context: &mut Context<'_>,
    ) -> Result<HandshakeStep, Error> {
        let (config, metadata) = (context.config, own_metadata(context)?);
        let mechanism = config.mechanism.start(metadata, config.authorize, context.output)?;
        Commands { version, as_server, mechanism }.after(Outcome::Wait, context)
    }

    /// The pending decision of the caller, if any.
    pub(super) fn request(&self) -> Option<AuthorizationRequest<'_>> {
        self.mechanism.request()
    }

    pub(super) fn accept(mut self, context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
        let outcome = self.mechanism.accept(context.output);
        self.after(outcome, context)
    }

    fn after(self, outcome: Outcome, context: &Context<'_>) -> Result<HandshakeStep, Error> {
        match outcome {
            Outcome::Wait if self.request().is_some() => Ok(HandshakeStep::Ask(self)),
            Outcome::Wait => Ok(HandshakeStep::Next(State::Command(self))),
            Outcome::Ready(properties, traffic) => {
                let peer = peer::from_properties(self.version, self.as_server, properties, context.config)?;
                Ok(HandshakeStep::Done(peer, traffic))
            }
        }
    }

    pub(super) fn advance(mut self, unit: &[u8], context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
        let Some(header) = frame::parse(unit) else {
            let need = if unit[0] & frame::LONG == 0 { 2 } else { frame::MAX_HEADER };
            return Ok(HandshakeStep::Need(State::Command(self), need as u64));
        };
        if !header.is_command() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        if header.has_more() {
            return Err(Misbehaviour::CommandWithMore.into());
        }
        let len = (header.header_len as u64).saturating_add(header.body_len);
        if (unit.len() as u64) < len {
            return Ok(HandshakeStep::Need(State::Command(self), len));
        }
        let command = self.mechanism.parse(&unit[header.header_len..])?;
        let outcome = self.mechanism.receive(command, &context.config.limits, context.output)?;
        self.after(outcome, context)
    }
}

/// Sends Socket-Type, Identity where libzmq sends it, and the caller's properties. Nothing else, so that a peer
/// cannot tell us from libzmq.
fn own_metadata(context: &Context<'_>) -> Result<Vec<u8>, Error> {
    let config = context.config;
    let mut out = Vec::new();
    metadata::append(metadata::SOCKET_TYPE, config.socket_type.name().as_bytes(), &mut out);
    if config.socket_type.announces_routing_id() {
        metadata::append(metadata::IDENTITY, &config.routing_id, &mut out);
    }
    for (name, value) in &config.properties {
        metadata::encode(name, value, &mut out)?;
    }
    Ok(out)
}
