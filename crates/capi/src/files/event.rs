//! Events of a transfer, as C sees them.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use pinnace_files::client::Event;
use pinnace_interface::errno;

use crate::call_error::{CallError, c_text};

/// pinnace_files_event_t.
#[repr(C)]
pub struct EventT {
    size: usize,
    kind: c_int,
    error: c_int,
    path: *const c_char,
    other: *const c_char,
    text: *const c_char,
    files: u64,
    bytes: u64,
    failed: u64,
    here: c_int,
    removal: c_int,
    node: c_int,
    mode: u32,
    mtime_ns: i64,
    digest: [u8; 32],
}

/// The texts that C's struct points to.
#[derive(Default)]
pub(super) struct EventTexts {
    path: CString,
    other: CString,
    text: CString,
}

const BLANK: EventT = EventT {
    size: 0,
    kind: 0,
    error: 0,
    path: ptr::null(),
    other: ptr::null(),
    text: ptr::null(),
    files: 0,
    bytes: 0,
    failed: 0,
    here: 0,
    removal: 0,
    node: 0,
    mode: 0,
    mtime_ns: 0,
    digest: [0; 32],
};

/// Keeps a text for C.
fn keep(at: &mut CString, text: CString) -> *const c_char {
    *at = text;
    at.as_ptr()
}

/// A name of any bytes; without a NUL, which no file system has.
fn name(bytes: Vec<u8>) -> CString {
    CString::new(bytes).unwrap_or_else(|_| c"?".into())
}

impl EventT {
    /// `size`: of the caller's struct. None: a kind of event that C does not know.
    pub(super) fn new(event: Event, texts: &mut EventTexts, size: usize) -> Option<EventT> {
        let blank = EventT { size, ..BLANK };
        let path = |texts: &mut EventTexts, path: &str| keep(&mut texts.path, c_text(path));
        Some(match event {
            Event::Listed(listed) => EventT {
                kind: 1,
                path: keep(&mut texts.path, name(listed.name)),
                other: keep(&mut texts.other, name(listed.target)),
                bytes: listed.size,
                node: listed.kind as c_int,
                mode: listed.mode,
                mtime_ns: listed.mtime_ns,
                ..blank
            },
            Event::Begun { path: begun, size } => {
                EventT { kind: 2, path: path(texts, &begun), bytes: size, ..blank }
            }
            Event::Progress { bytes } => EventT { kind: 3, bytes, ..blank },
            Event::Finished { path: finished, size, digest } => {
                EventT { kind: 4, path: path(texts, &finished), bytes: size, digest, ..blank }
            }
            Event::Removed { path: removed, here } => {
                EventT { kind: 5, path: path(texts, &removed), here: here.into(), ..blank }
            }
            Event::Moved { from, to, here } => EventT {
                kind: 6,
                path: path(texts, &from),
                other: keep(&mut texts.other, c_text(&to)),
                here: here.into(),
                ..blank
            },
            Event::Planned { path: planned, removal } => {
                EventT { kind: 7, path: path(texts, &planned), removal: removal.into(), ..blank }
            }
            Event::Current => EventT { kind: 8, ..blank },
            Event::Failed { path: failed, error } => EventT {
                kind: 9,
                path: path(texts, &failed),
                error: errno::of_code(error.code),
                text: keep(&mut texts.text, c_text(&error.text)),
                here: error.here.into(),
                ..blank
            },
            Event::Ended(report) => EventT {
                kind: 10,
                files: report.files,
                bytes: report.bytes,
                failed: report.failed.len() as u64,
                ..blank
            },
            Event::Aborted(error) => {
                let CallError { number, words } = error.into();
                EventT { kind: 11, error: number, text: keep(&mut texts.text, c_text(&words)), ..blank }
            }
            Event::Lost(error) => {
                let CallError { number, words } = error.into();
                EventT { kind: 13, error: number, text: keep(&mut texts.text, c_text(&words)), ..blank }
            }
            Event::Linked { path: linked, first } => EventT {
                kind: 12,
                path: path(texts, &linked),
                other: keep(&mut texts.other, c_text(&first)),
                ..blank
            },
            _ => return None,
        })
    }
}
