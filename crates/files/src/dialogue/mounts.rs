//! Which folder a virtual path belongs to.

use std::sync::Arc;

use super::changes::Changes;
use crate::error::{Code, FileError};
use crate::transfer::sent_values::SentValues;
use crate::tree::{Folder, TreePath};

/// A folder with its virtual path.
#[derive(Clone)]
pub struct Mount {
    /// Begins with a slash and does not end with one; empty: the root of all paths.
    alias: Vec<u8>,
    pub folder: Arc<dyn Folder>,
    /// Clients may upload to it.
    pub is_writable: bool,
    /// Present if clients may follow its paths.
    pub changes: Option<Arc<Changes>>,
}

/// The part of a mount that a virtual path and all below it covers.
pub struct Scope {
    pub mount: Mount,
    /// Where it begins in the mount's folder.
    pub base: TreePath,
    /// Paths of the folder at which other mounts are found.
    hidden: Vec<TreePath>,
}

impl Scope {
    /// The virtual path of a path in the folder.
    pub fn filename_of(&self, path: &TreePath) -> Vec<u8> {
        match path.is_empty() {
            true => self.mount.alias.clone(),
            false => [&self.mount.alias, &b"/"[..], path.as_bytes()].concat(),
        }
    }

    /// Returns true if another mount is found at the path.
    pub fn hides(&self, path: &TreePath) -> bool {
        self.hidden.iter().any(|hidden| path.is_below(hidden))
    }
}

/// The mounts of a server.
#[derive(Clone, Default)]
pub struct Mounts {
    mounts: Vec<Mount>,
    /// Of the files that were sent from all of them.
    pub sent_values: Arc<SentValues>,
}

impl Mounts {
    /// Adds a folder by an alias. Error: Invalid, the alias is no virtual path, or has a folder.
    pub fn add(&mut self, given: &[u8], folder: Arc<dyn Folder>, is_writable: bool) -> Result<(), FileError> {
        let inner = given.strip_prefix(b"/").ok_or_else(no_slash)?;
        let path = TreePath::parse(inner.strip_suffix(b"/").unwrap_or(inner))?;
        let alias = if path.is_empty() { Vec::new() } else { [b"/", path.as_bytes()].concat() };
        if self.mounts.iter().any(|mount| mount.alias == alias) {
            let text = format!("two folders have the alias {}", String::from_utf8_lossy(given));
            return Err(FileError::new(Code::Invalid, text));
        }
        self.mounts.push(Mount { alias, folder, is_writable, changes: None });
        // The longest alias that matches is to be found first.
        self.mounts.sort_by_key(|mount| std::cmp::Reverse(mount.alias.len()));
        Ok(())
    }

    /// Lets clients follow the paths of all folders.
    pub fn watch(&mut self, changes: impl Fn(&Arc<dyn Folder>) -> Arc<Changes>) {
        self.mounts.iter_mut().for_each(|mount| mount.changes = Some(changes(&mount.folder)));
    }

    /// Removes the folder of an alias.
    pub fn remove(&mut self, alias: &[u8]) {
        self.mounts.retain(|mount| mount.alias != alias);
    }

    /// The mount of a virtual path, and the path below it. Errors: Invalid, NotFound.
    pub fn resolve(&self, path: &[u8]) -> Result<(&Mount, TreePath), FileError> {
        let inner = path.strip_prefix(b"/").ok_or_else(no_slash)?;
        // Checked as a whole, so that no alias is left by `..`.
        let inner = inner.strip_suffix(b"/").unwrap_or(inner);
        TreePath::parse(inner)?;
        let path = &path[..inner.len() + 1];
        for mount in &self.mounts {
            match path.strip_prefix(&mount.alias[..]) {
                Some(b"" | b"/") => return Ok((mount, TreePath::default())),
                Some([b'/', below @ ..]) => return Ok((mount, TreePath::parse(below)?)),
                _ => {}
            }
        }
        Err(FileError::new(Code::NotFound, "no folder is served at this path"))
    }

