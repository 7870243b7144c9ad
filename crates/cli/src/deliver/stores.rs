//! Which stores there are.

use std::fs;
use std::path::{Path, PathBuf};

use pinnace::delivery::{Error, places};

use super::client::of_store;
use crate::outcome::{Failure, Outcome};

/// The one that is named, or all of the user's, in the order of their names.
pub fn stores(named: Option<&Path>) -> Outcome<Vec<PathBuf>> {
    if let Some(store) = named {
        // One that is being made has nothing yet; who names a directory means one that has.
        let has_some = fs::read_dir(store).map(|mut entries| entries.any(|entry| entry.is_ok_and(is_log)));
        return match has_some {
            Ok(false) => Err(unseen(store, Error::Io(std::io::ErrorKind::NotFound))),
            // Where it cannot be listed, looking says why.
            _ => Ok(vec![store.to_owned()]),
        };
    }
    let folder = places::stores();
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

/// Why a store cannot be looked at.
pub fn unseen(store: &Path, error: Error) -> Failure {
    match error {
        Error::Io(std::io::ErrorKind::NotFound) => Failure::of(store.display(), "there is no store"),
        error => of_store(store, error),
    }
}
