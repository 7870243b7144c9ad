//! Reads files with secrets so that no copy stays in memory.
//!
//! A file is read completely or not at all: one that is too large is an error, not a truncated password.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use pinnace_crypto::SecretBytes;

use crate::outcome::{Failure, Outcome};

/// Bytes per read.
const CHUNK: usize = 4096;

/// Reads a whole file of at most `max` bytes.
pub fn read(file: &Path, max: usize) -> Outcome<SecretBytes> {
    let failed = |error| Failure::of(file.display(), error);
    let mut opened = File::open(file).map_err(failed)?;
    let (mut text, mut chunk) = (SecretBytes::new(), SecretBytes::zeroed(CHUNK));
    loop {
        match opened.read(&mut chunk) {
            Ok(0) => return Ok(text),
            Ok(len) => text.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
        if text.len() > max {
            return Err(Failure::of(file.display(), format!("too large: more than {max} bytes")));
        }
    }
}

/// The first line without its end, LF or CR LF.
pub fn first_line(text: &[u8]) -> &[u8] {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}
