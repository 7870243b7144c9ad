//! Options that are set by name as text, so that new options need no new functions.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinnace_cert::{Certificate, Error as CertError, KeyPair, PublicKey};
use pinnace_engine::z85;

use crate::call_error::{CallError, given, string};
use crate::pinnace::certificates;

/// The type of an option's value.
pub(crate) enum Kind {
    Path,
    Text,
    Number {
        least: u64,
        most: u64,
    },
    /// As a number up to a day, or FOREVER.
    TimeOrForever,
    /// One of these words; the value is its index.
    OneOf(&'static [&'static str]),
}

pub(crate) enum Value {
    Path(PathBuf),
    Text(String),
    Number(u64),
}

/// An option: its name, the type of its value, and the function that applies the value to what is configured.
pub(crate) struct Key<P>(pub(crate) &'static str, pub(crate) Kind, pub(crate) fn(P, &Value) -> P);

pub(crate) const DAY_MS: u64 = 24 * 60 * 60 * 1000;
pub(crate) const TIME: Kind = Kind::Number { least: 1, most: DAY_MS };
pub(crate) const TIME_OR_NONE: Kind = Kind::Number { least: 0, most: DAY_MS };
/// A time without limit, as text and as a number of milliseconds.
const FOREVER: (&str, u64) = ("forever", u64::MAX);
pub(crate) const FLAG: Kind = Kind::Number { least: 0, most: 1 };
pub(crate) const BYTES: Kind = Kind::Number { least: 0, most: u64::MAX };

impl Kind {
    /// On an error, returns a description of the accepted values.
    fn read(&self, value: &CStr) -> Result<Value, String> {
        let text = value.to_str();
        match self {
            Kind::Path => Ok(Value::Path(PathBuf::from(OsStr::from_bytes(value.to_bytes())))),
            Kind::Text => text.map(|text| Value::Text(text.to_owned())).map_err(|_| "UTF-8".to_owned()),
            Kind::TimeOrForever if text == Ok(FOREVER.0) => Ok(Value::Number(FOREVER.1)),
            Kind::TimeOrForever => {
                TIME_OR_NONE.read(value).map_err(|wanted| format!("{wanted}, or {}", FOREVER.0))
            }
            Kind::OneOf(words) => {
                let index = words.iter().position(|word| text == Ok(*word));
                index.map(|at| Value::Number(at as u64)).ok_or_else(|| format!("one of {}", words.join(", ")))
            }
            Kind::Number { least, most } => {
                let digits = text.ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let number = digits.and_then(|text| text.parse().ok());
                let number = number.filter(|number| (least..=most).contains(&number));
                number.map(Value::Number).ok_or_else(|| format!("a number from {least} to {most}"))
            }
        }
    }
}

/// Each accessor requires the kind that the key has.
impl Value {
    pub(crate) fn path(&self) -> PathBuf {
        if let Value::Path(path) = self { path.clone() } else { PathBuf::new() }
    }

    pub(crate) fn text(&self) -> &str {
        if let Value::Text(text) = self { text } else { "" }
    }

    pub(crate) fn number(&self) -> u64 {
        if let Value::Number(number) = self { *number } else { 0 }
    }

    pub(crate) fn time(&self) -> Duration {
        match self.number() {
            number if number == FOREVER.1 => Duration::MAX,
            number => Duration::from_millis(number),
        }
    }
}

/// The options that are set, by their index in a table.
#[derive(Default)]
pub(crate) struct Settings(BTreeMap<usize, Value>);

impl Settings {
    pub(crate) fn set<P>(&mut self, keys: &[Key<P>], key: &CStr, value: &CStr) -> Result<(), CallError> {
        let Some(at) = keys.iter().position(|Key(name, ..)| name.as_bytes() == key.to_bytes()) else {
            let known: Vec<&str> = keys.iter().map(|Key(name, ..)| *name).collect();
            let words = format!("unknown option {key:?}; the options are {}", known.join(", "));
            return Err(CallError::new(libc::EINVAL, words));
        };
        let Key(name, kind, _) = &keys[at];
        let read = kind.read(value);
        let read = read.map_err(|wanted| {
            CallError::new(libc::EINVAL, format!("{name} must be {wanted}, not {value:?}"))
        })?;
        self.0.insert(at, read);
        Ok(())
    }

    /// Applies them in the order of the table.
    pub(crate) fn apply<P>(&self, keys: &[Key<P>], to: P) -> P {
        self.0.iter().fold(to, |to, (at, value)| keys[*at].2(to, value))
    }
}

/// A public key, from 40 characters of Z85.
///
/// # Safety
/// `key` must be null or a C string.
pub(crate) unsafe fn public_key(key: *const c_char) -> Result<PublicKey, CallError> {
    // SAFETY: the caller's promise.
    z85::decode_key(unsafe { string(key, "the key") }?.as_bytes())
        .ok_or_else(|| CallError::new(libc::EINVAL, "a key must be 40 characters of Z85"))
}

/// Reads a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
unsafe fn read_cert(
    file: *const c_char,
    load: impl FnOnce(&Path) -> Result<Certificate, CertError>,
) -> Result<Certificate, CallError> {
    // SAFETY: the caller's promise.
    let path = Path::new(OsStr::from_bytes(unsafe { given(file, "the file") }?.to_bytes()));
    load(path).map_err(|error| {
        CallError::new(certificates::errno_of(&error), format!("{}: {error}", path.display()))
    })
}

/// The keys in a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
pub(crate) unsafe fn keys_of_file(file: *const c_char) -> Result<KeyPair, CallError> {
    // SAFETY: the caller's promise.
    let certificate = unsafe { read_cert(file, |path| Certificate::load_own(path)) }?;
    certificate.keys().cloned().ok_or_else(no_secret)
}

/// The public key in a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
pub(crate) unsafe fn public_key_of_file(file: *const c_char) -> Result<PublicKey, CallError> {
    // SAFETY: the caller's promise.
    Ok(*unsafe { read_cert(file, |path| Certificate::load_public(path)) }?.public_key())
}

/// The keys of a certificate that C has loaded.
pub(crate) fn keys_of(certificate: *mut c_void) -> Result<KeyPair, CallError> {
    certificates::keys(certificate)?.ok_or_else(no_secret)
}

fn no_secret() -> CallError {
    CallError::new(libc::ENOKEY, "the certificate has no secret key")
}
