//! Messages to standard output: lines, JSON, raw bytes, hexadecimal digits.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pinnace_engine::{POLLERR, PollItem};
use serde_json::{Value, json};

use crate::face::fd_item;
use crate::outcome::{Failure, Outcome};
use crate::table::{OutputArgs, ReplyArgs};

const BUFFER: usize = 64 << 10;

#[derive(Clone, Copy)]
enum Format {
    Lines,
    Json,
    Raw,
    Hex,
}

/// Standard output. What was written is out after `flush`.
pub struct Output {
    out: BufWriter<io::Stdout>,
    format: Format,
    separator: u8,
}

impl Output {
    pub fn new(given: &OutputArgs) -> Output {
        let format = match given {
            OutputArgs { json: true, .. } => Format::Json,
            OutputArgs { raw: true, .. } => Format::Raw,
            OutputArgs { hex: true, .. } => Format::Hex,
            _ => Format::Lines,
        };
        let separator = given.frames.map_or(b'\t', |separator| separator.byte());
        Output { out: BufWriter::with_capacity(BUFFER, io::stdout()), format, separator }
    }

    pub fn for_replies(given: &ReplyArgs) -> Output {
        let (json, raw, hex) = (given.reply_json, given.reply_raw, given.reply_hex);
        Output::new(&OutputArgs { json, raw, hex, frames: None })
    }

    pub fn write(&mut self, message: &[Vec<u8>]) -> Outcome {
        self.try_write(message).map_err(|error| Failure::of_output(&error))
    }

    fn try_write(&mut self, message: &[Vec<u8>]) -> io::Result<()> {
        match self.format {
            Format::Raw => message.iter().try_for_each(|frame| self.out.write_all(frame)),
            Format::Json => writeln!(self.out, "{}", to_json(message)),
            Format::Lines => self.line(message.iter().map(Vec::as_slice)),
            Format::Hex => {
                let frames: Vec<String> = message.iter().map(|frame| hex(frame)).collect();
                self.line(frames.iter().map(String::as_bytes))
            }
        }
    }

    fn line<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        for (index, frame) in frames.enumerate() {
            if index > 0 {
                self.out.write_all(&[self.separator])?;
            }
            self.out.write_all(frame)?;
        }
        self.out.write_all(b"\n")
    }

    pub fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(|error| Failure::of_output(&error))
    }
}

/// For a wait: ready for POLLERR when nobody reads our output any more.
pub fn end_item() -> PollItem<'static> {
    fd_item(rustix::stdio::stdout(), 0)
}

/// What `end_item` found: nobody reads.
pub fn is_end(ready: i16) -> bool {
    ready & POLLERR != 0
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn to_json(message: &[Vec<u8>]) -> Value {
    let frame = |frame: &Vec<u8>| match std::str::from_utf8(frame) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(frame) }),
    };
    json!({ "frames": message.iter().map(frame).collect::<Vec<_>>() })
}
