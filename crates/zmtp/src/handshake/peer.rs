//! What a handshake learns about the peer, and the checks on it.

use super::{Config, MAX_ROUTING_ID};
use crate::error::{Error, Incompatibility, Misbehaviour};
use crate::{SocketType, Version, metadata};

/// What the handshake has learned about the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The version that the connection speaks.
    pub version: Version,
    /// The security mechanism's name; "NULL" for versions that have none.
    pub mechanism: &'static str,
    /// The peer's socket type, compatible with ours. `None` if the peer sent none, as in ZMTP 1.0.
    pub socket_type: Option<SocketType>,
    /// The peer's routing id: 0 to 255 arbitrary bytes.
    pub routing_id: Vec<u8>,
    /// All properties that the peer sent, including Socket-Type and Identity, in their order and spelling.
    pub properties: Vec<(String, Vec<u8>)>,
    /// Whether the peer announces to be the mechanism's server. libzmq never does.
    pub as_server: bool,
}

impl Peer {
    /// The value of a property; the name is case-insensitive.
    pub fn property(&self, name: &str) -> Option<&[u8]> {
        metadata::find(&self.properties, name)
    }

    /// A peer of ZMTP 1.0 or 2.0.
    pub(super) fn without_properties(
        version: Version,
        socket_type: Option<SocketType>,
        routing_id: &[u8],
    ) -> Peer {
        Peer {
            version,
            mechanism: "NULL",
            socket_type,
            routing_id: routing_id.to_vec(),
            properties: Vec::new(),
            as_server: false,
        }
    }
}

/// A peer of ZMTP 3.x. Like libzmq, we do not require a Socket-Type (RFC 37: "SHOULD specify").
pub(super) fn from_properties(
    version: Version,
    as_server: bool,
    properties: Vec<(String, Vec<u8>)>,
    config: &Config,
) -> Result<Peer, Error> {
    let socket_type = match find_once(&properties, metadata::SOCKET_TYPE)? {
        Some(name) => Some(parse_socket_type(name, version)?),
        None => None,
    };
    if let Some(theirs) = socket_type {
        accept_socket_type(config.socket_type, theirs, version)?;
    }
    let routing_id = find_once(&properties, metadata::IDENTITY)?.unwrap_or_default().to_vec();
    accept_routing_id(&routing_id)?;
    Ok(Peer { version, mechanism: config.mechanism.name(), socket_type, routing_id, properties, as_server })
}

/// RFC 37, "The Identity Property": at most 255 bytes. The RFC also forbids a leading zero byte. libzmq accepts it,
/// and a socket that generates such ids has to keep them unique anyway.
pub(super) fn accept_routing_id(routing_id: &[u8]) -> Result<(), Error> {
    if routing_id.len() > MAX_ROUTING_ID {
        return Err(Misbehaviour::RoutingIdTooLong { len: routing_id.len() as u64 }.into());
    }
    Ok(())
}

pub(super) fn accept_socket_type(
    ours: SocketType,
    theirs: SocketType,
    version: Version,
) -> Result<(), Error> {
    if ours.compatible(theirs) {
        Ok(())
    } else {
        Err(Incompatibility::SocketType { ours, theirs, version }.into())
    }
}

fn parse_socket_type(name: &[u8], version: Version) -> Result<SocketType, Error> {
    const SHOWN: usize = 32;
    SocketType::from_name(name).ok_or_else(|| {
        let theirs = name[..name.len().min(SHOWN)].to_vec();
        Incompatibility::UnknownSocketType { theirs, version }.into()
    })
}

/// A property that affects the connection must not occur twice, because the two could differ.
fn find_once<'a>(properties: &'a [(String, Vec<u8>)], name: &'static str) -> Result<Option<&'a [u8]>, Error> {
    let count = properties.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).count();
    if count > 1 {
        return Err(Misbehaviour::DuplicateProperty { name }.into());
    }
    Ok(metadata::find(properties, name))
}
