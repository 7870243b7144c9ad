//! Sets and reads options by number, from the table's rows.

use pinnace_crypto::SecretKey;
use pinnace_zmtp::z85;

use super::spec::{Access, OptionKind, OptionSpec, SocketValue, Store, Then};
use super::{Options, TABLE};
use crate::error::{Error, Invalid};

/// What the socket has to do after an option was set.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Nothing: the value is stored in [`Options`].
    Stored,
    /// Inform the pattern (`configure`).
    Patterns,
    /// Update the high-water marks of existing pipes.
    Hwm,
    Subscribe(&'a [u8]),
    Unsubscribe(&'a [u8]),
}

/// The result of reading an option.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The value was written; its length in bytes.
    Value(usize),
    /// The socket knows the value and writes it with [`put_int`] or [`put_text`].
    Socket(SocketValue),
}

/// The table row of an option.
pub fn spec(number: i32) -> Option<&'static OptionSpec> {
    TABLE.binary_search_by_key(&number, |spec| spec.number).ok().map(|index| &TABLE[index])
}

/// Sets option `number` to `value`, which must have the length of its type. An empty value resets options that are
/// empty by default.
///
/// Errors: `Invalid` for an unknown number, a length or value out of range, or an option of other socket types.
pub fn set<'a>(options: &mut Options, number: i32, value: &'a [u8]) -> Result<Effect<'a>, Error> {
    let spec = spec(number).ok_or(Error::Invalid(Invalid::UnknownOption))?;
    if spec.access == Access::Get || !spec.fits(options) {
        return Err(Error::Invalid(Invalid::OptionOfOtherType));
    }
    match (&spec.store, spec.kind) {
        (Store::Subscribe, _) => return Ok(Effect::Subscribe(value)),
        (Store::Unsubscribe, _) => return Ok(Effect::Unsubscribe(value)),
        (Store::Absent | Store::Socket(_), _) => return Err(Error::Invalid(Invalid::OptionReadOnly)),
        (Store::Parsed(set), kind) => {
            bytes_in(kind, value)?;
            set(options, value)?;
        }
        (Store::Key(_, set) | Store::SecretKey(_, set), _) => set(options, &key_in(value)?),
        (Store::Int(_, set), kind) => set(options, int_in(kind, value)?),
        (Store::Int64(_, set), kind) => set(options, int64_in(kind, value)?),
        (Store::Bits(_, set), _) => set(options, u64::from_ne_bytes(exactly(value)?)),
        (Store::Text(_, set), kind) => set(options, text_in(kind, value)?),
        (Store::SecretText(_, set), kind) => set(options, text_of(kind, value)?.into()),
        (Store::Bytes(_, set), kind) => set(options, bytes_in(kind, value)?),
    }
    Ok(match spec.then {
        Then::Nothing => Effect::Stored,
        Then::Patterns => Effect::Patterns,
        Then::Hwm => Effect::Hwm,
    })
}

/// Writes the value of option `number` to the beginning of `value`.
///
/// Errors: `Invalid` if the number is unknown or cannot be read, or the value does not fit.
pub fn get(options: &Options, number: i32, value: &mut [u8]) -> Result<Lookup, Error> {
    let spec = spec(number).ok_or(Error::Invalid(Invalid::UnknownOption))?;
    if spec.access == Access::Set {
        return Err(Error::Invalid(Invalid::OptionWriteOnly));
    }
    spec.read(options, value)
}

/// Writes an int to the beginning of `value`; returns its length.
pub fn put_int(value: &mut [u8], number: i32) -> Result<usize, Error> {
    put(value, &number.to_ne_bytes())
}

/// Writes a text and a NUL to the beginning of `value`; returns the length with the NUL.
pub fn put_text(value: &mut [u8], text: &str) -> Result<usize, Error> {
    let room = value.get_mut(..=text.len()).ok_or(Error::Invalid(Invalid::Length))?;
    room[..text.len()].copy_from_slice(text.as_bytes());
    room[text.len()] = 0;
    Ok(text.len() + 1)
}

fn put(value: &mut [u8], bytes: &[u8]) -> Result<usize, Error> {
    value.get_mut(..bytes.len()).ok_or(Error::Invalid(Invalid::Length))?.copy_from_slice(bytes);
    Ok(bytes.len())
}

impl OptionSpec {
    /// Returns true if the socket's type has this option.
    fn fits(&self, options: &Options) -> bool {
        self.types.is_empty() || options.socket_type.is_none_or(|kind| self.types.contains(&kind))
    }

