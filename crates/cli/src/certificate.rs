//! CURVE certificates as CZMQ writes them (zcert(3)): a file in ZPL (RFC 4) with the public key, and one with the
//! secret key too, which its owner alone can read.
//!
//! ```text
//! metadata
//!     email = "joe@example.com"
//! curve
//!     public-key = "..."      40 characters of Z85
//!     secret-key = "..."      in the secret file alone
//! ```

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pinnace_engine::{KeyPair, SecretKey, z85};

use crate::outcome::{Failure, Outcome};

/// The largest certificate file that is read, in bytes.
const FILE_MAX: u64 = 64 << 10;
const PUBLIC_MODE: u32 = 0o644;
const SECRET_MODE: u32 = 0o600;

/// Who somebody is.
pub struct Certificate {
    pub public: [u8; 32],
    pub secret: Option<SecretKey>,
}

impl Certificate {
    /// Reads a certificate of either kind.
    pub fn load(file: &Path) -> Outcome<Certificate> {
        let failed = |why: &dyn std::fmt::Display| Failure::of(file.display(), why);
        let mut text = String::new();
        let opened = File::open(file).map_err(|error| failed(&error))?;
        opened.take(FILE_MAX).read_to_string(&mut text).map_err(|error| failed(&error))?;
        Certificate::parse(&text).map_err(|why| failed(&why))
    }

    fn parse(text: &str) -> Result<Certificate, &'static str> {
        let (mut section, mut public, mut secret) = ("", None, None);
        for line in text.lines() {
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            if !line.starts_with([' ', '\t']) {
                section = content;
                continue;
            }
            let Some((name, value)) = content.split_once('=') else { continue };
            let key = || z85::decode_key(unquoted(value).as_bytes()).ok_or("not a CURVE key");
            match (section, name.trim()) {
                ("curve", "public-key") => public = Some(key()?),
                ("curve", "secret-key") => secret = Some(SecretKey::copy_of(&key()?)),
                _ => {}
            }
        }
        let public = public.ok_or("there is no public key in it")?;
        Ok(Certificate { public, secret })
    }
}

/// A value of ZPL without its quotes.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
        _ => value,
    }
}

/// The name of the file with the secret key.
pub fn secret_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("_secret");
    name.into()
}

/// Writes both files. `meta` has names with their values.
pub fn save(pair: &KeyPair, file: &Path, meta: &[(String, String)], replace: bool) -> Outcome {
    let public = z85::encode_key(&pair.public);
    let public = String::from_utf8_lossy(&public);
    let mut text =
        "#   ZeroMQ CURVE certificate: the public key. Others may have it.\n\nmetadata\n".to_owned();
    for (name, value) in meta {
        let _ = writeln!(text, "    {name} = \"{value}\"");
    }
    let _ = writeln!(text, "curve\n    public-key = \"{public}\"");
    let secret = z85::encode_key(&pair.secret);
    let secret_text = text
        .replace("the public key. Others may have it.", "with the secret key. Keep it to yourself.")
        + &format!("    secret-key = \"{}\"\n", String::from_utf8_lossy(&secret));
    write(&secret_file(file), &secret_text, SECRET_MODE, replace)?;
    write(file, &text, PUBLIC_MODE, replace)
}

fn write(file: &Path, text: &str, mode: u32, replace: bool) -> Outcome {
    let failed = |error| Failure::of(file.display(), error);
    if replace {
        // A new file: the old one may be readable by others, or a link to somewhere else.
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(failed)?;
    opened.write_all(text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_read_as_czmq_writes_them() {
        let public = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
        let secret = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";
        let text = format!(
            "#   ****  Generated on 2026-11-21 by CZMQ  ****\n\nmetadata\n    public-key = \"no\"\ncurve\n    \
             public-key = \"{public}\"\n    secret-key = \"{secret}\"\n"
        );
        let read = Certificate::parse(&text).unwrap();
        assert_eq!(z85::encode_key(&read.public), *public.as_bytes());
        assert_eq!(z85::encode_key(&read.secret.unwrap()), *secret.as_bytes());
        assert!(Certificate::parse("curve\n    public-key = \"short\"\n").is_err());
        assert!(Certificate::parse("").is_err());
    }
}
