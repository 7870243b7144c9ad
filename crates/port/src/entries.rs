//! Statistics as the client gets them.

use serde_json::Value;

/// Pairs of a name and a number or text. Dots in a name separate levels.
pub struct Entries<'a>(&'a mut Vec<u8>);

impl<'a> Entries<'a> {
    pub fn new(values: &'a mut Vec<u8>) -> Entries<'a> {
        Entries(values)
    }

    fn octets(&mut self, octets: &[u8]) {
        self.0.extend_from_slice(&u32::try_from(octets.len()).unwrap_or(u32::MAX).to_be_bytes());
        self.0.extend_from_slice(octets);
    }

    pub fn number(&mut self, name: &str, value: u64) {
        self.octets(name.as_bytes());
        self.0.push(0);
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub fn text(&mut self, name: &str, value: &[u8]) {
        self.octets(name.as_bytes());
        self.0.push(1);
        self.octets(value);
    }

    pub fn traffic(&mut self, name: &str, traffic: pinnace_engine::Traffic) {
        self.number(&format!("{name}.messages"), traffic.messages);
        self.number(&format!("{name}.bytes"), traffic.bytes);
        self.number(&format!("{name}.queued"), traffic.queued);
    }

    pub fn drops(&mut self, name: &str, drops: pinnace_engine::Drops) {
        for reason in pinnace_engine::Reason::ALL {
            self.number(&format!("{name}.{}", reason.name()), drops.of(reason));
        }
    }

    /// The members of a JSON value: elements of a list are named by their index. Null has no entry.
    pub fn json(&mut self, name: &str, value: &Value) {
        let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match value {
            Value::Null => {}
            Value::Bool(value) => self.number(name, (*value).into()),
            // Shares are told in whole numbers.
            Value::Number(value) => self.number(name, value.as_u64().unwrap_or_default()),
            Value::String(value) => self.text(name, value.as_bytes()),
            Value::Array(values) => {
                values
                    .iter()
                    .enumerate()
                    .for_each(|(index, value)| self.json(&below(&index.to_string()), value));
            }
            Value::Object(members) => members.iter().for_each(|(key, value)| self.json(&below(key), value)),
        }
    }
}
