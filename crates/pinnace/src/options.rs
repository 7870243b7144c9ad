//! Options by name, from the engine's table: converts between Rust values and the bytes of libzmq's API.

use std::time::Duration;

use pinnace_engine::{OPTIONS, OptionKind, OptionSpec};

use crate::{Error, Invalid};

/// The value of an option. Integers, bools, durations, text and bytes convert to it.
///
/// ```
/// use std::time::Duration;
/// use pinnace::Value;
/// assert_eq!(Value::from(Duration::from_secs(1)), Value::Int(1000)); // libzmq counts in milliseconds.
/// assert_eq!(Value::from(true), Value::Int(1));
/// assert_eq!(Value::from("eth0").text(), Some("eth0"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer, a bool (0 or 1), or a duration in milliseconds (-1: none).
    Int(i64),
    /// Text. For an option that is a number or a key, the value is parsed from it.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// The integer.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, of a text as well.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text) => Some(text.as_bytes()),
            Value::Bytes(bytes) => Some(bytes),
            Value::Int(_) => None,
        }
    }

    /// Encodes the value for an option of this kind.
    pub(crate) fn encode(self, kind: OptionKind) -> Result<Vec<u8>, Error> {
        let number = match kind {
            OptionKind::Text { .. } | OptionKind::Bytes { .. } | OptionKind::Key => {
                return match self {
                    Value::Text(text) => Ok(text.into_bytes()),
                    Value::Bytes(bytes) => Ok(bytes),
                    Value::Int(_) => Err(Error::Invalid(Invalid::ValueType)),
                };
            }
            OptionKind::Int { .. } | OptionKind::Int64 { .. } | OptionKind::Bits { .. } => match self {
                Value::Int(number) => number,
                Value::Text(text) => text.trim().parse().map_err(|_| Error::Invalid(Invalid::ValueType))?,
                Value::Bytes(_) => return Err(Error::Invalid(Invalid::ValueType)),
            },
        };
        Ok(match kind {
            OptionKind::Int { .. } => {
                i32::try_from(number).map_err(|_| Error::Invalid(Invalid::Range))?.to_ne_bytes().to_vec()
            }
            _ => number.to_ne_bytes().to_vec(),
        })
    }
}

macro_rules! from_numbers {
    ($($type:ty)*) => {$(
        impl From<$type> for Value {
            fn from(number: $type) -> Value {
                Value::Int(number.into())
            }
        }
    )*};
}
from_numbers!(bool u8 u16 u32 i8 i16 i32 i64);

impl From<Duration> for Value {
    /// Milliseconds, rounded up so that a short duration does not become zero.
    fn from(time: Duration) -> Value {
        let whole = time.as_millis();
        let more = u128::from(!time.subsec_nanos().is_multiple_of(1_000_000));
        Value::Int(i64::try_from(whole + more).map_or(i32::MAX.into(), |ms| ms.min(i32::MAX.into())))
    }
}

impl From<Option<Duration>> for Value {
    /// None: infinite or never, depending on the option.
    fn from(time: Option<Duration>) -> Value {
        time.map_or(Value::Int(-1), Value::from)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes)
    }
}

/// Finds an option by libzmq's name, in any case, with or without `ZMQ_`. Errors: Invalid for an unknown name.
pub fn find(name: &str) -> Result<&'static OptionSpec, Error> {
    let name = name.get(..4).filter(|start| start.eq_ignore_ascii_case("ZMQ_")).map_or(name, |_| &name[4..]);
    OPTIONS
        .iter()
        .find(|spec| spec.name.eq_ignore_ascii_case(name))
        .ok_or(Error::Invalid(Invalid::UnknownOption))
}

/// Buffer size for text and bytes; longer values can be set but not read.
const ROOM: usize = 64 * 1024;

pub(crate) fn read(socket: pinnace_engine::Socket, spec: &OptionSpec) -> Result<Value, Error> {
    let fixed = |len: usize| {
        let mut room = [0; 32];
        socket.get_option(spec.number, &mut room[..len]).map(|_| room)
    };
    let first = |room: [u8; 32]| <[u8; 8]>::try_from(&room[..8]).unwrap_or_default();
    Ok(match spec.kind {
        OptionKind::Int { .. } => {
            let [a, b, c, d, ..] = fixed(4)?;
            Value::Int(i32::from_ne_bytes([a, b, c, d]).into())
        }
        OptionKind::Int64 { .. } | OptionKind::Bits { .. } => {
            Value::Int(i64::from_ne_bytes(first(fixed(8)?)))
        }
        OptionKind::Key => Value::Bytes(fixed(32)?.to_vec()),
        OptionKind::Text { .. } | OptionKind::Bytes { .. } => {
            let mut room = vec![0; ROOM];
            let len = socket.get_option(spec.number, &mut room)?;
            room.truncate(len);
            if matches!(spec.kind, OptionKind::Bytes { .. }) {
                return Ok(Value::Bytes(room));
            }
            room.pop(); // The NUL.
            String::from_utf8(room).map_or_else(|error| Value::Bytes(error.into_bytes()), Value::Text)
        }
    })
}
