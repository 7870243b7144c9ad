//! The files that arrive of one request: those that have begun, those of which a part is asked for, and their place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::comparison::{COMPARED, Comparison};
use super::digest::{BLOCK, Digest, digest_of};
use super::hard_links::LaterName;
use super::incoming::{Announced, IncomingFile, Part, has_part};
use super::place::{Place, Placed, TreeTarget};
use super::selection::Selection;
use crate::error::{Code, FileError};
use crate::tree::{Attributes, Directory, Kind, TreePath};
use crate::wire::{Cheezburger, Entries, Entry, Extra, Headers};

/// How often the wrong groups of a file are asked for again.
const ATTEMPTS: u32 = 3;

/// The files of a request.
pub struct Arrivals {
    /// The path of the request, without a slash at its end.
    path: Vec<u8>,
    /// The name by which a directory goes below the place. None: only its content goes there.
    own_name: Option<Vec<u8>>,
    place: Place,
    selection: Arc<Selection>,
    tree: Option<TreeTarget>,
    /// Files that arrive, by the sender's path.
    current: BTreeMap<Vec<u8>, Current>,
    /// Files of which a part was asked for.
    prepared: BTreeMap<Vec<u8>, Current>,
    /// Files that are compared with those here.
    compared: BTreeMap<Vec<u8>, Comparison>,
}

struct Current {
    directory: Box<dyn Directory>,
    file: IncomingFile,
    /// The offset of the first wrong group of this attempt, and how many attempts had one.
    wrong_at: Option<u64>,
    attempts: u32,
}

/// A file that is to be asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    Whole,
    /// The values of its blocks, of which some may be here.
    Values,
    /// Parts of it, and the version that they belong to.
    Parts {
        ranges: Vec<(u64, u64)>,
        tag: Vec<u8>,
    },
}

/// What became of a file after a chunk.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// More is to come.
    Written,
    /// Nothing: the file has failed before.
    Ignored,
    /// It is whole and in its place.
    Finished {
        size: u64,
        digest: Digest,
    },
    /// Groups were wrong.
    Wanted(Wanted),
    Failed(FileError),
}

impl Arrivals {
    /// `path`: with a slash at its end, the directory's content goes to the place; without, the directory goes there by
    /// its name.
    pub fn new(path: &[u8], place: Place, selection: Selection) -> Arrivals {
        let (tree, current, prepared, compared) = Default::default();
        let own_name = Some(own_name(path).to_vec()).filter(|name| !name.is_empty());
        let selection = Arc::new(selection);
        let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
        Arrivals { path, own_name, place, selection, tree, current, prepared, compared }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub fn selection(&self) -> Arc<Selection> {
        self.selection.clone()
    }

    /// Forgets what is under way. What has arrived stays on the disk.
    pub fn reset(&mut self) {
        self.tree = None;
        self.current.clear();
        self.prepared.clear();
        self.compared.clear();
    }

    /// A directory is listed: the path of the request, or one below it.
    pub fn begin_listing(&mut self, filename: &[u8]) -> Result<(), FileError> {
        let is_root = filename.strip_suffix(b"/").unwrap_or(filename) == self.path;
        let base = if is_root { TreePath::default() } else { below(&self.path, filename)? };
        if is_root {
            let folder = self.place.of_tree(self.own_name.as_deref(), &self.selection)?;
            self.tree = Some(TreeTarget::new(folder, self.selection.clone()));
        }
        self.tree()?.begin_listing(base);
        Ok(())
    }

    /// The sender's path of a name below the request's path.
    pub fn filename_of(&self, name: &[u8]) -> Vec<u8> {
        joined(&self.path, name)
    }

    /// A file begins. Errors: its path is not below the request's; those of its place.
    pub fn begin_file(
        &mut self,
        filename: &[u8],
        announced: Announced,
        headers: &Headers,
    ) -> Result<(), FileError> {
        let prepared = self.prepared.remove(filename).filter(|known| *known.file.announced() == announced);
        let current = match prepared {
            Some(current) => current,
            None => {
                if self.tree.is_none() {
                    self.place.prepare(own_name(filename), &self.selection)?;
                }
                let (directory, name) = self.place_of(filename)?;
                let part = Part::open(&*directory, &name)?;
                let file = IncomingFile::begin(&*directory, &name, part, announced)?;
                Current { directory, file, wrong_at: None, attempts: 0 }
            }
        };
        if let Some(more) = self.selection.more_of(headers.owner, headers.xattrs.as_deref()) {
            current.file.set_more(&more)?;
        }
        self.current.insert(filename.to_vec(), current);
        Ok(())
    }

    /// Directory and name of a file of the sender.
    fn place_of(&mut self, filename: &[u8]) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
        let Some(tree) = &mut self.tree else {
            return self.place.of_file(own_name(filename));
        };
        tree.place_of(&below(&self.path, filename)?)
    }

