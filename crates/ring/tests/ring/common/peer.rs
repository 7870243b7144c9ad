//! A peer's bytes and their expected result, by a plain parser to compare with the one under test.

use pinnace_ring::{COMMAND, INLINE_MAX, Intake, LONG, MORE, Refused, Verdict};

/// The expected results of a stream, each with the number of bytes after which it is due.
#[derive(Debug, Default)]
pub struct Expected {
    /// Frames that can be read, in order. All frames of a message are due at its last byte.
    pub frames: Vec<(usize, u8, Vec<u8>)>,
    /// Commands that are passed to the callback.
    pub commands: Vec<(usize, Vec<u8>)>,
    pub refused: Option<(usize, Refused<&'static str>)>,
}

/// The first byte of a command's body selects the verdict.
pub fn on_command(body: &[u8]) -> Result<Verdict, &'static str> {
    match body.first() {
        Some(b'K') => Ok(Verdict::Keep),
        Some(b'R') => Err("refused"),
        _ => Ok(Verdict::Drop),
    }
}

/// Parses `stream` as the RFC says.
pub fn expect(stream: &[u8], max_body: u64) -> Expected {
    let mut expected = Expected::default();
    let mut message = Vec::new();
    let mut at = 0;
    loop {
        let rest = &stream[at..];
        let Some((flags, header, len)) = head(rest) else { return expected };
        let too_large = len > max_body || flags & COMMAND != 0 && len > INLINE_MAX as u64;
        if too_large {
            expected.refused = Some((at + header, Refused::TooLarge(len)));
            return expected;
        }
        let Some(body) = rest.get(header..header + len as usize) else { return expected };
        at += header + body.len();
        if flags & COMMAND == 0 {
            message.push((flags & MORE, body.to_vec()));
            if flags & MORE == 0 {
                expected.frames.extend(message.drain(..).map(|(flags, body)| (at, flags, body)));
            }
            continue;
        }
        expected.commands.push((at, body.to_vec()));
        match on_command(body) {
            Ok(Verdict::Drop) => {}
            Ok(Verdict::Last) => unreachable!("none is the last one here"),
            Ok(Verdict::Keep) if message.is_empty() => {
                expected.frames.push((at, COMMAND, body.to_vec()));
            }
            Ok(Verdict::Keep) => {
                expected.refused = Some((at, Refused::CommandInsideMessage));
                return expected;
            }
            Err(why) => {
                expected.refused = Some((at, Refused::Command(why)));
                return expected;
            }
        }
    }
}

fn head(bytes: &[u8]) -> Option<(u8, usize, u64)> {
    let (flags, short) = (*bytes.first()?, *bytes.get(1)?);
    if flags & LONG == 0 {
        return Some((flags, 2, u64::from(short)));
    }
    Some((flags, 9, u64::from_be_bytes(bytes.get(1..9)?.try_into().ok()?)))
}

/// How bytes are fed in.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Copied, as after a handshake.
    Feed,
    /// Read into both spaces at once.
    Read,
    /// Read into the first space only.
    ReadFirst,
}

/// Feeds at most `bytes`; returns how many there was space for.
pub fn put(intake: &mut Intake, bytes: &[u8], way: Way) -> usize {
    if let Way::Feed = way {
        intake.feed(bytes).unwrap();
        return bytes.len();
    }
    let (first, second) = intake.space().unwrap();
    assert!(first.len() + second.len() > 0, "there is always space to read into");
    let one = first.len().min(bytes.len());
    first[..one].copy_from_slice(&bytes[..one]);
    let mut two = 0;
    if one == first.len() && matches!(way, Way::Read) {
        two = second.len().min(bytes.len() - one);
        second[..two].copy_from_slice(&bytes[one..one + two]);
    }
    intake.filled(one + two);
    one + two
}
