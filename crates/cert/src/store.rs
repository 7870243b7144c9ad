//! A directory of certificates: the public keys of known peers.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Certificate, Error, PublicKey, files, is_secret_file};

/// The public certificates in a directory tree, by their keys. Files with the suffix `_secret` and temporary files
/// of an interrupted save are skipped. Symbolic links are followed, and each directory is read once.
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
    /// Files that are not valid certificates, and the error of each.
    pub refused: Vec<(std::path::PathBuf, Error)>,
}

impl Store {
    /// Reads a directory. An invalid file does not prevent reading the others: see `refused`. Errors: Io if the
    /// directory cannot be read.
    pub fn load(directory: impl AsRef<Path>) -> Result<Store, Error> {
        let mut store = Store::default();
        store.add_directory(directory.as_ref(), &mut HashSet::new())?;
        Ok(store)
    }

    /// The certificate with this key; `None` if the key is not known.
    pub fn find(&self, key: &PublicKey) -> Option<&Certificate> {
        self.by_key.get(key)
    }

    /// Number of certificates.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if there are no certificates.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// All certificates, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Certificate> {
        self.by_key.values()
    }

    /// Adds the certificates of a directory, unless its device and inode are in `seen`.
    fn add_directory(&mut self, directory: &Path, seen: &mut HashSet<(u64, u64)>) -> Result<(), Error> {
        let itself = fs::metadata(directory)?;
        if !seen.insert((itself.dev(), itself.ino())) {
            return Ok(());
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        paths.sort();
        for path in paths {
            if let Err(error) = self.add(&path, seen) {
                self.refused.push((path, error));
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, seen: &mut HashSet<(u64, u64)>) -> Result<(), Error> {
        let found = fs::metadata(path)?;
        if found.is_dir() {
            return self.add_directory(path, seen);
        }
        if is_secret_file(path) || files::is_temporary(path) {
            return Ok(());
        }
        // Opening a FIFO would block until a writer opens it.
        if !found.is_file() {
            return Err(Error::NotText);
        }
        let certificate = Certificate::load_public(path)?;
        self.by_key.insert(*certificate.public_key(), certificate);
        Ok(())
    }
}
