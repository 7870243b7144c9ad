//! Z85: encodes four bytes as five printable characters (RFC 32); used for CURVE keys.
//!
//! ```
//! use pinnace::z85;
//! assert_eq!(z85::encode(b"\x86\x4F\xD2\x6F\xB5\x59\xF7\x5B").unwrap(), "HelloWorld");
//! assert_eq!(z85::decode("HelloWorld").unwrap(), b"\x86\x4F\xD2\x6F\xB5\x59\xF7\x5B");
//! assert_eq!(z85::encode(b"three"), None);
//! ```

use pinnace_engine::z85;

/// Encodes bytes. None if their length is not a multiple of four.
pub fn encode(bytes: &[u8]) -> Option<String> {
    let (groups, rest) = bytes.as_chunks::<4>();
    let text = groups.iter().flat_map(|group| z85::encode(*group)).map(char::from);
    rest.is_empty().then(|| text.collect())
}

/// Decodes text. None if it is not valid Z85.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<5>();
    let bytes: Option<Vec<[u8; 4]>> = groups.iter().map(|group| z85::decode(*group)).collect();
    bytes.filter(|_| rest.is_empty()).map(|groups| groups.concat())
}

/// Encodes a key as 40 characters.
pub fn encode_key(key: &[u8; 32]) -> String {
    z85::encode_key(key).into_iter().map(char::from).collect()
}

/// Decodes a key. None if the text is not a valid key.
pub fn decode_key(text: &str) -> Option<[u8; 32]> {
    z85::decode_key(text.as_bytes())
}
