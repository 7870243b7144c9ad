//! The properties that two peers exchange at the end of the handshake (RFC 37, "Connection Metadata").
//!
//! A property is a name with a one-byte length, then a value with a four-byte big-endian length. Names have 1 to
//! 255 letters, digits, `-`, `_`, `.` or `+`, and are case-insensitive. (libzmq compares them exactly, so we send
//! the RFC's spelling.) Values are arbitrary bytes, fewer than 2^31.
//!
//! [`parse`] accepts a list only if all of it is valid. Its memory is bounded by the size of its input and by the
//! caller's limit on the number of properties. It does not interpret values.
//!
//! ```
//! use pinnace_zmtp::metadata;
//!
//! let mut out = Vec::new();
//! metadata::encode("Socket-Type", b"PUSH", &mut out)?;
//! let properties = metadata::parse(&out, 8)?;
//! assert_eq!(metadata::find(&properties, "socket-type"), Some(&b"PUSH"[..]));
//! # Ok::<(), pinnace_zmtp::Error>(())
//! ```

use crate::error::{Error, Misbehaviour, Misuse};

/// The name of the property with the peer's socket type.
pub const SOCKET_TYPE: &str = "Socket-Type";
/// The name of the property with the peer's routing id.
pub const IDENTITY: &str = "Identity";

const MAX_NAME: usize = 255;
const MAX_VALUE: usize = i32::MAX as usize;

/// Appends a property.
///
/// # Errors
/// [`Error::CallerMisuse`] if the name or the value is invalid.
pub fn encode(name: &str, value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_name_char) {
        return Err(Misuse::PropertyName.into());
    }
    if value.len() > MAX_VALUE {
        return Err(Misuse::PropertyTooLong { len: value.len() }.into());
    }
    append(name, value, out);
    Ok(())
}

/// Appends a property that is known to be valid.
pub(crate) fn append(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// Parses all properties; keeps their order and spelling.
///
/// # Errors
/// [`Error::PeerMisbehaved`] if a name is empty or has invalid characters, if a name or value reaches beyond the
/// end, if a value is too long, or if there are more than `max_properties`.
pub fn parse(mut bytes: &[u8], max_properties: usize) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut properties = Vec::new();
    while let Some((&name_len, rest)) = bytes.split_first() {
        if properties.len() == max_properties {
            return Err(Misbehaviour::TooManyProperties { limit: max_properties }.into());
        }
        let (name, rest) =
            rest.split_at_checked(usize::from(name_len)).ok_or(Misbehaviour::TruncatedProperty)?;
        let name = parse_name(name)?;
        let (value_len, rest) = rest.split_first_chunk().ok_or(Misbehaviour::TruncatedProperty)?;
        let value_len = u32::from_be_bytes(*value_len) as usize;
        if value_len > MAX_VALUE {
            return Err(Misbehaviour::PropertyTooLong { len: value_len }.into());
        }
        let (value, rest) = rest.split_at_checked(value_len).ok_or(Misbehaviour::TruncatedProperty)?;
        properties.push((name, value.to_vec()));
        bytes = rest;
    }
    Ok(properties)
}

/// The value of the first property with this name, ignoring case.
pub fn find<'a>(properties: &'a [(String, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    properties.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
}

fn parse_name(name: &[u8]) -> Result<String, Misbehaviour> {
    if name.is_empty() {
        return Err(Misbehaviour::EmptyPropertyName);
    }
    if !name.iter().copied().all(is_name_char) {
        return Err(Misbehaviour::PropertyName { name: name.to_vec() });
    }
    Ok(name.iter().copied().map(char::from).collect())
}

/// `name-char` in RFC 37, "The NULL Security Mechanism".
fn is_name_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+')
}
