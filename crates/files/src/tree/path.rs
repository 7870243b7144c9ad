//! Paths below a folder.

use crate::error::{Code, FileError};
use crate::wire::NAME_MAX;

/// The most octets of one name, as Linux has it (NAME_MAX of limits.h).
const COMPONENT_MAX: usize = 255;

/// The most names in a path.
pub const DEPTH_MAX: usize = 256;

/// A relative path without `.`, `..`, empty names and octets 0. Empty: the folder itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// Checks a path that the other side gave. Error: Invalid.
    pub fn parse(octets: &[u8]) -> Result<TreePath, FileError> {
        let invalid = |text: &str| Err(FileError::new(Code::Invalid, text));
        if octets.is_empty() {
            return Ok(TreePath::default());
        }
        if octets.len() > NAME_MAX {
            return invalid("the path is longer than 4096 octets");
        }
        let mut depth = 0;
        for name in octets.split(|octet| *octet == b'/') {
            depth += 1;
            match name {
                b"" => return invalid("the path has an empty name"),
                b"." | b".." => return invalid("the path has a name . or .."),
                _ if name.contains(&0) => return invalid("the path has an octet 0"),
                _ if name.len() > COMPONENT_MAX => return invalid("a name is longer than 255 octets"),
                _ => {}
            }
        }
        match depth <= DEPTH_MAX {
            true => Ok(TreePath(octets.to_vec())),
            false => invalid("the path has more than 256 names"),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A digest by which large sets of paths are kept, so that each takes the same memory.
    pub fn digest(&self) -> [u8; 16] {
        let mut digest = [0; 16];
        digest.copy_from_slice(&blake3::hash(&self.0).as_bytes()[..16]);
        digest
    }

    /// Returns true if it is `other`, or below it.
    pub fn is_below(&self, other: &TreePath) -> bool {
        match self.0.strip_prefix(&other.0[..]) {
            Some(rest) => rest.is_empty() || other.0.is_empty() || rest[0] == b'/',
            None => false,
        }
    }

    /// What follows `base`, which it is below.
    pub fn relative_to(&self, base: &TreePath) -> &[u8] {
        let rest = self.0.strip_prefix(&base.0[..]).unwrap_or(&self.0);
        rest.strip_prefix(b"/").unwrap_or(rest)
    }

    /// The directory, and the name in it; None: the folder itself.
    pub fn split_last(&self) -> Option<(TreePath, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|octet| *octet == b'/') {
            Some(slash) => (TreePath(self.0[..slash].to_vec()), &self.0[slash + 1..]),
            None => (TreePath::default(), &self.0[..]),
        })
    }

    /// The path of a name below this one. Error: Invalid.
    pub fn join(&self, name: &[u8]) -> Result<TreePath, FileError> {
        match (self.0.is_empty(), name.is_empty()) {
            (_, true) => Ok(self.clone()),
            (true, false) => TreePath::parse(name),
            (false, false) => TreePath::parse(&[&self.0, &b"/"[..], name].concat()),
        }
    }
}

impl std::fmt::Display for TreePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_leave_the_folder_are_refused() {
        for path in [&b"/a"[..], b"a/", b"a//b", b".", b"..", b"a/../b", b"../a", b"a/.", b"a\0b", b"/"] {
            assert_eq!(TreePath::parse(path).map_err(|error| error.code), Err(Code::Invalid), "{path:?}");
        }
        assert!(TreePath::parse(&[b'a'; 256]).is_err());
        assert!(TreePath::parse(&[b"a/".repeat(256), b"a".to_vec()].concat()).is_err());
        for path in [&b"a"[..], b"a/b", b"..a", b"a..", b"a\nb", b"\xff\xfe", b" "] {
            assert_eq!(TreePath::parse(path).unwrap().as_bytes(), path);
        }
    }

    #[test]
    fn parts_join_to_the_whole() {
        let path = TreePath::parse(b"a/b/c").unwrap();
        let (directory, name) = path.split_last().unwrap();
        assert_eq!((directory.as_bytes(), name), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(directory.join(name), Ok(path));
        assert_eq!(TreePath::default().split_last(), None);
    }
}
