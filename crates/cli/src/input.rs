//! Parses bytes into messages: lines, NUL-terminated texts, whole inputs, frames, JSON.
//!
//! An input is read as it arrives, at most [`CHUNK`] bytes at a time, and a message must not exceed the given
//! limit: standard input may be endless, and so may a line. A failed allocation is an error; it does not end the
//! process.

use std::collections::{TryReserveError, VecDeque};
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::Read;
use std::mem;
use std::os::fd::AsFd;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pinnace::{Frame, Message};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::outcome::{Failure, Outcome};
use crate::signals::Signals;
use crate::sockets::{readable, wait};
use crate::table::Separator;

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// The longest group name, in bytes; a RADIO drops messages for longer names.
pub const GROUP_MAX: usize = 255;

/// How the input is split into messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    At(u8),
    Whole,
}

/// Splits a stream of bytes at a delimiter, with a limit on the piece length.
pub struct Cutter {
    held: Vec<u8>,
    /// Offsets in `held`: the end of the returned pieces, and how far it was searched for a delimiter.
    start: usize,
    searched: usize,
    max: usize,
}

/// Why a piece was rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It exceeds the limit.
    TooLong { max: usize },
    /// Out of memory.
    NoMemory,
}

impl Display for Unfit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::TooLong { max } => write!(f, "longer than {max} bytes (--max)"),
            Unfit::NoMemory => f.write_str("too large for the available memory"),
        }
    }
}

impl From<TryReserveError> for Unfit {
    fn from(_: TryReserveError) -> Unfit {
        Unfit::NoMemory
    }
}

impl Cutter {
    pub fn new(max: usize) -> Cutter {
        Cutter { held: Vec::new(), start: 0, searched: 0, max }
    }

    /// Appends input.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        self.held.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.held.try_reserve(bytes.len())?;
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// The next piece up to and including `end`.
    pub fn next(&mut self, end: u8) -> Result<Option<Vec<u8>>, Unfit> {
        let found = self.held[self.searched..].iter().position(|&byte| byte == end);
        let Some(found) = found else {
            self.searched = self.held.len();
            return self.fits(self.len()).map(|()| None);
        };
        let (from, to) = (self.start, self.searched + found + 1);
        (self.start, self.searched) = (to, to);
        self.fits(to - from - 1)?;
        copy_of(&self.held[from..to]).map(Some)
    }

    /// Checks a piece length against the limit.
    pub fn fits(&self, len: usize) -> Result<(), Unfit> {
        if len > self.max { Err(Unfit::TooLong { max: self.max }) } else { Ok(()) }
    }

    /// The remaining bytes without a delimiter. Not copied, because they may be large.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = mem::take(&mut self.held);
        rest.drain(..self.start);
        (self.start, self.searched) = (0, 0);
        rest
    }

    /// Number of complete pieces, each ending in `end`, that are buffered.
    pub fn count(&self, end: u8) -> u64 {
        self.held[self.start..].iter().filter(|&&byte| byte == end).count() as u64
    }

    /// Number of buffered bytes.
    pub fn len(&self) -> usize {
        self.held.len() - self.start
    }
}

/// Files and standard input, concatenated.
pub struct Input {
    names: VecDeque<OsString>,
    open: Option<(String, File)>,
    cutter: Cutter,
    framing: Framing,
    chunk: Vec<u8>,
}

impl Input {
    /// `-` is standard input; no names at all also mean standard input.
    pub fn new(names: Vec<OsString>, framing: Framing, max: usize) -> Input {
        let names = if names.is_empty() { vec!["-".into()] } else { names };
        Input { names: names.into(), open: None, cutter: Cutter::new(max), framing, chunk: vec![0; CHUNK] }
    }

    /// The next message's bytes, without its delimiter; `None` at the end of all input.
    pub fn next(&mut self, signals: &Signals) -> Outcome<Option<Vec<u8>>> {
        loop {
            let Some((name, file)) = &mut self.open else {
                let Some(name) = self.names.pop_front() else { return Ok(None) };
                self.open = Some(open(&name)?);
                continue;
            };
            let unfit = |why| Failure::of(&name, format!("a message is {why}"));
            match self.framing {
                Framing::At(end) => {
                    if let Some(mut piece) = self.cutter.next(end).map_err(unfit)? {
                        piece.pop();
                        return Ok(Some(piece));
                    }
                }
                Framing::Whole => self.cutter.fits(self.cutter.len()).map_err(unfit)?,
            }
            wait(vec![readable(file.as_fd())], signals, None)?;
            match file.read(&mut self.chunk) {
                Ok(0) => {
                    self.open = None;
                    let rest = self.cutter.rest();
                    if self.framing == Framing::Whole || !rest.is_empty() {
                        return Ok(Some(rest));
                    }
                }
                Ok(len) => self.cutter.push(&self.chunk[..len]).map_err(unfit)?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(Failure::of(&name, error)),
            }
        }
    }
}

