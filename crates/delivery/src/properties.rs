//! What a message carries beside its body: an id, a content type, trace context, an ordering key and headers.
//!
//! A block of properties precedes the body of a message's first part, in the log and on the wire, if the part has the
//! flag PROPERTIES: after the envelope of a dead letter, and before a body that may be compressed.
//!
//! ```text
//! block    = length *property
//! property = number length value
//! number   = 1 id / 2 content type / 3 traceparent / 4 tracestate / 5 a header: key-length key value / 6 ordering key
//! ```
//!
//! Lengths are in bytes. Properties with other numbers are skipped.

use std::borrow::Cow;

use crate::Error;
use crate::client::Options;
use crate::wire::{BEGINS, Bytes, DEAD, NAME_MAX, PROPERTIES, put_counted, put_number};

const ID: u64 = 1;
const CONTENT_TYPE: u64 = 2;
const TRACEPARENT: u64 = 3;
const TRACESTATE: u64 = 4;
const HEADER: u64 = 5;
const ORDERING_KEY: u64 = 6;

/// The most headers of a message.
const HEADERS_MAX: usize = 64;
/// The longest id, content type, ordering key or key of a header, in bytes.
const TEXT_MAX: usize = 255;
/// The most bytes of a message's properties, keys of headers included.
const BYTES_MAX: usize = 16 << 10;
/// The longest block that is read, in bytes; those that are written are shorter.
const BLOCK_MAX: usize = 32 << 10;

/// The properties of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    id: Option<String>,
    content_type: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    ordering_key: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
}

impl Properties {
    /// The id that the sender gave it.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The content type of its body, such as `application/json`.
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The W3C trace context's `traceparent`.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The W3C trace context's `tracestate`.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The ordering key: messages to one with the same key go to the same receiver while it lives.
    pub fn ordering_key(&self) -> Option<&str> {
        self.ordering_key.as_deref()
    }

    /// The value of a header.
    pub fn header(&self, key: &str) -> Option<&[u8]> {
        self.headers().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// The headers, in the sender's order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.headers.iter().map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// Reads the block at the beginning of `body`. Returns its length too. None: it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<(Properties, usize)> {
        let mut from = Bytes::new(body);
        let block = from.counted().filter(|block| block.len() <= BLOCK_MAX)?;
        let (mut found, len) = (Properties::default(), body.len() - from.rest().len());
        let mut block = Bytes::new(block);
        while !block.is_empty() {
            let (number, value) = (block.number()?, block.counted()?);
            match number {
                ID => found.id = Some(text(value)?),
                CONTENT_TYPE => found.content_type = Some(text(value)?),
                TRACEPARENT => found.traceparent = Some(text(value)?),
                TRACESTATE => found.tracestate = Some(text(value)?),
                ORDERING_KEY => found.ordering_key = Some(text(value)?),
                HEADER => {
                    let mut header = Bytes::new(value);
                    let key = text(header.counted()?)?;
                    found.headers.push((key, header.rest().to_vec()));
                }
                _ => {}
            }
        }
        (found.headers.len() <= HEADERS_MAX).then_some((found, len))
    }
}

/// A text of UTF-8 without NUL, which also C can represent.
fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(str::to_owned)
}

/// The block of a message's properties; empty: it has none. Error: Property.
pub(crate) fn block_of(options: &Options<'_>) -> Result<Vec<u8>, Error> {
    let Options { id, content_type, traceparent, tracestate, ordering_key, headers, .. } = *options;
    // The sender reads the ordering key each time that it offers the message.
    let texts = [
        (ORDERING_KEY, ordering_key),
        (ID, id),
        (CONTENT_TYPE, content_type),
        (TRACEPARENT, traceparent),
        (TRACESTATE, tracestate),
    ];
    if headers.is_empty() && texts.iter().all(|(_, text)| text.is_none()) {
        return Ok(Vec::new());
    }
    check(options).map_err(Error::Property)?;
    let mut properties = Vec::new();
    for (number, text) in texts.iter().filter_map(|(number, text)| text.map(|text| (*number, text))) {
        put_number(&mut properties, number);
        put_counted(&mut properties, text.as_bytes());
    }
    for (key, value) in headers {
        let mut header = Vec::new();
        put_counted(&mut header, key.as_bytes());
        header.extend_from_slice(value);
        put_number(&mut properties, HEADER);
        put_counted(&mut properties, &header);
    }
    let mut block = Vec::new();
    put_counted(&mut block, &properties);
    Ok(block)
}

