//! A request: a subscription of this implementation, with what RFC 35 has no field for, as options of ICANHAZ.
//!
//! Other servers ignore the options and take the request as a subscription to its path.

use super::hash::HashWriter;
use super::{Hash, Message};
use crate::names::{name_of, value_of};

/// The option that marks a request, and its value.
const EXTENSION: &[u8] = b"pinnace";
const EXTENSION_VERSION: &[u8] = b"1";

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Files as they are now; then the request ends.
    Fetch,
    /// The names and attributes below a path; then the request ends.
    List,
    /// As `List`; then what changes below the path is told, until the request is cancelled.
    Follow,
    /// The request of the same number ends.
    Cancel,
    /// Nothing, but `source` is offered: the server fetches it to the path.
    Upload,
    /// Nothing: the server ends it at once. So a client knows which of its greetings the server has answered.
    Greet,
}

impl Mode {
    const NAMES: [(&'static [u8], Mode); 6] = [
        (b"fetch", Mode::Fetch),
        (b"list", Mode::List),
        (b"follow", Mode::Follow),
        (b"cancel", Mode::Cancel),
        (b"greet", Mode::Greet),
        (b"upload", Mode::Upload),
    ];

    fn name(self) -> &'static [u8] {
        name_of(&Mode::NAMES, self).unwrap_or_default()
    }

    fn of_name(name: &[u8]) -> Option<Mode> {
        value_of(&Mode::NAMES, name)
    }
}

/// A request. Empty fields are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The client's number for it; replies carry the number.
    pub number: u32,
    pub mode: Mode,
    /// A virtual path, which begins with a slash.
    pub path: Vec<u8>,
    /// Names below the path, if only these are asked for.
    pub names: Vec<Vec<u8>>,
    /// The most octets of a chunk; 0: the server chooses.
    pub chunk: u32,
    /// The parts of the file that are asked for, as offsets: first, and end (exclusive). Empty: all.
    pub ranges: Vec<(u64, u64)>,
    /// The version of the file that the ranges belong to.
    pub tag: Vec<u8>,
    /// For `Upload`: the virtual path at which the client offers the file or folder.
    pub source: Vec<u8>,
}

impl Request {
    pub fn new(number: u32, mode: Mode, path: &[u8]) -> Request {
        Request {
            number,
            mode,
            path: path.to_vec(),
            names: Vec::new(),
            chunk: 0,
            ranges: Vec::new(),
            tag: Vec::new(),
            source: Vec::new(),
        }
    }

    /// Its frame.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut options = HashWriter::default();
        options.put(EXTENSION, EXTENSION_VERSION);
        options.put(b"request", self.number.to_string().as_bytes());
        options.put(b"mode", self.mode.name());
        if !self.names.is_empty() {
            options.put(b"names", &self.names.join(&0));
        }
        if self.chunk > 0 {
            options.put(b"chunk", self.chunk.to_string().as_bytes());
        }
        if !self.ranges.is_empty() {
            let ranges: Vec<String> =
                self.ranges.iter().map(|(first, end)| format!("{first}-{end}")).collect();
            options.put(b"ranges", ranges.join(",").as_bytes());
        }
        for (name, value) in [(&b"tag"[..], &self.tag), (b"source", &self.source)] {
            if !value.is_empty() {
                options.put(name, value);
            }
        }
        Message::Icanhaz { path: &self.path, options: options.hash(), cache: Hash::EMPTY }.to_frame()
    }

    /// Reads the options of ICANHAZ. None: it is no request but a subscription of RFC 35. Error: what is wrong.
    pub fn read(path: &[u8], options: Hash<'_>) -> Option<Result<Request, &'static str>> {
        options.get("pinnace")?;
        Some(Request::read_options(path, options))
    }

    fn read_options(path: &[u8], options: Hash<'_>) -> Result<Request, &'static str> {
        let number = options.get("request").and_then(decimal).ok_or("a request without a number")?;
        let mode = options.get("mode").and_then(Mode::of_name).ok_or("a request of an unknown mode")?;
        let mut request = Request::new(number, mode, path);
        for (name, value) in options.iter() {
            match name {
                b"names" => request.names = value.split(|octet| *octet == 0).map(<[u8]>::to_vec).collect(),
                b"chunk" => request.chunk = decimal(value).ok_or("an invalid size of chunks")?,
                b"ranges" => request.ranges = ranges(value).ok_or("invalid ranges")?,
                b"tag" => request.tag = value.to_vec(),
                b"source" => request.source = value.to_vec(),
                _ => {}
            }
        }
        Ok(request)
    }
}

/// A decimal number: digits only.
pub(super) fn decimal<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// Ranges in increasing order, none of them empty.
fn ranges(text: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let mut least = 0;
    for range in text.split(|octet| *octet == b',') {
        let dash = range.iter().position(|octet| *octet == b'-')?;
        let (first, end): (u64, u64) = (decimal(&range[..dash])?, decimal(&range[dash + 1..])?);
        if first < least || end <= first {
            return None;
        }
        least = end;
        ranges.push((first, end));
    }
    Some(ranges)
}
