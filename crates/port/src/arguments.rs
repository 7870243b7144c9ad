//! Arguments that several operations have: options by their names, times, paths, and keys in the files of certificates.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_cert::{Certificate, KeyPair, PublicKey};
use rustix::io::Errno;

use crate::refusal::Refusal;
use crate::wire::{Fields, Malformed};

/// Sets options: pairs of texts, a name and a value.
pub fn each_option(
    mut of: Fields<'_>,
    mut set: impl FnMut(&[u8], &[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    while !of.is_empty() {
        let (key, value) = (of.bytes()?, of.bytes()?);
        set(key, value)?;
    }
    Ok(())
}

/// From milliseconds; -1: no limit.
pub fn linger(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// From milliseconds; -1: no limit.
pub fn deadline(ms: i32) -> Option<Instant> {
    linger(ms).and_then(|time| Instant::now().checked_add(time))
}

pub fn text_of(octets: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(octets).map_err(|_| Refusal::Arguments(Malformed::Text))
}

/// A path of this host may have any octets.
pub fn path_of(octets: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(octets))
}

/// Reads a certificate's file.
pub fn certificate(
    file: &[u8],
    load: impl FnOnce(&Path) -> Result<Certificate, pinnace_cert::Error>,
) -> Result<Certificate, Refusal> {
    load(path_of(file)).map_err(|error| Refusal::Certificate { file: path_of(file).to_owned(), error })
}

/// Both keys of a certificate's file.
pub fn own_keys(file: &[u8]) -> Result<KeyPair, Refusal> {
    let cert = certificate(file, |path| Certificate::load_own(path))?;
    cert.keys().cloned().ok_or(Refusal::Other(Errno::NOKEY, "the certificate has no secret key"))
}

/// The public key of a certificate's file.
pub fn public_key(file: &[u8]) -> Result<PublicKey, Refusal> {
    Ok(*certificate(file, |path| Certificate::load_public(path))?.public_key())
}
