//! `pinnace keygen`: a pair of CURVE keys, printed or written as certificates.

use std::io::{self, Write};

use pinnace_engine::{KeyPair, z85};

use crate::certificate::{save, secret_file};
use crate::outcome::{Failure, Outcome};
use crate::table::Keygen;

pub fn run(given: &Keygen) -> Outcome {
    let meta = given.meta.iter().map(|text| pair(text)).collect::<Outcome<Vec<_>>>()?;
    let keys = KeyPair::generate().map_err(|error| Failure::of("keys", error))?;
    let mut out = io::stdout().lock();
    let written = match &given.file {
        Some(file) => {
            save(&keys, file, &meta, given.force)?;
            writeln!(out, "{}\n{}", file.display(), secret_file(file).display())
        }
        None => {
            let (public, secret) = (z85::encode_key(&keys.public), z85::encode_key(&keys.secret));
            let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
            writeln!(out, "public {}\nsecret {}", text(&public), text(&secret))
        }
    };
    written.map_err(|error| Failure::of_output(&error))
}

/// NAME=VALUE, of characters that a certificate can hold.
fn pair(text: &str) -> Outcome<(String, String)> {
    let wrong =
        || Failure::usage(format!("--meta {text}: NAME=VALUE is wanted, without quotes and controls"));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.@/".contains(c);
    if name.is_empty() || !name.chars().all(is_name) || value.chars().any(|c| c.is_control() || c == '"') {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.to_owned()))
}
