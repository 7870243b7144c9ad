//! `pinnace files serve`: serves folders until a signal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinnace::files::access::Right;
use pinnace::files::error::Error;
use pinnace::files::server::{Server, ServerBuilder};

use super::{text_of, wait};
use crate::authentication::names_and_passwords;
use crate::outcome::{Failure, Outcome, say};
use crate::settings::{own_keys, public_key};
use crate::signals::Signals;
use crate::table::deliver::Trusted;
use crate::table::files::{ENDPOINT, FilesServe};

pub fn run(given: &FilesServe) -> Outcome {
    let signals = Signals::new(false)?;
    let mut builder = Server::builder();
    let is_single = given.folders.len() == 1;
    for folder in &given.folders {
        let (path, alias) = split(folder, is_single)?;
        let added = match given.writable {
            true => builder.writable_folder(&alias, path),
            false => builder.folder(&alias, path),
        };
        builder = added.map_err(Failure::usage)?;
    }
    builder = secured(builder, given)?;
    let default = [ENDPOINT.to_owned()];
    let endpoints = if given.bind.is_empty() { &default[..] } else { &given.bind };
    for endpoint in endpoints {
        builder = builder.bind(endpoint);
    }
    let server = builder.start().map_err(|error| match error {
        Error::Access(_) | Error::Users => Failure::usage(error),
        Error::Socket(cause) if is_invalid(cause) => {
            Failure::usage(format!("{}: {error}", endpoints.join(", ")))
        }
        error => Failure::of(endpoints.join(", "), error),
    })?;
    if given.bind.is_empty() {
        say(format!("listening at {ENDPOINT}, for clients of this host; --bind gives other endpoints"));
    }
    if given.verbose && !given.bind.is_empty() {
        server.endpoints().iter().for_each(|endpoint| say(format!("listening at {endpoint}")));
    }
    wait(&signals);
    Ok(())
}

/// Returns true if no such endpoint exists.
fn is_invalid(cause: pinnace::Error) -> bool {
    matches!(cause, pinnace::Error::Invalid(_) | pinnace::Error::Transport | pinnace::Error::TransportForType)
}

/// Adds users and their rights.
fn secured(mut builder: ServerBuilder, given: &FilesServe) -> Outcome<ServerBuilder> {
    if let Some(file) = &given.cert {
        builder = builder.curve(&own_keys(file).map_err(Failure::into_usage)?);
    }
    for Trusted { name, key } in &given.trusted {
        builder = builder.user_by_key(name, &public_key(key).map_err(Failure::into_usage)?);
    }
    if let Some(file) = &given.passwords {
        for (name, password) in names_and_passwords(file).map_err(Failure::into_usage)? {
            builder = builder.user_by_password(text_of(file, &name)?, text_of(file, &password)?);
        }
    }
    for (name, path) in &given.readers {
        builder = builder.grant(name, path, Right::Read);
    }
    for (name, path) in &given.writers {
        builder = builder.grant(name, path, Right::Write);
    }
    Ok(given.domain.iter().fold(builder, |builder, domain| builder.domain(domain)))
}

/// The folder and its virtual path. The last `=` separates them.
fn split(folder: &OsStr, is_single: bool) -> Outcome<(&Path, String)> {
    let octets = folder.as_bytes();
    let Some(at) = octets.iter().rposition(|octet| *octet == b'=') else {
        let path = Path::new(folder);
        let name = path.file_name().and_then(OsStr::to_str);
        let name = name.ok_or_else(|| Failure::usage(format!("{}: name a path: DIR=/ALIAS", path.display())));
        let alias = if is_single { "/".to_owned() } else { format!("/{}", name?) };
        return Ok((path, alias));
    };
    let alias = std::str::from_utf8(&octets[at + 1..]);
    let alias = alias.map_err(|_| Failure::usage(format!("{}: the path is not UTF-8", folder.display())))?;
    Ok((Path::new(OsStr::from_bytes(&octets[..at])), alias.to_owned()))
}
