//! Who is at the other end of a pipe.

use std::sync::Arc;

use pinnace_zmtp::Version;

/// What a peer said of itself in the handshake.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its routing id; empty where it gave none.
    pub routing_id: Vec<u8>,
    pub version: Version,
    /// The security mechanism's name.
    pub mechanism: &'static str,
    /// What its messages carry as properties (zmq_msg_gets(3)); None over inproc.
    pub about: Option<Arc<About>>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { routing_id: Vec::new(), version: Version::V3_1, mechanism: "NULL", about: None }
    }
}

/// The properties of a peer: those of its handshake, and what we know ourselves of its connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Names, and values with a NUL behind each, as C wants them.
    properties: Vec<(String, Vec<u8>)>,
}

impl About {
    /// A property; the last of its name counts.
    pub(crate) fn set(&mut self, name: &str, value: &[u8]) {
        self.properties.retain(|(other, _)| other != name);
        let mut text = value.to_vec();
        text.push(0);
        self.properties.push((name.to_owned(), text));
    }

    /// A property's value, with a NUL behind it; "Identity" is the old name of "Routing-Id", unless
    /// there is one that a ZAP handler has told.
    pub fn with_nul(&self, name: &str) -> Option<&[u8]> {
        let find = |name| self.properties.iter().find(|(other, _)| other == name);
        let found = find(name).or_else(|| find("Routing-Id").filter(|_| name == "Identity"));
        found.map(|(_, value)| value.as_slice())
    }

    /// A property's value.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.with_nul(name).map(|value| &value[..value.len() - 1])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.properties.iter().map(|(name, value)| (name.as_str(), &value[..value.len() - 1]))
    }
}
