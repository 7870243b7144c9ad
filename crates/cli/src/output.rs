//! Writes messages to standard output: lines, JSON, raw bytes, hexadecimal digits.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pinnace::{Frame, Interest, Message, PollItem};
use serde_json::{Value, json};

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

/// Buffered standard output; `flush` writes the buffer.
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

    pub fn write(&mut self, message: &Message) -> Outcome {
        self.try_write(message).map_err(|error| Failure::of_output(&error))
    }

    fn try_write(&mut self, message: &Message) -> io::Result<()> {
        match self.format {
            Format::Raw => message.iter().try_for_each(|frame| self.out.write_all(frame)),
            Format::Json => writeln!(self.out, "{}", to_json(message)),
            Format::Lines => self.line(message.iter().map(|frame| &frame[..])),
            Format::Hex => {
                let frames: Vec<String> = message.iter().map(|frame| hex(frame)).collect();
                self.line(frames.iter().map(String::as_bytes))
            }
        }
    }

    fn line<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        write_joined(&mut self.out, frames, self.separator)?;
        self.out.write_all(b"\n")
    }

    pub fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(|error| Failure::of_output(&error))
    }
}

/// Writes bytes unchanged, and flushes.
pub fn print(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::of_output(&error))
}

/// Bytes for a terminal, as `ls -b` has them, but with blanks: control characters and bytes that are not UTF-8 as `\n`,
/// `\t` or `\` and three octal digits; a backslash as two.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                control if control.is_control() => {
                    control.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| octal(&mut text, byte));
                }
                other => text.push(other),
            }
        }
        chunk.invalid().iter().for_each(|byte| octal(&mut text, *byte));
    }
    text
}

fn octal(text: &mut String, byte: u8) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "\\{byte:03o}");
}

/// Writes frames, with `separator` between them.
fn write_joined<'a>(
    out: &mut impl Write,
    frames: impl Iterator<Item = &'a [u8]>,
    separator: u8,
) -> io::Result<()> {
    for (index, frame) in frames.enumerate() {
        if index > 0 {
            out.write_all(&[separator])?;
        }
        out.write_all(frame)?;
    }
    Ok(())
}

/// The frames of a message, joined by `separator`.
pub fn joined(message: &Message, separator: u8) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a `Vec` cannot fail.
    let _ = write_joined(&mut text, message.iter().map(|frame| &frame[..]), separator);
    text
}

/// A poll item that is over when the reader of standard output is gone.
pub fn end_item() -> PollItem<'static> {
    PollItem::fd(rustix::stdio::stdout(), Interest::default())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes as text, or as {"base64":"..."} if they are not UTF-8.
pub fn json_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

/// The frames, and the routing id (SERVER, PEER) and group (DISH) if present.
fn to_json(message: &Message) -> Value {
    let mut object =
        json!({ "frames": message.iter().map(|frame: &Frame| json_of(frame)).collect::<Vec<_>>() });
    if message.routing_id() != 0 {
        object["routing_id"] = json!(message.routing_id());
    }
    if !message.group().is_empty() {
        object["group"] = json_of(message.group());
    }
    object
}