fn open(name: &OsString) -> Outcome<(String, File)> {
    if name == "-" {
        let what = "standard input".to_owned();
        let fd = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| Failure::of(&what, error))?;
        return Ok((what, fd.into()));
    }
    let what = name.display().to_string();
    let file = File::open(name).map_err(|error| Failure::of(&what, error))?;
    Ok((what, file))
}

/// A message of one frame, or of several frames if there is a separator.
pub fn split(bytes: Vec<u8>, separator: Option<Separator>) -> Outcome<Message> {
    let Some(separator) = separator else { return Ok(Message::from(bytes)) };
    let frames: Result<Vec<Frame>, Unfit> =
        bytes.split(|&byte| byte == separator.byte()).map(|frame| copy_of(frame).map(Frame::from)).collect();
    frames.map(Message::from).map_err(|why| Failure::of("input", format!("a message is {why}")))
}

fn copy_of(bytes: &[u8]) -> Result<Vec<u8>, Unfit> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// The fields of a JSON line; unknown and duplicate fields are errors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    frames: Vec<Value>,
    group: Option<Value>,
    /// Printed by `recv` for another socket's peer; ignored here.
    #[serde(rename = "routing_id")]
    _routing_id: Option<IgnoredAny>,
}

/// Parses a message as `recv --json` prints it.
pub fn from_json(line: &[u8]) -> Outcome<Message> {
    let wrong = |why: &str| {
        let shown: String = String::from_utf8_lossy(line).chars().take(60).collect();
        Failure::of("input", format!("{why}: {shown}"))
    };
    let line: Line = serde_json::from_slice(line).map_err(|error| wrong(&error.to_string()))?;
    if line.frames.is_empty() {
        return Err(wrong("must be an object with \"frames\""));
    }
    let encoded = |frame: &Value| match frame.as_object() {
        Some(object) if object.len() == 1 => object.get("base64")?.as_str().map(str::to_owned),
        _ => None,
    };
    let frame = |frame: &Value| match (frame.as_str(), encoded(frame)) {
        (Some(text), _) => Ok(Frame::from(text)),
        (None, Some(text)) => {
            BASE64_STANDARD.decode(text).map(Frame::from).map_err(|error| wrong(&error.to_string()))
        }
        (None, None) => Err(wrong("a frame or group must be a string, or an object with \"base64\"")),
    };
    let message = line.frames.iter().map(frame).collect::<Outcome<Vec<Frame>>>().map(Message::from)?;
    let Some(group) = line.group else { return Ok(message) };
    let group = frame(&group)?;
    if group.len() > GROUP_MAX {
        return Err(wrong(&format!("a group has at most {GROUP_MAX} bytes")));
    }
    Ok(message.to_group(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_however_they_came_in() {
        let text = b"one\n\nthree is longer\nrest";
        for step in 1..=text.len() {
            let (mut cutter, mut pieces) = (Cutter::new(15), Vec::new());
            for bytes in text.chunks(step) {
                cutter.push(bytes).unwrap();
                while let Some(piece) = cutter.next(b'\n').unwrap() {
                    pieces.push(piece);
                }
            }
            assert_eq!(pieces, [&b"one\n"[..], b"\n", b"three is longer\n"]);
            assert_eq!(cutter.rest(), b"rest");
        }
    }

    #[test]
    fn nothing_above_the_limit_is_kept_or_handed_out() {
        let mut cutter = Cutter::new(3);
        cutter.push(b"abc\nabcd\n").unwrap();
        assert_eq!(cutter.next(b'\n'), Ok(Some(b"abc\n".to_vec())));
        assert_eq!(cutter.next(b'\n'), Err(Unfit::TooLong { max: 3 }));
        let mut cutter = Cutter::new(3);
        cutter.push(b"abcd").unwrap();
        assert_eq!(cutter.next(b'\n'), Err(Unfit::TooLong { max: 3 }));
    }
}
