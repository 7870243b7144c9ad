//! Versions of ZMTP and their capabilities.

use std::fmt;

/// The version of ZMTP that a connection speaks: the lower of the two sides' versions.
///
/// Versions are ordered: `version >= Version::V3_0` tests whether commands exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 13: what libzmq 2.x speaks. Its own frame format ([`v1`](crate::v1)), no socket types.
    ///
    /// Such a peer may not forward its subscriptions: libzmq's PUB and XPUB treat it as subscribed to everything.
    V1_0,
    /// RFC 15: what libzmq 3.2 speaks. Frames as in 3.x, subscriptions as messages, no commands.
    V2_0,
    /// RFC 23: what libzmq 4.0 and 4.1 speak. Mechanisms and commands; subscriptions are still messages.
    V3_0,
    /// RFC 37: what libzmq 4.2 and later speak. Subscriptions and heartbeats are commands.
    V3_1,
}

impl Version {
    /// Whether frames have the ZMTP 1.0 format ([`v1`](crate::v1)) instead of that of [`frame`](crate::frame).
    pub fn uses_v1_framing(self) -> bool {
        self == Version::V1_0
    }

    /// Whether command frames exist, and with them ERROR and heartbeats.
    ///
    /// RFC 37 has heartbeats only in 3.1; libzmq sends PING to 3.0 peers as well.
    pub fn has_commands(self) -> bool {
        self >= Version::V3_0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1_0 => "1.0",
            Version::V2_0 => "2.0",
            Version::V3_0 => "3.0",
            Version::V3_1 => "3.1",
        })
    }
}
