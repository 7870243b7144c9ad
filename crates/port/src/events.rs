//! Events of a transfer of files as messages of three frames: what happened in numbers, a path, and another name or a
//! text (docs/port.md).

use pinnace_files::client::{Event, Report};
use pinnace_interface::errno;

use crate::wire::{PART_MAX, frame_header};

/// The number of a kind of event; as in C. None: of a later version, or the end of the transfer.
pub fn kind_of(event: &Event) -> Option<u8> {
    Some(match event {
        Event::Listed(_) => 1,
        Event::Begun { .. } => 2,
        Event::Progress { .. } => 3,
        Event::Finished { .. } => 4,
        Event::Removed { .. } => 5,
        Event::Moved { .. } => 6,
        Event::Planned { .. } => 7,
        Event::Current => 8,
        Event::Failed { .. } => 9,
        Event::Linked { .. } => 12,
        Event::Lost(_) => 13,
        _ => return None,
    })
}

/// The first frame.
#[derive(Default)]
struct About<'a> {
    /// It happened here too, failed here, or is a removal.
    flag: bool,
    /// The kind of a name.
    node: u8,
    error: i32,
    mode: u32,
    bytes: u64,
    mtime_ns: i64,
    digest: &'a [u8],
}

impl About<'_> {
    fn octets(&self, kind: u8) -> Vec<u8> {
        let mut octets = vec![kind, self.flag.into(), self.node];
        octets.extend_from_slice(&self.error.to_be_bytes());
        octets.extend_from_slice(&self.mode.to_be_bytes());
        octets.extend_from_slice(&self.bytes.to_be_bytes());
        octets.extend_from_slice(&self.mtime_ns.to_be_bytes());
        octets.extend_from_slice(self.digest);
        octets
    }
}

/// An event as a message.
pub fn encoded(kind: u8, event: &Event) -> Vec<u8> {
    let (mut about, mut path, mut other) = (About::default(), &b""[..], &b""[..]);
    let text;
    match event {
        Event::Listed(listed) => {
            (path, other) = (&listed.name, &listed.target);
            (about.node, about.mode) = (listed.kind as u8, listed.mode);
            (about.bytes, about.mtime_ns) = (listed.size, listed.mtime_ns);
        }
        Event::Begun { path: begun, size } => (path, about.bytes) = (begun.as_bytes(), *size),
        Event::Progress { bytes } => about.bytes = *bytes,
        Event::Finished { path: finished, size, digest } => {
            (path, about.bytes, about.digest) = (finished.as_bytes(), *size, digest);
        }
        Event::Removed { path: removed, here } => (path, about.flag) = (removed.as_bytes(), *here),
        Event::Moved { from, to, here } => {
            (path, other, about.flag) = (from.as_bytes(), to.as_bytes(), *here);
        }
        Event::Planned { path: planned, removal } => (path, about.flag) = (planned.as_bytes(), *removal),
        Event::Linked { path: linked, first } => (path, other) = (linked.as_bytes(), first.as_bytes()),
        Event::Failed { path: failed, error } => {
            (path, other) = (failed.as_bytes(), error.text.as_bytes());
            (about.error, about.flag) = (errno::of_code(error.code), error.here);
        }
        Event::Lost(error) => {
            about.error = errno::of_files(error);
            text = error.to_string();
            other = text.as_bytes();
        }
        _ => {}
    }
    let frames = [&about.octets(kind)[..], path, other];
    let mut message = Vec::with_capacity(frames.iter().map(|frame| frame.len() + 4).sum());
    for (index, frame) in frames.iter().enumerate() {
        // A frame of file transfer has at most 2 MiB, and so has a name.
        message.extend_from_slice(&frame_header(frame.len(), index + 1 < frames.len()).unwrap_or_default());
        message.extend_from_slice(frame);
    }
    message
}

/// A report: the counts, and the first failures, as many as have room in a packet.
pub fn report(of: &Report) -> Vec<u8> {
    let counts = [of.files, of.bytes, of.failed.len() as u64];
    let mut values = counts.map(u64::to_be_bytes).concat();
    for (path, error) in &of.failed {
        let before = values.len();
        values.push(error.here.into());
        values.extend_from_slice(&errno::of_code(error.code).to_be_bytes());
        for text in [path.as_bytes(), error.text.as_bytes()] {
            values.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            values.extend_from_slice(text);
        }
        if values.len() > PART_MAX {
            values.truncate(before);
            break;
        }
    }
    values
}
