//! Statistics as JSON (RFC 8259): one object, with the names of the structs. Durations are in microseconds, byte
//! strings in hexadecimal.

use std::fmt::{self, Display, Write};

use super::{PeerStats, Stats, Traffic};
use crate::drops::{Drops, Reason};
use crate::medium::Medium;

/// A quoted, escaped text.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Bytes as quoted hexadecimal text.
struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_char('"')
    }
}

impl Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic { messages, bytes, queued } = self;
        write!(f, "{{\"messages\":{messages},\"bytes\":{bytes},\"queued\":{queued}}}")
    }
}

impl Display for Drops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}\"{}\":{}", reason.name(), self.of(reason))?;
        }
        f.write_char('}')
    }
}

impl Display for PeerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (endpoint, address) = (Text(&self.endpoint), Text(&self.address));
        write!(f, "{{\"number\":{},\"endpoint\":{endpoint},\"address\":{address}", self.number)?;
        write!(f, ",\"routing_id\":{},\"user_id\":{}", Hex(&self.routing_id), Hex(&self.user_id))?;
        match &self.socket_type {
            Some(name) => write!(f, ",\"socket_type\":{}", Text(name))?,
            None => f.write_str(",\"socket_type\":null")?,
        }
        write!(f, ",\"mechanism\":{},\"version\":{}", Text(self.mechanism), Text(&self.version.to_string()))?;
        write!(f, ",\"connected\":{},\"reconnects\":{}", self.connected, self.reconnects)?;
        write!(f, ",\"received\":{},\"sent\":{},\"drops\":{}", self.received, self.sent, self.drops)?;
        match self.medium {
            Some(medium) => write!(f, ",\"medium\":{}", Text(medium.name()))?,
            None => f.write_str(",\"medium\":null")?,
        }
        match self.medium.and_then(Medium::fallback_reason) {
            Some(reason) => write!(f, ",\"fallback_reason\":{}", Text(reason))?,
            None => f.write_str(",\"fallback_reason\":null")?,
        }
        match self.round_trip {
            Some(time) => write!(f, ",\"round_trip_us\":{}}}", time.as_micros()),
            None => f.write_str(",\"round_trip_us\":null}"),
        }
    }
}

impl Stats {
    /// As JSON, on one line.
    pub fn to_json(&self) -> String {
        self.to_string()
    }
}

impl Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"socket_type\":{}", Text(self.socket_type.name()))?;
        write!(f, ",\"received\":{},\"sent\":{},\"drops\":{}", self.received, self.sent, self.drops)?;
        f.write_str(",\"events\":{")?;
        for (index, (name, count)) in self.events.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}\"{name}\":{count}")?;
        }
        write!(f, "}},\"events_dropped\":{},\"ended_peers\":{}", self.events_dropped, self.ended_peers)?;
        f.write_str(",\"peers\":[")?;
        for (index, peer) in self.peers.iter().enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            peer.fmt(f)?;
        }
        f.write_str("]}")
    }
}
