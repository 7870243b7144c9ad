//! The rules of a transfer, as they are applied: which names are left out, and which files are replaced.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};

use super::digest::Digest;
use crate::error::{Code, FileError};
use crate::rules::{Existing, Pattern, Rules};
use crate::tree::{Attributes, Kind, MoreAttributes, Owner, TreePath};
use crate::wire::Entry;

/// The rules of a transfer.
pub struct Selection {
    pub rules: Rules,
    pub filter: Filter,
    /// Parts that have not been written for so long are removed.
    pub part_age: Duration,
    /// Files and directories that the transfer has removed so far.
    removed: AtomicU64,
}

/// How long the parts of transfers that ended early are kept, if the program does not choose.
pub const PART_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

impl Selection {
    /// Error: Invalid, a pattern is malformed.
    pub fn new(rules: Rules, part_age: Duration) -> Result<Selection, FileError> {
        Ok(Selection { filter: Filter::new(&rules.filter)?, rules, part_age, removed: AtomicU64::new(0) })
    }

    /// Counts files and directories that are removed next. Error: Limit, the transfer may not remove so many more; then
    /// none is counted.
    pub fn count_removals(&self, count: u64) -> Result<(), FileError> {
        let removed = self.removed.load(Ordering::Relaxed);
        if let Some(most) = self.rules.deletion.and_then(|deletion| deletion.most)
            && removed.saturating_add(count) > most
        {
            let left = most.saturating_sub(removed);
            let due = if count == 1 { "1 removal is".to_owned() } else { format!("{count} removals are") };
            return Err(self.refused(Code::Limit, &format!("{due} due, and {left} allowed")));
        }
        if !self.rules.dry_run {
            // One thread at a time has the transfer.
            self.removed.store(removed + count, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Nothing is removed, for this reason.
    pub fn refused(&self, code: Code, reason: &str) -> FileError {
        let is = if self.rules.dry_run { "would be" } else { "was" };
        FileError::new(code, format!("nothing {is} removed: {reason}"))
    }

    /// Returns true if the source's file replaces the one here. `own_digest` computes the digest of that one; it is
    /// called if contents are compared.
    pub fn replaces(
        &self,
        own: Option<&Attributes>,
        entry: &Entry<'_>,
        own_digest: impl FnOnce() -> Option<Digest>,
    ) -> bool {
        let Some(own) = own else { return true };
        let is_same = (own.size, own.mtime_ns) == (entry.size, entry.mtime_ns);
        match self.rules.existing {
            _ if own.kind != Kind::File => true,
            Existing::Nothing => false,
            Existing::NotNewer if own.mtime_ns > entry.mtime_ns => false,
            _ if self.rules.checksum && own.size == entry.size => {
                own_digest().is_none_or(|digest| digest[..] != *entry.target)
            }
            _ => !is_same,
        }
    }
}

impl Selection {
    /// What is kept of the attributes that were sent. Present, if any are.
    pub fn more_of(&self, owner: Option<Owner>, xattrs: Option<&[u8]>) -> Option<MoreAttributes> {
        let owner = owner.filter(|_| self.rules.owner);
        let xattrs = xattrs.filter(|_| self.rules.xattrs).map(<[u8]>::to_vec);
        (owner.is_some() || xattrs.is_some()).then_some(MoreAttributes { owner, xattrs })
    }

    /// Returns true if a file here that is not replaced has the content of the source's: its attributes may be set.
    pub fn is_same(&self, own: &Attributes, entry: &Entry<'_>) -> bool {
        let is_compared = self.rules.checksum && self.rules.existing == Existing::Different;
        own.size == entry.size && (own.mtime_ns == entry.mtime_ns || is_compared)
    }

    /// Returns true if a name may become another file's, whose time is `mtime_ns`.
    pub fn may_replace(&self, own: &Attributes, mtime_ns: i64) -> bool {
        match self.rules.existing {
            _ if own.kind != Kind::File => true,
            Existing::Different => true,
            Existing::NotNewer => own.mtime_ns <= mtime_ns,
            Existing::Nothing => false,
        }
    }
}

/// The patterns of a transfer.
#[derive(Default)]
pub struct Filter(Vec<Rule>);

struct Rule {
    includes: bool,
    only_directories: bool,
    glob: GlobMatcher,
}

impl Filter {
    /// Error: Invalid, a pattern is malformed.
    pub fn new(patterns: &[Pattern]) -> Result<Filter, FileError> {
        let rules = patterns.iter().map(|pattern| {
            let text = pattern.text.strip_suffix('/').unwrap_or(&pattern.text);
            let anywhere = format!("**/{text}");
            let glob =
                GlobBuilder::new(text.strip_prefix('/').unwrap_or(&anywhere)).literal_separator(true).build();
            let invalid = |error: globset::Error| {
                let text = format!("the pattern {}: {}", pattern.text, error.kind());
                FileError::new(Code::Invalid, text)
            };
            if text.is_empty() {
                return Err(FileError::new(Code::Invalid, "an empty pattern"));
            }
            if pattern.text.contains('\0') {
                return Err(FileError::new(Code::Invalid, "a pattern with an octet 0"));
            }
            Ok(Rule {
                includes: pattern.includes,
                only_directories: pattern.text.ends_with('/'),
                glob: glob.map_err(invalid)?.compile_matcher(),
            })
        });
        Ok(Filter(rules.collect::<Result<_, FileError>>()?))
    }

    /// Returns true if a path, or a directory above it, is left out.
    pub fn excludes(&self, path: &TreePath, is_directory: bool) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let octets = path.as_bytes();
        let slashes = octets.iter().enumerate().filter(|(_, octet)| **octet == b'/').map(|(at, _)| at);
        slashes.into_iter().any(|at| self.matches(&octets[..at], true)) || self.matches(octets, is_directory)
    }

    /// Returns true if the first rule that matches excludes.
    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let path = OsStr::from_bytes(path);
        let applies = |rule: &&Rule| (is_directory || !rule.only_directories) && rule.glob.is_match(path);
        self.0.iter().find(applies).is_some_and(|rule| !rule.includes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(patterns: &[&str], path: &str) -> bool {
        let patterns: Vec<Pattern> = patterns
            .iter()
            .map(|text| match text.strip_prefix("+ ") {
                Some(text) => Pattern::include(text),
                None => Pattern::exclude(text),
            })
            .collect();
        let name = path.strip_suffix('/').unwrap_or(path);
        Filter::new(&patterns)
            .unwrap()
            .excludes(&TreePath::parse(name.as_bytes()).unwrap(), path.ends_with('/'))
    }

    #[test]
    fn patterns_as_rsync_has_them() {
        for (patterns, path, expected) in [
            (&["*.o"][..], "a.o", true),
            (&["*.o"], "x/y/a.o", true),
            (&["*.o"], "a.of", false),
            (&["/a"], "a", true),
            (&["/a"], "x/a", false),
            (&["/a"], "a/x", true),
            (&["b/c"], "a/b/c", true),
            (&["b/c"], "ab/c", false),
            (&["a*z"], "a/z", false),
            (&["a/**/z"], "a/b/c/z", true),
            (&["a/**/z"], "a/z", true),
            (&["d/"], "d/", true),
            (&["d/"], "d", false),
            (&["d/"], "d/below", true),
            (&["+ keep.o", "*.o"], "keep.o", false),
            (&["*.o", "+ keep.o"], "keep.o", true),
            (&["+ */", "+ *.c", "*"], "src/a.c", false),
            (&["+ */", "+ *.c", "*"], "src/a.h", true),
            (&["[ab]?"], "a1", true),
            (&[], "a", false),
        ] {
            assert_eq!(excluded(patterns, path), expected, "{patterns:?} {path}");
        }
        for invalid in ["[", "", "/"] {
            assert!(Filter::new(&[Pattern::exclude(invalid)]).is_err(), "{invalid:?}");
        }
        let not_utf8 = TreePath::parse(b"\xff.o").unwrap();
        assert!(Filter::new(&[Pattern::exclude("*.o")]).unwrap().excludes(&not_utf8, false));
    }
}