    fn tree(&mut self) -> Result<&mut TreeTarget, FileError> {
        self.tree.as_mut().ok_or_else(|| FileError::new(Code::Invalid, "no directory has begun"))
    }

    /// A file of the source failed, perhaps before it was listed. Returns true if it is left out here.
    pub fn miss(&mut self, filename: &[u8], code: Code) -> bool {
        let below = below(&self.path, filename).unwrap_or_default();
        self.tree.as_mut().is_some_and(|tree| tree.miss(&below, code))
    }

    /// The listing is complete. Reports each path that is removed here, as the source's.
    pub fn end_listing(&mut self, mut removed: impl FnMut(&[u8])) -> Result<(), FileError> {
        let Arrivals { path: base, tree, .. } = self;
        let report = |path: &TreePath| removed(&joined(base, path.as_bytes()));
        tree.as_mut().map_or(Ok(()), |tree| tree.end_listing(report))
    }

    /// The source has removed a path. Returns true if it is removed here too.
    pub fn remove(&mut self, filename: &[u8]) -> Result<bool, FileError> {
        let path = below(&self.path, filename)?;
        self.tree()?.remove(&path)
    }

    /// The source has moved a path. Returns true if it is moved here too.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<bool, FileError> {
        let (from, to) = (below(&self.path, from)?, below(&self.path, to)?);
        self.tree()?.rename(&from, &to)
    }

    /// Makes the further names of files, and reports each: its path at the sender, and the file's first one. Returns
    /// the names that are to be fetched.
    pub fn make_links(&mut self, mut report: impl FnMut(&[u8], &[u8])) -> Vec<TreePath> {
        let Arrivals { path: base, tree, .. } = self;
        let links = |link: &LaterName| {
            report(&joined(base, link.path.as_bytes()), &joined(base, link.first.as_bytes()))
        };
        tree.as_mut().map_or(Vec::new(), |tree| tree.make_links(links))
    }

    /// Sets the attributes of directories, and reports failures.
    pub fn set_directories(&mut self, mut report: impl FnMut(&[u8], FileError)) {
        let Arrivals { path: base, tree, .. } = self;
        tree.iter_mut()
            .for_each(|tree| tree.finish(|path, error| report(&joined(base, path.as_bytes()), error)));
    }

    /// The size of a file that arrives. None: it has not begun, or has failed.
    pub fn size_of(&self, filename: &[u8]) -> Option<u64> {
        self.current.get(filename).map(|current| current.file.size())
    }

    /// Writes a chunk. Returns how many octets are settled by it, and what became of the file.
    pub fn write(&mut self, burger: &Cheezburger<'_>, headers: &Headers) -> (u64, News) {
        let (filename, len) = (burger.filename, burger.chunk.len() as u64);
        // The rest of a file that failed here is still on its way.
        let Some(current) = self.current.get_mut(filename) else { return (len, News::Ignored) };
        let held = current.file.unrecorded() + len;
        let settled = match current.file.write(burger, headers) {
            Ok(written) => {
                current.wrong_at = current.wrong_at.or(written.wrong_at);
                written.recorded
            }
            Err(error) => {
                self.current.remove(filename);
                return (held, News::Failed(error));
            }
        };
        let ended = if burger.eof { self.current.remove(filename) } else { None };
        match ended {
            None => (settled, News::Written),
            Some(mut current) => {
                let rest = current.file.settle();
                (settled + rest, self.finish(filename, current, headers.digest))
            }
        }
    }

    /// After the last chunk: puts the file in its place, or wants wrong groups again.
    fn finish(&mut self, filename: &[u8], mut current: Current, digest: Option<Digest>) -> News {
        let ranges = current.file.missing();
        if !ranges.is_empty() && current.attempts < ATTEMPTS {
            (current.wrong_at, current.attempts) = (None, current.attempts + 1);
            let tag = current.file.announced().tag.clone();
            self.prepared.insert(filename.to_vec(), current);
            return News::Wanted(Wanted::Parts { ranges, tag });
        }
        if let Some(at) = current.wrong_at {
            let text = format!("the octets from {at} on are not those that were announced");
            return News::Failed(FileError::new(Code::Corrupt, text));
        }
        let size = current.file.size();
        match current.file.finish(&*current.directory, digest, self.selection.rules.fsync) {
            Ok(digest) => News::Finished { size, digest },
            Err(error) => News::Failed(error),
        }
    }

    /// What is missing of a file that an earlier transfer has begun. None: there is no part of it.
    pub fn resume(&mut self, filename: &[u8]) -> Result<Option<Wanted>, FileError> {
        let (directory, name) = self.place_of(filename)?;
        if !has_part(&*directory, &name) {
            return Ok(None);
        }
        let part = Part::open(&*directory, &name)?;
        let Some(announced) = part.announced().cloned() else { return Ok(None) };
        let tag = announced.tag.clone();
        let file = IncomingFile::begin(&*directory, &name, part, announced)?;
        if file.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.prepare(filename, directory, file, tag)))
    }

    /// Parts of the file are to be asked for.
    fn prepare(
        &mut self,
        filename: &[u8],
        directory: Box<dyn Directory>,
        file: IncomingFile,
        tag: Vec<u8>,
    ) -> Wanted {
        let mut ranges = file.missing();
        if ranges.is_empty() {
            // All has arrived; the digest has not.
            ranges.push((0, 1));
        }
        self.prepared.insert(filename.to_vec(), Current { directory, file, wrong_at: None, attempts: 0 });
        Wanted::Parts { ranges, tag }
    }

    /// Which parts to ask for of a file that differs from the one here. `size`: the sender's, if it is known.
    pub fn want(&mut self, filename: &[u8], size: Option<u64>) -> Result<Wanted, FileError> {
        let size = size.unwrap_or(u64::MAX);
        if size <= BLOCK {
            return Ok(Wanted::Whole);
        }
        if let Some(resumed) = self.resume(filename)? {
            return Ok(resumed);
        }
        let is_compared = size >= COMPARED && !self.selection.rules.whole_files;
        let known = if is_compared { self.known(filename) } else { None };
        match known.is_some_and(|own| own.size >= COMPARED) {
            true => Ok(Wanted::Values),
            false => Ok(Wanted::Whole),
        }
    }

    /// Values of the blocks of a file. After the last ones: what to ask for.
    pub fn compare(
        &mut self,
        burger: &Cheezburger<'_>,
        announced: Announced,
    ) -> Result<Option<Wanted>, FileError> {
        let (filename, tag) = (burger.filename, announced.tag.clone());
        if burger.offset == 0 {
            let (directory, name) = self.place_of(filename)?;
            self.compared.insert(filename.to_vec(), Comparison::begin(directory, &name, announced)?);
        }
        // The rest of a file that failed here is still on its way.
        let Some(mut comparison) = self.compared.remove(filename) else { return Ok(None) };
        comparison.add(burger.offset, burger.chunk)?;
        if !burger.eof {
            self.compared.insert(filename.to_vec(), comparison);
            return Ok(None);
        }
        let (directory, file) = comparison.end();
        Ok(Some(self.prepare(filename, directory, file, tag)))
    }

    /// What to ask for of a file of which the part asked for is of another version: the sender's, perhaps of the same
    /// content.
    pub fn want_other_version(&mut self, filename: &[u8]) -> Wanted {
        let prepared = self.prepared.remove(filename).filter(|_| !self.selection.rules.whole_files);
        match prepared.is_some_and(|part| part.file.size() >= COMPARED && !part.file.is_empty()) {
            true => Wanted::Values,
            false => Wanted::Whole,
        }
    }

    /// The sender gives a file up. Returns the octets that are settled.
    pub fn give_up(&mut self, filename: &[u8]) -> u64 {
        self.prepared.remove(filename);
        self.compared.remove(filename);
        self.current.remove(filename).map_or(0, |current| current.file.unrecorded())
    }

    /// Makes the directory or link of an entry. Returns what to ask for of a file that differs from the one here; and
    /// whether anything differs.
    pub fn place_entry(&mut self, entry: &Entry<'_>) -> Result<(Option<Wanted>, bool), FileError> {
        let Some(tree) = &mut self.tree else { return Ok((None, false)) };
        let placed = tree.place_entry(entry)?;
        if placed != Placed::Wanted || self.selection.rules.dry_run {
            return Ok((None, placed != Placed::Same));
        }
        let filename = self.filename_of(entry.name);
        if self.is_under_way(&filename) {
            // If it is another version, its sender will notice.
            return Ok((None, true));
        }
        Ok((Some(self.want(&filename, Some(entry.size))?), true))
    }

    /// Returns true if a file was asked for, and has not arrived.
    fn is_under_way(&self, filename: &[u8]) -> bool {
        let (arriving, asked) = (self.current.contains_key(filename), self.prepared.contains_key(filename));
        arriving || asked || self.compared.contains_key(filename)
    }

    /// Size and time of the file here that a file of the source would replace.
    pub fn known(&mut self, filename: &[u8]) -> Option<Attributes> {
        let (directory, name) = self.place_of(filename).ok()?;
        directory.attributes(&name).ok().filter(|own| own.kind == Kind::File)
    }

    /// As `replaces`, for the entry of a file with its digest.
    pub fn replaces_by_content(&mut self, filename: &[u8], entry: &Entry<'_>) -> bool {
        let own = self.known(filename);
        let place = self.place_of(filename);
        let digest = || digest_of(&*place.and_then(|(directory, name)| directory.open(&name)).ok()?.0).ok();
        self.selection.replaces(own.as_ref(), entry, digest)
    }

    /// Returns true if the source's file replaces the one here.
    pub fn replaces(&mut self, filename: &[u8], size: u64, mtime_ns: i64) -> bool {
        let own = self.known(filename);
        let entry = Entry {
            kind: Kind::File,
            name: b"",
            size,
            mtime_ns,
            mode: 0,
            target: b"",
            content: None,
            extra: Extra::default(),
        };
        self.selection.replaces(own.as_ref(), &entry, || None)
    }

    /// Writes the files of a pack, and reports each: its name, size and digest. Error: the pack is invalid from some
    /// entry on.
    pub fn write_pack(
        &mut self,
        chunk: &[u8],
        has_extra: bool,
        mut report: impl FnMut(&[u8], Result<(u64, Digest), FileError>),
    ) -> Result<(), FileError> {
        for entry in Entries::of_pack(chunk).with_extra(has_extra) {
            let entry = entry.map_err(|error| FileError::new(Code::Invalid, error.to_string()))?;
            let Some(tree) = &mut self.tree else { break };
            report(entry.name, tree.write_small(&entry).map(|digest| (entry.size, digest)));
        }
        Ok(())
    }

    /// The request has ended. Reports failures: files that did not end, attributes that cannot be set. Returns the
    /// octets that are settled.
    pub fn end(&mut self, mut report: impl FnMut(&[u8], FileError)) -> u64 {
        let mut settled = 0;
        for (name, current) in std::mem::take(&mut self.current) {
            settled += current.file.unrecorded();
            report(&name, FileError::new(Code::Invalid, "the sender ended before the file did"));
        }
        self.set_directories(report);
        self.tree = None;
        settled
    }

    /// Octets that are not settled.
    pub fn unsettled(&self) -> u64 {
        self.current.values().map(|current| current.file.unrecorded()).sum()
    }
}

/// The last name of a path; empty: it ends with a slash.
fn own_name(path: &[u8]) -> &[u8] {
    path.rsplit(|octet| *octet == b'/').next().unwrap_or_default()
}

/// The sender's path of a name below another one; of no name, that one.
fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    match name.is_empty() {
        true => path.to_vec(),
        false => [path, b"/", name].concat(),
    }
}

/// The path of a file below the request's path. Error: Invalid, it is none.
fn below(path: &[u8], filename: &[u8]) -> Result<TreePath, FileError> {
    let below = filename.strip_prefix(path).and_then(|name| name.strip_prefix(b"/"));
    TreePath::parse(below.ok_or_else(|| FileError::new(Code::Invalid, "a file that was not asked for"))?)
}
