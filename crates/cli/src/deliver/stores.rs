//! The stores of the user.

use std::fs;
use std::path::{Path, PathBuf};

use pinnace::delivery::{Error, paths, peek};

use super::client::of_store;
use crate::outcome::{Failure, Outcome};

/// The named store, or all of the user's stores, sorted by name.
pub fn stores(named: Option<&Path>) -> Outcome<Vec<PathBuf>> {
    if let Some(store) = named {
        // A store that is being created has no log yet; a directory named by the user must have one.
        let has_some = fs::read_dir(store).map(|mut entries| entries.any(|entry| entry.is_ok_and(is_log)));
        return match has_some {
            Ok(false) => Err(unseen(store, Error::Io(std::io::ErrorKind::NotFound))),
            // If it cannot be listed, reading it reports why.
            _ => Ok(vec![store.to_owned()]),
        };
    }
    let folder = paths::stores();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::of(folder.display(), error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut stores = paths.map_err(|error| Failure::of(folder.display(), error))?;
    stores.retain(|path| path.is_dir());
    stores.sort_unstable();
    Ok(stores)
}

fn is_log(file: fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|extension| extension == "log")
}

/// Describes why a store cannot be read.
pub fn unseen(store: &Path, error: Error) -> Failure {
    match error {
        Error::Io(std::io::ErrorKind::NotFound) => Failure::of(store.display(), "no store found"),
        error => of_store(store, error),
    }
}

/// Error: the store has no client of this name, so nothing can be pending.
pub fn require_client(store: &Path, name: &str) -> Outcome {
    let senders = peek(store).map_err(|error| unseen(store, error))?;
    match senders.iter().any(|sender| sender.name == name) {
        true => Ok(()),
        false => Err(Failure::of(store.display(), format_args!("no messages of {name}"))),
    }
}
