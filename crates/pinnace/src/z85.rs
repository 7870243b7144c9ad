//! Z85: bytes as printable text, four to five (RFC 32); keys are written so.
//!
//! ```
//! use pinnace::z85;
//! assert_eq!(z85::encode(b"\x86\x4F\xD2\x6F\xB5\x59\xF7\x5B").unwrap(), "HelloWorld");
//! assert_eq!(z85::decode("HelloWorld").unwrap(), b"\x86\x4F\xD2\x6F\xB5\x59\xF7\x5B");
//! assert_eq!(z85::encode(b"three"), None);
//! ```

use pinnace_engine::z85;

/// Bytes as text. None where their number is not a multiple of four.
pub fn encode(bytes: &[u8]) -> Option<String> {
    let (groups, rest) = bytes.as_chunks::<4>();
    let text = groups.iter().flat_map(|group| z85::encode(*group)).map(char::from);
    rest.is_empty().then(|| text.collect())
}

/// Bytes from their text. None where it is not such a text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<5>();
    let bytes: Option<Vec<[u8; 4]>> = groups.iter().map(|group| z85::decode(*group)).collect();
    bytes.filter(|_| rest.is_empty()).map(|groups| groups.concat())
}

/// A key as text of 40 characters.
pub fn encode_key(key: &[u8; 32]) -> String {
    z85::encode_key(key).into_iter().map(char::from).collect()
}

/// A key from its text. None where it is not one.
pub fn decode_key(text: &str) -> Option<[u8; 32]> {
    z85::decode_key(text.as_bytes())
}
