//! Files with secrets in them, read so that no copy stays behind, and the names of options that hold some.
//!
//! A file is read whole or not at all: one that is too large is an error, and never a password that lost its end.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use pinnace::OptionSpec;
use pinnace_crypto::SecretBytes;

use crate::outcome::{Failure, Outcome};

/// How much of a file is read at a time.
const CHUNK: usize = 4096;

/// All of a file of at most `max` bytes.
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

/// A line without its end, LF or CR LF.
pub fn first_line(text: &[u8]) -> &[u8] {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether the value of an option is not for the eyes of whoever reads our errors.
pub fn is_secret(option: &OptionSpec) -> bool {
    ["PASSWORD", "SECRET", "KEY_PEM"].iter().any(|part| option.name.contains(part))
}