    /// What a virtual path and all below it covers: the rest of the mount that it is in, and whole mounts below it.
    /// Error: Invalid.
    pub fn scopes(&self, path: &[u8]) -> Result<Vec<Scope>, FileError> {
        let own = match self.resolve(path) {
            Ok((mount, base)) => Some((mount, base)),
            Err(error) if error.code == Code::NotFound => None,
            Err(error) => return Err(error),
        };
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let below = self.mounts.iter().filter(|mount| below(&mount.alias, path).is_some());
        let covered = own.into_iter().chain(below.map(|mount| (mount, TreePath::default())));
        Ok(covered.map(|(mount, base)| self.scope(mount, base)).collect())
    }

    /// The aliases below a virtual path.
    pub fn aliases_below(&self, path: &[u8]) -> impl Iterator<Item = &[u8]> {
        let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
        self.mounts.iter().map(|mount| &mount.alias[..]).filter(move |alias| below(alias, &path).is_some())
    }

    fn scope(&self, mount: &Mount, base: TreePath) -> Scope {
        let inner = self.mounts.iter().filter_map(|other| below(&other.alias, &mount.alias));
        let hidden = inner.filter_map(|path| TreePath::parse(path).ok()).collect();
        Scope { mount: mount.clone(), base, hidden }
    }
}

/// What follows `above` and a slash in a virtual path.
pub fn below<'a>(path: &'a [u8], above: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(above)?.strip_prefix(b"/")
}

fn no_slash() -> FileError {
    FileError::new(Code::Invalid, "a virtual path begins with a slash")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Directory, Hint, Watch};

    struct Nothing;

    impl Folder for Nothing {
        fn directory(&self, _: &TreePath) -> Result<Box<dyn Directory>, FileError> {
            Err(no_slash())
        }

        fn rename(&self, _: &TreePath, _: &TreePath) -> Result<(), FileError> {
            Err(no_slash())
        }

        fn watch(&self, _: Box<dyn Fn(Hint) + Send>) -> Result<Box<dyn Watch>, FileError> {
            Err(no_slash())
        }
    }

    #[test]
    fn the_longest_alias_counts() {
        let mut mounts = Mounts::default();
        for alias in ["/", "/a", "/a/b/"] {
            mounts.add(alias.as_bytes(), Arc::new(Nothing), false).unwrap();
        }
        let below = |path: &str| {
            let (mount, below) = mounts.resolve(path.as_bytes()).unwrap();
            (String::from_utf8(mount.alias.clone()).unwrap(), below.to_string())
        };
        for (path, alias, rest) in [
            ("/", "", ""),
            ("/x/y", "", "x/y"),
            ("/a", "/a", ""),
            ("/ab", "", "ab"),
            ("/a/b/c/", "/a/b", "c"),
        ] {
            assert_eq!(below(path), (alias.to_owned(), rest.to_owned()), "{path}");
        }
        let scopes = |path: &str| {
            let scopes = mounts.scopes(path.as_bytes()).unwrap();
            let name = |scope: &Scope| String::from_utf8(scope.filename_of(&scope.base)).unwrap();
            scopes.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(scopes("/"), ["", "/a/b", "/a"]);
        assert_eq!(scopes("/a/"), ["/a", "/a/b"]);
        assert_eq!(scopes("/a/c"), ["/a/c"]);
        let root = &mounts.scopes(b"/").unwrap()[0];
        assert!(
            root.hides(&TreePath::parse(b"a/x").unwrap()) && !root.hides(&TreePath::parse(b"ab").unwrap())
        );
        assert!(mounts.scopes(b"/..").is_err());
        assert!(mounts.resolve(b"/a/../x").is_err());
        assert!(mounts.resolve(b"a").is_err());
        assert!(mounts.add(b"/a/", Arc::new(Nothing), false).is_err());
    }
}
