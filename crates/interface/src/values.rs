//! Options that are set by name as text, so that new options need no new functions.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// Why an option was not set: there is none with this name, or the value is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unset(String);

impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unset {}

fn quoted(octets: &[u8]) -> String {
    format!("\"{}\"", octets.escape_ascii())
}

/// The type of an option's value.
pub enum Kind {
    Path,
    Text,
    Number {
        least: u64,
        most: u64,
    },
    /// As a number up to a day, or FOREVER.
    TimeOrForever,
    /// One of these words; the value is its index.
    OneOf(&'static [&'static str]),
}

pub enum Value {
    Path(PathBuf),
    Text(String),
    Number(u64),
}

/// An option: its name, the type of its value, and the function that applies the value to what is configured.
pub struct Key<P>(pub &'static str, pub Kind, pub fn(P, &Value) -> P);

pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;
pub const TIME: Kind = Kind::Number { least: 1, most: DAY_MS };
pub const TIME_OR_NONE: Kind = Kind::Number { least: 0, most: DAY_MS };
/// A time without limit, as text and as a number of milliseconds.
const FOREVER: (&str, u64) = ("forever", u64::MAX);
pub const FLAG: Kind = Kind::Number { least: 0, most: 1 };
pub const BYTES: Kind = Kind::Number { least: 0, most: u64::MAX };

impl Kind {
    /// On an error, returns a description of the accepted values.
    fn read(&self, value: &[u8]) -> Result<Value, String> {
        let text = std::str::from_utf8(value);
        match self {
            Kind::Path => Ok(Value::Path(PathBuf::from(OsStr::from_bytes(value)))),
            Kind::Text => text.map(|text| Value::Text(text.to_owned())).map_err(|_| "UTF-8".to_owned()),
            Kind::TimeOrForever if text == Ok(FOREVER.0) => Ok(Value::Number(FOREVER.1)),
            Kind::TimeOrForever => {
                TIME_OR_NONE.read(value).map_err(|wanted| format!("{wanted}, or {}", FOREVER.0))
            }
            Kind::OneOf(words) => {
                let index = words.iter().position(|word| text == Ok(*word));
                index.map(|at| Value::Number(at as u64)).ok_or_else(|| format!("one of {}", words.join(", ")))
            }
            Kind::Number { least, most } => {
                let digits = text.ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let number = digits.and_then(|text| text.parse().ok());
                let number = number.filter(|number| (least..=most).contains(&number));
                number.map(Value::Number).ok_or_else(|| format!("a number from {least} to {most}"))
            }
        }
    }
}

/// Each accessor requires the kind that the key has.
impl Value {
    pub fn path(&self) -> PathBuf {
        if let Value::Path(path) = self { path.clone() } else { PathBuf::new() }
    }

    pub fn text(&self) -> &str {
        if let Value::Text(text) = self { text } else { "" }
    }

    pub fn number(&self) -> u64 {
        if let Value::Number(number) = self { *number } else { 0 }
    }

    pub fn time(&self) -> Duration {
        match self.number() {
            number if number == FOREVER.1 => Duration::MAX,
            number => Duration::from_millis(number),
        }
    }
}

/// The options that are set, by their index in a table.
#[derive(Default)]
pub struct Settings(BTreeMap<usize, Value>);

impl Settings {
    pub fn set<P>(&mut self, keys: &[Key<P>], key: &[u8], value: &[u8]) -> Result<(), Unset> {
        let Some(at) = keys.iter().position(|Key(name, ..)| name.as_bytes() == key) else {
            let known: Vec<&str> = keys.iter().map(|Key(name, ..)| *name).collect();
            let words = format!("unknown option {}; the options are {}", quoted(key), known.join(", "));
            return Err(Unset(words));
        };
        let Key(name, kind, _) = &keys[at];
        let read = kind.read(value);
        let read = read.map_err(|wanted| Unset(format!("{name} must be {wanted}, not {}", quoted(value))))?;
        self.0.insert(at, read);
        Ok(())
    }

    /// Applies them in the order of the table.
    pub fn apply<P>(&self, keys: &[Key<P>], to: P) -> P {
        self.0.iter().fold(to, |to, (at, value)| keys[*at].2(to, value))
    }
}