    /// As `get`, but also reads options that are set-only in the API.
    pub(super) fn read(&self, options: &Options, value: &mut [u8]) -> Result<Lookup, Error> {
        let len = match self.store {
            Store::Socket(known) => return Ok(Lookup::Socket(known)),
            Store::Int(get, _) => put_int(value, get(options)),
            Store::Int64(get, _) => put(value, &get(options).to_ne_bytes()),
            Store::Bits(get, _) => put(value, &get(options).to_ne_bytes()),
            Store::Text(get, _) => put_text(value, get(options)),
            Store::SecretText(get, _) => put_text(value, get(options).text()),
            Store::Bytes(get, _) => put(value, get(options)),
            Store::Key(get, _) | Store::SecretKey(get, _) => put_key(value, get(options)),
            Store::Parsed(_) | Store::Absent | Store::Subscribe | Store::Unsubscribe => {
                Err(Error::Invalid(Invalid::OptionWriteOnly))
            }
        };
        len.map(Lookup::Value)
    }
}

impl OptionKind {
    /// Writes the default value in the format of `get`.
    pub fn put_default(self, value: &mut [u8]) -> Result<usize, Error> {
        match self {
            OptionKind::Int { default, .. } => put_int(value, default),
            OptionKind::Int64 { default, .. } => put(value, &default.to_ne_bytes()),
            OptionKind::Bits { default } => put(value, &default.to_ne_bytes()),
            OptionKind::Text { .. } => put_text(value, ""),
            OptionKind::Bytes { .. } => Ok(0),
            OptionKind::Key => put_key(value, &[0; 32]),
        }
    }
}

fn exactly<const N: usize>(value: &[u8]) -> Result<[u8; N], Error> {
    value.try_into().map_err(|_| Error::Invalid(Invalid::Length))
}

fn int_in(kind: OptionKind, value: &[u8]) -> Result<i32, Error> {
    let number = i32::from_ne_bytes(exactly(value)?);
    match kind {
        OptionKind::Int { min, max, .. } if !(min..=max).contains(&number) => {
            Err(Error::Invalid(Invalid::Range))
        }
        _ => Ok(number),
    }
}

fn int64_in(kind: OptionKind, value: &[u8]) -> Result<i64, Error> {
    let number = i64::from_ne_bytes(exactly(value)?);
    match kind {
        OptionKind::Int64 { min, .. } if number < min => Err(Error::Invalid(Invalid::Range)),
        _ => Ok(number),
    }
}

/// Text from C: one trailing NUL is not part of it.
fn text_of(kind: OptionKind, value: &[u8]) -> Result<&str, Error> {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    let within = matches!(kind, OptionKind::Text { max } if value.len() <= max) && !value.contains(&0);
    if within {
        std::str::from_utf8(value).map_err(|_| Error::Invalid(Invalid::Text))
    } else {
        Err(Error::Invalid(Invalid::Text))
    }
}

fn text_in(kind: OptionKind, value: &[u8]) -> Result<String, Error> {
    let bytes = copy_of(text_of(kind, value)?.as_bytes())?;
    String::from_utf8(bytes).map_err(|_| Error::Invalid(Invalid::Text))
}

fn bytes_in(kind: OptionKind, value: &[u8]) -> Result<Vec<u8>, Error> {
    match kind {
        OptionKind::Bytes { min, max } if (min..=max).contains(&value.len()) => copy_of(value),
        _ => Err(Error::Invalid(Invalid::Length)),
    }
}

/// A copy; running out of memory is an error.
fn copy_of(value: &[u8]) -> Result<Vec<u8>, Error> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(value.len()).map_err(|_| Error::NoMemory)?;
    copy.extend_from_slice(value);
    Ok(copy)
}

/// A key as 32 bytes, or as text with or without a NUL. The key may be secret.
fn key_in(value: &[u8]) -> Result<SecretKey, Error> {
    if let Ok(key) = <&[u8; 32]>::try_from(value) {
        return Ok(SecretKey::copy_of(key));
    }
    let text = match value.len() {
        z85::KEY_TEXT => value,
        _ => value.strip_suffix(b"\0").ok_or(Error::Invalid(Invalid::Key))?,
    };
    let mut key = SecretKey::zeroed();
    z85::decode_key_into(text, &mut key).ok_or(Error::Invalid(Invalid::Key))?;
    Ok(key)
}

/// Writes a key as 32 bytes or as text with a NUL, whichever has exactly the length of `value`.
fn put_key(value: &mut [u8], key: &[u8; 32]) -> Result<usize, Error> {
    match value.len() {
        32 => put(value, key),
        TEXT_AND_NUL => {
            let (text, nul) = value.split_first_chunk_mut().ok_or(Error::Invalid(Invalid::Length))?;
            z85::encode_key_into(key, text);
            nul.fill(0);
            Ok(TEXT_AND_NUL)
        }
        _ => Err(Error::Invalid(Invalid::Length)),
    }
}

const TEXT_AND_NUL: usize = z85::KEY_TEXT + 1;
