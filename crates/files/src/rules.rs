//! Which names a transfer leaves out, which files it replaces, and which it removes.

/// The rules of a transfer. By default, files that differ in size or time are replaced, and nothing is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which names are left out. The first pattern that a name matches counts; a name that matches none is not left
    /// out. What is below a directory that is left out is left out too.
    pub filter: Vec<Pattern>,
    pub existing: Existing,
    /// Files of the same size are compared by their content, whatever their times: both sides read them.
    pub checksum: bool,
    /// Of a large file that differs from the one here, all is fetched, and not only the blocks that differ.
    pub whole_files: bool,
    /// Present if what the source does not have is removed.
    pub deletion: Option<Deletion>,
    /// Chunks that shrink by at least an eighth travel compressed (Zstandard). Without the feature `zstd`, at either
    /// side, all go as they are.
    pub compress: bool,
    /// Holes of large files are not sent, and zeros become holes (lseek(2), fallocate(2)). No room is reserved.
    pub sparse: bool,
    /// Files that have several names in a listing are sent once, and have these names here.
    pub hard_links: bool,
    /// Users and groups are kept, by their numbers; names are not looked up. What this side may not set fails.
    pub owner: bool,
    /// Extended attributes of the namespace `user.` are kept, of a file or directory at most 64 KiB.
    pub xattrs: bool,
    /// A file gets its name when its octets are on the disk (fdatasync(2)).
    pub fsync: bool,
    /// Nothing is changed here: what would be is told.
    pub dry_run: bool,
}

/// A pattern of names, as rsync(1) has them: `*` and `?` match no slash; `[abc]` is one of some characters; `**`
/// between slashes stands for any directories, or none. A pattern that begins with a slash matches from the root of the
/// transfer on, others at the end of a path. A pattern that ends with a slash matches directories only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// False: names that match are left out.
    pub includes: bool,
    pub text: String,
}

impl Pattern {
    pub fn include(text: &str) -> Pattern {
        Pattern { includes: true, text: text.to_owned() }
    }

    pub fn exclude(text: &str) -> Pattern {
        Pattern { includes: false, text: text.to_owned() }
    }
}

/// Which files that are here already are replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Those with another size or time.
    #[default]
    Different,
    /// Of these, those that are not newer than the source's.
    NotNewer,
    /// None.
    Nothing,
}

/// How a transfer removes what the source does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The transfer removes at most so many files and directories. If a listing lacks more, or a directory that the
    /// source has removed has more, none of these is removed.
    pub most: Option<u64>,
    /// Everything may be removed: an empty source is no error.
    pub force: bool,
}

impl Rules {
    /// What the source does not have is removed.
    pub fn mirror() -> Rules {
        Rules { deletion: Some(Deletion::default()), ..Rules::default() }
    }
}