/// Err: what is wrong.
fn check(options: &Options<'_>) -> Result<(), &'static str> {
    let Options { id, content_type, traceparent, tracestate, ordering_key, headers, .. } = *options;
    let is_text = |text: &str| (1..=TEXT_MAX).contains(&text.len()) && !text.contains('\0');
    let is_repeated =
        |(at, (key, _)): (usize, &(&str, &[u8]))| headers[..at].iter().any(|(other, _)| other == key);
    let texts = [id, content_type, traceparent, tracestate, ordering_key];
    let bytes: usize = texts.iter().flatten().map(|text| text.len()).sum::<usize>()
        + headers.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    match () {
        () if !id.is_none_or(is_text) => Err("a message's id must have 1 to 255 bytes, and no NUL"),
        () if !content_type.is_none_or(is_text) => {
            Err("a message's content type must have 1 to 255 bytes, and no NUL")
        }
        () if !ordering_key.is_none_or(is_text) => {
            Err("a message's ordering key must have 1 to 255 bytes, and no NUL")
        }
        () if !traceparent.is_none_or(is_traceparent) => {
            Err("traceparent must be as in W3C Trace Context, such as \
                 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        }
        () if tracestate.is_some() && traceparent.is_none() => Err("tracestate needs traceparent"),
        () if !tracestate.is_none_or(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte))) => {
            Err("tracestate must be printable ASCII")
        }
        () if headers.len() > HEADERS_MAX => Err("a message has at most 64 headers"),
        () if !headers.iter().all(|(key, _)| is_text(key)) => {
            Err("the key of a header must have 1 to 255 bytes, and no NUL")
        }
        () if headers.iter().enumerate().any(is_repeated) => {
            Err("two headers of a message have the same key")
        }
        () if bytes > BYTES_MAX => Err(
            "a message's id, content type, trace context, ordering key and headers have at most 16384 bytes \
                 in all",
        ),
        () => Ok(()),
    }
}

/// Returns true for a `traceparent` of W3C Trace Context: version, trace id, parent id, flags. Later versions may
/// append fields.
fn is_traceparent(text: &str) -> bool {
    let is_hex = |field: &str, len: usize| {
        field.len() == len && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |field: &str, len: usize| is_hex(field, len) && field.bytes().any(|byte| byte != b'0');
    let fields: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags, more @ ..] = &fields[..] else { return false };
    let is_known = is_hex(version, 2) && *version != "ff" && (more.is_empty() || *version != "00");
    is_known && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2) && !text.contains('\0')
}

/// The length of the envelope with which the first part of a dead letter begins. None: it is malformed.
pub(crate) fn envelope_len(body: &[u8]) -> Option<usize> {
    let mut from = Bytes::new(body);
    from.text(NAME_MAX)?;
    from.text(NAME_MAX)?;
    from.byte()?;
    from.number()?;
    Some(body.len() - from.rest().len())
}

/// The id in the block at the beginning of a body.
pub(crate) fn id_in(body: &[u8]) -> Option<String> {
    let (properties, _) = Properties::read(body)?;
    properties.id
}

/// The ordering key of a message whose first part this is. A dead letter has none.
pub(crate) fn ordering_key_in(flags: u8, body: &[u8]) -> Option<&str> {
    if flags & (BEGINS | PROPERTIES | DEAD) != BEGINS | PROPERTIES {
        return None;
    }
    let mut block = Bytes::new(Bytes::new(body).counted()?);
    while !block.is_empty() {
        let (number, value) = (block.number()?, block.counted()?);
        if number == ORDERING_KEY {
            return std::str::from_utf8(value).ok();
        }
    }
    None
}

/// Where the block of a message's first part begins and ends. None: it is malformed.
fn ends_of(flags: u8, body: &[u8]) -> Option<(usize, usize)> {
    let begin = if flags & DEAD == 0 { 0 } else { envelope_len(body)? };
    let mut from = Bytes::new(&body[begin..]);
    from.counted()?;
    Some((begin, body.len() - from.rest().len()))
}

/// The length of the block in a part; 0: it has none, or a malformed one.
pub(crate) fn len_in(flags: u8, body: &[u8]) -> usize {
    match flags & (BEGINS | PROPERTIES) == BEGINS | PROPERTIES {
        true => ends_of(flags, body).map_or(0, |(begin, end)| end - begin),
        false => 0,
    }
}

