//! The peer at the other end of a pipe.

use std::sync::Arc;

use pinnace_zmtp::Version;

/// What a peer announced in the handshake.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its routing id; empty if it announced none.
    pub routing_id: Vec<u8>,
    pub version: Version,
    /// The security mechanism's name.
    pub mechanism: &'static str,
    /// The properties of its messages (zmq_msg_gets(3)); None over inproc.
    pub about: Option<Arc<About>>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { routing_id: Vec::new(), version: Version::V3_1, mechanism: "NULL", about: None }
    }
}

/// The properties of a peer: those of its handshake, and those of its connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Records in one allocation, since each connection has some: the lengths of name and value (four bytes each),
    /// the name, the value, and a NUL for C.
    packed: Vec<u8>,
}

/// Bytes of a record's two lengths.
const LENGTHS: usize = 8;

impl About {
    /// Sets a property; replaces an earlier value of the same name.
    pub(crate) fn set(&mut self, name: &str, value: &[u8]) {
        if let Some((at, end)) = self.find(name) {
            self.packed.drain(at..end);
        }
        self.packed.reserve_exact(LENGTHS + name.len() + value.len() + 1);
        for len in [name.len(), value.len()] {
            self.packed.extend_from_slice(&(len as u32).to_ne_bytes());
        }
        self.packed.extend_from_slice(name.as_bytes());
        self.packed.extend_from_slice(value);
        self.packed.push(0);
    }

    /// Start and end of the record with this name.
    fn find(&self, name: &str) -> Option<(usize, usize)> {
        let mut at = 0;
        for (known, value) in self.records() {
            let end = at + LENGTHS + known.len() + value.len();
            if known == name.as_bytes() {
                return Some((at, end));
            }
            at = end;
        }
        None
    }

    /// The records: name, and value with its NUL.
    fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.packed.as_slice();
        std::iter::from_fn(move || {
            let (lengths, behind) = rest.split_first_chunk::<LENGTHS>()?;
            let [name, value] = [0, 4].map(|at| {
                u32::from_ne_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]) as usize
            });
            let (name, behind) = behind.split_at(name);
            let (value, behind) = behind.split_at(value + 1);
            rest = behind;
            Some((name, value))
        })
    }

    /// A property's value, followed by a NUL. "Identity" is the old name of "Routing-Id", unless a ZAP handler has
    /// set a property of that name.
    pub fn with_nul(&self, name: &str) -> Option<&[u8]> {
        let find = |name: &str| self.records().find(|(other, _)| *other == name.as_bytes());
        let found = find(name).or_else(|| find("Routing-Id").filter(|_| name == "Identity"));
        found.map(|(_, value)| value)
    }

    /// A property's value.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.with_nul(name).map(|value| &value[..value.len() - 1])
    }

    /// All properties.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let all = self.records().map(|(name, value)| (std::str::from_utf8(name), &value[..value.len() - 1]));
        all.filter_map(|(name, value)| Some((name.ok()?, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::About;

    #[test]
    fn the_last_value_of_a_name_counts() {
        let mut about = About::default();
        for (name, value) in [("one", &b"first"[..]), ("two", b"a\0b"), ("one", b""), ("", b"nameless")] {
            about.set(name, value);
        }
        let all: Vec<(&str, &[u8])> = about.iter().collect();
        assert_eq!(all, [("two", &b"a\0b"[..]), ("one", b""), ("", b"nameless")]);
        assert_eq!(about.with_nul("two"), Some(&b"a\0b\0"[..]));
        assert_eq!(
            (about.get("one"), about.get(""), about.get("t")),
            (Some(&b""[..]), Some(&b"nameless"[..]), None)
        );
    }

    #[test]
    fn identity_is_the_routing_id_unless_it_is_told() {
        let mut about = About::default();
        assert_eq!(about.get("Identity"), None);
        about.set("Routing-Id", b"me");
        assert_eq!(about.get("Identity"), Some(&b"me"[..]));
        about.set("Identity", b"somebody");
        assert_eq!(
            (about.get("Identity"), about.get("Routing-Id")),
            (Some(&b"somebody"[..]), Some(&b"me"[..]))
        );
    }
}
