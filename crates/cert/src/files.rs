//! Atomic reads and writes of whole files. The content may be secret, so buffers are wiped.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pinnace_crypto::{SecretBytes, random};
use pinnace_sys::signals::as_errors;

use crate::Error;

/// The largest file that is read, in bytes.
const MAX: usize = 64 * 1024;
/// Bytes per read.
const CHUNK: usize = 4096;
/// The suffix of temporary names, after their random part.
const TEMPORARY: &str = ".new";

/// Reads a whole file. Errors: Io; NotText if it is larger than [`MAX`].
pub(crate) fn read(path: &Path) -> Result<SecretBytes, Error> {
    let mut file = File::open(path)?;
    let (mut text, mut chunk) = (SecretBytes::new(), SecretBytes::zeroed(CHUNK));
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(text),
            Ok(bytes) => text.extend_from_slice(&chunk[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if text.len() > MAX {
            return Err(Error::NotText);
        }
    }
}

/// Writes a file that must not exist yet.
pub(crate) fn write_new(path: &Path, text: &[u8], mode: u32) -> Result<(), Error> {
    create(path, text, mode)?;
    Ok(sync_directory_of(path)?)
}

/// Writes a file atomically, replacing an existing one.
pub(crate) fn replace(path: &Path, text: &[u8], mode: u32) -> Result<(), Error> {
    let temporary_name = temporary_name(path)?;
    create(&temporary_name, text, mode)?;
    fs::rename(&temporary_name, path).inspect_err(|_| remove(&temporary_name))?;
    Ok(sync_directory_of(path)?)
}

/// Whether the name is that of a temporary file of [`replace`], perhaps left by a crash.
pub(crate) fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(TEMPORARY)?.rsplit_once('.'));
    name.is_some_and(|(_, number)| {
        number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// A temporary name in the same directory, which neither another thread nor a crashed process uses.
fn temporary_name(path: &Path) -> Result<PathBuf, Error> {
    let mut number = [0; 8];
    random(&mut number).map_err(|_| Error::NoRandomness)?;
    let mut name = OsString::from(path);
    name.push(format!(".{:016x}{TEMPORARY}", u64::from_ne_bytes(number)));
    Ok(name.into())
}

/// Creates and writes a file; removes it if writing fails.
fn create(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    as_errors(|| file.write_all(text)).and_then(|()| file.sync_all()).inspect_err(|_| remove(path))
}

/// Syncs the directory, so that the name is durable. Skipped if the directory cannot be opened, for example because
/// it is not readable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new("."))).map_or(Ok(()), |directory| directory.sync_all())
}

fn remove(path: &Path) {
    // The caller reports the earlier error.
    let _ = fs::remove_file(path);
}