/// A part without the block of its message.
pub(crate) fn without(flags: u8, body: &[u8]) -> (u8, Cow<'_, [u8]>) {
    let ends = if flags & BEGINS != 0 { ends_of(flags, body) } else { None };
    let rest = match ends {
        None => Cow::Borrowed(body),
        Some((0, end)) => Cow::Borrowed(&body[end..]),
        Some((envelope, end)) => Cow::Owned([&body[..envelope], &body[end..]].concat()),
    };
    (flags & !PROPERTIES, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn refused(options: &Options<'_>, part: &str) {
        match block_of(options) {
            Err(Error::Property(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("{other:?} for {options:?}"),
        }
    }

    #[test]
    fn properties_come_back() {
        assert_eq!(block_of(&Options::default()), Ok(Vec::new()));
        let headers = [("a", &b"\0\xff"[..]), ("ü", b"")];
        let options = Options {
            id: Some("7"),
            content_type: Some("text/plain"),
            traceparent: Some(TRACEPARENT),
            tracestate: Some("a=1,b=2"),
            ordering_key: Some("k"),
            headers: &headers,
            ..Options::default()
        };
        let mut bytes = block_of(&options).unwrap();
        let block = bytes.len();
        bytes.extend_from_slice(b"body");
        let (found, len) = Properties::read(&bytes).unwrap();
        assert_eq!((len, found.id(), found.content_type()), (block, Some("7"), Some("text/plain")));
        assert_eq!((found.traceparent(), found.tracestate()), (Some(TRACEPARENT), Some("a=1,b=2")));
        assert_eq!(found.headers().collect::<Vec<_>>(), headers);
        assert_eq!(found.ordering_key(), Some("k"));
        assert_eq!((found.header("ü"), found.header("b")), (Some(&b""[..]), None));
        for len in 0..block {
            assert_eq!(Properties::read(&bytes[..len]), None);
        }
        let flags = BEGINS | PROPERTIES;
        assert_eq!(ordering_key_in(flags, &bytes), Some("k"));
        assert_eq!(
            (ordering_key_in(flags | DEAD, &bytes), ordering_key_in(PROPERTIES, &bytes)),
            (None, None)
        );
        assert_eq!((len_in(flags, &bytes), len_in(PROPERTIES, &bytes)), (block, 0));
        assert_eq!(without(flags, &bytes), (BEGINS, b"body"[..].into()));
        assert_eq!(without(PROPERTIES, b"part"), (0, b"part"[..].into()));
        let letter = [b"\x01t\x01r\x00\x01", &bytes[..]].concat();
        assert_eq!(len_in(flags | DEAD, &letter), block);
        assert_eq!(without(flags | DEAD, &letter), (BEGINS | DEAD, b"\x01t\x01r\x00\x01body"[..].into()));
    }

    #[test]
    fn unknown_properties_are_skipped_and_malformed_ones_refused() {
        let (found, len) = Properties::read(b"\x07\x63\x02ab\x01\x017body").unwrap();
        assert_eq!((found.id(), len), (Some("7"), 8));
        for malformed in
            [&b""[..], b"\x03\x01\x05a", b"\x03\x01\x01\xff", b"\x03\x01\x01\0", b"\x03\x05\x01\x01"]
        {
            assert_eq!(Properties::read(malformed), None, "{malformed:?}");
        }
        let many: Vec<u8> = b"\x05\x02\x01a".repeat(HEADERS_MAX + 1);
        let mut block = Vec::new();
        put_counted(&mut block, &many);
        assert_eq!(Properties::read(&block), None);
    }

    #[test]
    fn limits_are_checked() {
        let (most, more) = ("k".repeat(255), "k".repeat(256));
        for (id, is_fine) in [("", false), ("a\0b", false), (&*more, false), (&*most, true)] {
            let options = Options { id: Some(id), ..Options::default() };
            assert_eq!(block_of(&options).is_ok(), is_fine, "{id:?}");
            let options = Options { content_type: Some(id), ..Options::default() };
            assert_eq!(block_of(&options).is_ok(), is_fine, "{id:?}");
            let options = Options { ordering_key: Some(id), ..Options::default() };
            assert_eq!(block_of(&options).is_ok(), is_fine, "{id:?}");
            let options = Options { headers: &[(id, b"")], ..Options::default() };
            assert_eq!(block_of(&options).is_ok(), is_fine, "{id:?}");
        }
        let keys: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        let headers: Vec<(&str, &[u8])> = keys.iter().map(|key| (key.as_str(), &b""[..])).collect();
        assert!(block_of(&Options { headers: &headers[..64], ..Options::default() }).is_ok());
        refused(&Options { headers: &headers, ..Options::default() }, "64 headers");
        refused(&Options { headers: &[("a", b""), ("a", b"")], ..Options::default() }, "same key");
        let value = vec![0; BYTES_MAX];
        assert!(block_of(&Options { headers: &[("a", &value[1..])], ..Options::default() }).is_ok());
        refused(&Options { headers: &[("a", &value)], ..Options::default() }, "16384 bytes");
        refused(&Options { tracestate: Some("a=1"), ..Options::default() }, "needs traceparent");
        let traceparent = Some(TRACEPARENT);
        refused(&Options { traceparent, tracestate: Some("ü"), ..Options::default() }, "ASCII");
    }

    #[test]
    fn trace_context_is_checked() {
        assert!(is_traceparent(TRACEPARENT));
        assert!(is_traceparent(&format!("01{}-more", &TRACEPARENT[2..])), "of a later version");
        let wrong = [
            String::new(),
            format!("{TRACEPARENT}-more"),
            format!("ff{}", &TRACEPARENT[2..]),
            TRACEPARENT.to_uppercase(),
            TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            TRACEPARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            TRACEPARENT[..54].to_owned(),
        ];
        for text in wrong {
            assert!(!is_traceparent(&text), "{text}");
        }
    }
}
