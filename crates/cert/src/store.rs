//! A directory of certificates: who is known.

use std::collections::HashMap;
use std::path::Path;

use crate::{Certificate, Error, PublicKey, is_secret_file};

/// Directories below the store's own that are looked into, so that a loop of links ends.
const DEPTH_MAX: usize = 16;

/// The public certificates in a directory and those below it, by their keys; files that end in `_secret` are left out.
///
/// ```no_run
/// use pinnace_cert::{Certificate, Store};
/// let friends = Store::load("/etc/pinnace/friends")?;
/// for (path, error) in &friends.refused {
///     eprintln!("{}: {error}", path.display());
/// }
/// # let key = [0; 32];
/// if let Some(friend) = friends.find(&key) {
///     println!("{} is known", friend.metadata("name").unwrap_or("somebody"));
/// }
/// # Ok::<(), pinnace_cert::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Store {
    by_key: HashMap<PublicKey, Certificate>,
    /// Files that hold no certificate, and why.
    pub refused: Vec<(std::path::PathBuf, Error)>,
}

impl Store {
    /// Reads a directory. One file that is wrong keeps nothing from the others: see `refused`. Errors: Io where the
    /// directory cannot be read.
    pub fn load(directory: impl AsRef<Path>) -> Result<Store, Error> {
        let mut store = Store::default();
        store.add_directory(directory.as_ref(), 0)?;
        Ok(store)
    }

    /// Whose key this is. None: nobody's that is known.
    pub fn find(&self, key: &PublicKey) -> Option<&Certificate> {
        self.by_key.get(key)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Nobody is.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Certificate> {
        self.by_key.values()
    }

    fn add_directory(&mut self, directory: &Path, depth: usize) -> Result<(), Error> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        paths.sort();
        for path in paths {
            let outcome = if !path.is_dir() {
                self.add_file(&path)
            } else if depth < DEPTH_MAX {
                self.add_directory(&path, depth + 1)
            } else {
                Ok(())
            };
            if let Err(error) = outcome {
                self.refused.push((path, error));
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        if !is_secret_file(path) {
            let certificate = Certificate::load_public(path)?;
            self.by_key.insert(*certificate.public_key(), certificate);
        }
        Ok(())
    }
}
