//! Security mechanisms (RFC 37, "Authentication and Confidentiality"): what happens between greeting and
//! traffic.
//!
//! A mechanism is one file with its state. It is told of every command that the peer sends, in order, may
//! append frames to the output, and ends the handshake by handing over the peer's properties. It never sees
//! message frames and never more bytes than the handshake's limit. A new mechanism is a variant of
//! [`MechanismConfig`] with what it needs to know (keys, names), a variant of [`Mechanism`] with its state,
//! and a line in each function here.

mod null;

use crate::command::Command;
use crate::error::Error;
use crate::handshake::Limits;

/// Which security mechanism a socket wants, and what it needs for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MechanismConfig {
    /// No security: RFC 37, "The NULL Security Mechanism".
    #[default]
    Null,
}

impl MechanismConfig {
    /// The name, as it stands in the greeting: at most 20 bytes.
    pub fn name(&self) -> &'static str {
        match self {
            MechanismConfig::Null => "NULL",
        }
    }

    /// Whether clients and servers differ. If not, the greeting's as-server field is zero (RFC 37,
    /// "Topology").
    pub(crate) fn has_roles(&self) -> bool {
        match self {
            MechanismConfig::Null => false,
        }
    }

    /// Whether peers before ZMTP 3.0 may take part: with NULL alone (RFC 37, "Detecting ZMTP 1.0 and 2.0
    /// Peers").
    pub(crate) fn allows_old_versions(&self) -> bool {
        match self {
            MechanismConfig::Null => true,
        }
    }
}

/// A running mechanism.
#[derive(Debug)]
pub(crate) enum Mechanism {
    Null(null::Null),
}

/// What a mechanism makes of a command.
pub(crate) enum Outcome {
    /// The handshake is over; these are the peer's properties.
    Ready(Vec<(String, Vec<u8>)>),
}

impl Mechanism {
    /// Starts the mechanism right after the greetings. `metadata` is what we have to tell the peer.
    pub(crate) fn start(config: &MechanismConfig, metadata: &[u8], output: &mut Vec<u8>) -> Mechanism {
        match config {
            MechanismConfig::Null => Mechanism::Null(null::Null::start(metadata, output)),
        }
    }

    pub(crate) fn receive(&mut self, command: Command<'_>, limits: &Limits) -> Result<Outcome, Error> {
        match self {
            Mechanism::Null(null) => null.receive(command, limits),
        }
    }
}
