//! `pinnace files serve`: serves folders until a signal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinnace::files::server::Server;

use super::wait;
use crate::outcome::{Failure, Outcome, say};
use crate::signals::Signals;
use crate::table::files::FilesServe;

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
    for endpoint in &given.bind {
        builder = builder.bind(endpoint);
    }
    let server = builder.start().map_err(|error| Failure::of(given.bind.join(", "), error))?;
    if given.verbose {
        server.endpoints().iter().for_each(|endpoint| say(format!("listening at {endpoint}")));
    }
    wait(&signals);
    Ok(())
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
