//! `pinnace keygen`: a pair of CURVE keys, printed or written as certificates.

use std::io::{self, Write};

use pinnace::certificate::{Certificate, secret_path};
use pinnace::z85;

use crate::outcome::{Failure, Outcome};
use crate::table::Keygen;

pub fn run(given: &Keygen) -> Outcome {
    let mut certificate = Certificate::generate().map_err(|error| Failure::of("generating keys", error))?;
    for text in &given.meta {
        let pair =
            text.split_once('=').ok_or_else(|| Failure::usage(format!("--meta {text}: must be NAME=VALUE")));
        let (name, value) = pair?;
        if certificate.metadata(name).is_some() {
            return Err(Failure::usage(format!("--meta {text}: {name} is given twice")));
        }
        let set = certificate.set_metadata(name, value);
        set.map_err(|error| Failure::usage(format!("--meta {text}: {error}")))?;
    }
    let mut out = io::stdout().lock();
    let written = match (&given.file, certificate.keys()) {
        (Some(file), _) => {
            let saved = if given.force { certificate.save(file) } else { certificate.save_new(file) };
            saved.map_err(|error| Failure::of(file.display(), error))?;
            writeln!(out, "{}\n{}", file.display(), secret_path(file).display())
        }
        (None, Some(keys)) => {
            let (public, secret) = (z85::encode_key(&keys.public), z85::encode_key(&keys.secret));
            writeln!(out, "public {public}\nsecret {secret}")
        }
        (None, None) => Ok(()),
    };
    written.map_err(|error| Failure::of_output(&error))
}
