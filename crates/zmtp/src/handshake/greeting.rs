//! The greeting, and the peer's version that follows from it (RFC 37, "Version Negotiation").
//!
//! | bytes received | meaning | what we send |
//! | --- | --- | --- |
//! | none | | signature: `FF`, length of our identity frame, `7F` |
//! | 1: not `FF` | ZMTP 1.0; a short identity frame has begun | our identity, as the body of our signature's frame |
//! | 10: last one even | ZMTP 1.0; a long identity frame has begun | the same |
//! | 10: last one odd | 2.0 or later | major version 3 |
//! | 11: last one 0 | ZMTP 1.0 after a signature, as in libzmq | socket type, 1.0 identity frame |
//! | 11: last one 1 | ZMTP 2.0 | socket type, 2.0 identity frame |
//! | 11: last one 2 or more | ZMTP 3.x | minor version, mechanism, as-server, filler |
//! | 64 | minor version 0: ZMTP 3.0, else 3.1; the mechanism | what the mechanism sends |
//!
//! RFC 37 also assigns revision 2 to ZMTP 2.0. libzmq answers 2 with a greeting of ZMTP 3, and so do we: no known
//! implementation sends it.
//!
//! ZMTP 1.0 has no magic number, so the first bytes of a peer that speaks another protocol may look like an
//! identity frame. Raise [`oldest_version`](super::Limits::oldest_version) to reject such peers.

use super::{Context, HandshakeStep, State, commands, identity};
use crate::error::{Error, Incompatibility};
use crate::{SocketType, Version};

const SIGNATURE_LEN: usize = 10;
const REVISION: usize = 10;
const MINOR: usize = 11;
const SOCKET_TYPE: usize = 11;
const MECHANISM: std::ops::Range<usize> = 12..32;
const AS_SERVER: usize = 32;
const FILLER_LEN: usize = 31;

const V2_LEN: u64 = 12;
const V3_LEN: u64 = 64;

/// How much of the peer's greeting has been parsed.
#[derive(Debug)]
pub(super) enum Greeting {
    FirstByte,
    Signature,
    Revision,
    /// The twelve bytes of a greeting with a socket type: revision 0 or 1.
    Short(Version),
    /// The 64 bytes of a greeting of ZMTP 3.
    Long,
}

/// Sends the signature and waits for the peer's first byte.
pub(super) fn start(context: &mut Context<'_>) -> State {
    let identity_len = context.config.routing_id.len() as u64 + 1;
    context.output.raw(&[0xff]);
    context.output.raw(&identity_len.to_be_bytes());
    context.output.raw(&[0x7f]);
    State::Greeting(Greeting::FirstByte)
}

impl Greeting {
    pub(super) fn advance(self, unit: &[u8], context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
        match self {
            Greeting::FirstByte if unit[0] == 0xff => Ok(need(Greeting::Signature, SIGNATURE_LEN as u64)),
            Greeting::FirstByte => unversioned(unit, context),
            Greeting::Signature if unit[SIGNATURE_LEN - 1] & 1 == 0 => unversioned(unit, context),
            Greeting::Signature => {
                context.output.raw(&[3]);
                Ok(need(Greeting::Revision, REVISION as u64 + 1))
            }
            Greeting::Revision => revision(unit[REVISION], context),
            Greeting::Short(version) => short(version, unit[SOCKET_TYPE], context),
            Greeting::Long => long(unit, context),
        }
    }
}

/// A peer that sends no signature: its bytes are the head of its identity frame.
fn unversioned(unit: &[u8], context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
    accept_version(Version::V1_0, context)?;
    context.output.raw(&context.config.routing_id);
    identity::Identity::new(Version::V1_0, None).advance(unit)
}

fn revision(revision: u8, context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
    let version = match revision {
        0 => Version::V1_0,
        1 => Version::V2_0,
        _ => {
            send_rest_of_v3(context);
            return Ok(need(Greeting::Long, V3_LEN));
        }
    };
    accept_version(version, context)?;
    context.output.raw(&[context.config.socket_type as u8]);
    if version.uses_v1_framing() {
        context.output.v1_message(&context.config.routing_id);
    } else {
        context.output.message(&context.config.routing_id);
    }
    Ok(need(Greeting::Short(version), V2_LEN))
}

fn send_rest_of_v3(context: &mut Context<'_>) {
    let config = context.config;
    let mut mechanism = [0; MECHANISM.end - MECHANISM.start];
    mechanism[..config.mechanism.name().len()].copy_from_slice(config.mechanism.name().as_bytes());
    context.output.raw(&[1]);
    context.output.raw(&mechanism);
    context.output.raw(&[u8::from(config.mechanism.is_server())]);
    context.output.raw(&[0; FILLER_LEN]);
}

/// After revision 0 the socket type has no defined meaning, and libzmq ignores it. For ZMTP 2.0, RFC 15, "Socket
/// Compatibility", requires the check. libzmq omits it, but the connection would be useless.
fn short(version: Version, number: u8, context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
    let socket_type = if version == Version::V1_0 {
        None
    } else {
        let theirs = SocketType::from_number(number)
            .ok_or_else(|| Incompatibility::UnknownSocketType { theirs: vec![number], version })?;
        super::peer::accept_socket_type(context.config.socket_type, theirs, version)?;
        Some(theirs)
    };
    Ok(HandshakeStep::Next(State::Identity(identity::Identity::new(version, socket_type))))
}

fn long(unit: &[u8], context: &mut Context<'_>) -> Result<HandshakeStep, Error> {
    let version = match (unit[REVISION], unit[MINOR]) {
        (3, 0) => Version::V3_0,
        _ => Version::V3_1,
    };
    accept_version(version, context)?;
    let (ours, theirs) = (context.config.mechanism.name(), mechanism_name(&unit[MECHANISM]));
    if theirs != ours.as_bytes() {
        return Err(Incompatibility::Mechanism { ours, theirs: theirs.to_vec() }.into());
    }
    // RFC 37 has 0 or 1 here; libzmq always sends 0 and never reads it. So 0 says nothing about the peer. If both sides
    // send 1, both are servers and would wait for each other. The filler is not checked: a later version may give it a
    // meaning.
    let as_server = unit[AS_SERVER] != 0;
    if as_server && context.config.mechanism.is_server() {
        return Err(Incompatibility::TwoServers { mechanism: ours }.into());
    }
    commands::Commands::start(version, as_server, context)
}

/// The field without the trailing zeros. An inner zero stays, and makes a name that no mechanism has.
fn mechanism_name(field: &[u8]) -> &[u8] {
    let len = field.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &field[..len]
}

fn accept_version(theirs: Version, context: &Context<'_>) -> Result<(), Error> {
    let oldest = context.config.oldest_version();
    if theirs < oldest { Err(Incompatibility::Version { theirs, oldest }.into()) } else { Ok(()) }
}

fn need(greeting: Greeting, len: u64) -> HandshakeStep {
    HandshakeStep::Need(State::Greeting(greeting), len)
}
