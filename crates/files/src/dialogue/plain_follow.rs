//! A path that is followed at a server without the extensions.
//!
//! Files come as content only: no size, no time and no digest. So a file is whole when the server says so, and the
//! server compares the client's files by SHA-1.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::cache::{FileHasher, to_hex};
use super::details::Details;
use super::events::Reporter;
use super::walk::{Found, Walk};
use super::{Event, shown};
use crate::error::{Code, Error, FileError};
use crate::rules::Existing;
use crate::transfer::incoming::{in_use, lock_part};
use crate::transfer::place::{Place, make_directory};
use crate::transfer::selection::Selection;
use crate::tree::parts::{is_part, part_name};
use crate::tree::{Directory, Folder, Kind, Source, Target, TreePath};
use crate::wire::{Change, Cheezburger, Entries, HashWriter, Message};

/// The most files that a subscription names as here already.
const CACHED_MAX: usize = 1000;

/// The most octets of a name in a hash.
const CACHED_NAME_MAX: usize = 255;

/// The path, and the file that arrives.
pub struct PlainFollow {
    /// Without a slash at its end.
    path: Vec<u8>,
    folder: Box<dyn Folder>,
    selection: Arc<Selection>,
    reporter: Reporter,
    preparation: Option<Preparation>,
    arriving: Option<ArrivingFile>,
    /// The virtual path of a file that was given up, until its next offset 0.
    skipped: Vec<u8>,
}

/// The files that are here are hashed, before the path is subscribed to.
struct Preparation {
    walk: Option<Walk>,
    hashed: Option<(TreePath, Box<dyn Source>, u64, FileHasher)>,
    cache: HashWriter,
    names: usize,
}

/// A file that is written to its part.
struct ArrivingFile {
    filename: Vec<u8>,
    directory: Box<dyn Directory>,
    name: Vec<u8>,
    target: Box<dyn Target>,
    offset: u64,
    hash: blake3::Hasher,
}

impl PlainFollow {
    /// `path`: with a slash at its end, its content goes to the place; without, it goes there by its name. Error:
    /// the directory cannot be made.
    pub(super) fn new(
        path: &[u8],
        place: &Place,
        selection: Arc<Selection>,
        reporter: Reporter,
    ) -> Result<PlainFollow, (Reporter, FileError)> {
        let own_name = path.rsplit(|octet| *octet == b'/').next().filter(|name| !name.is_empty());
        let folder = match place.of_tree(own_name, &selection) {
            Ok(folder) => folder,
            Err(error) => return Err((reporter, error)),
        };
        let path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
        let (preparation, arriving, skipped) = Default::default();
        Ok(PlainFollow { path, folder, selection, reporter, preparation, arriving, skipped })
    }

    /// A new connection: the path is to be subscribed to.
    pub fn begin(&mut self) {
        self.reporter.note_answer();
        self.give_up();
        self.skipped.clear();
        let root = self.folder.directory(&TreePath::default());
        let walk = root.and_then(|root| Walk::new(root, b"", Details::default())).ok();
        let (hashed, cache, names) = Default::default();
        self.preparation = Some(Preparation { walk, hashed, cache, names });
    }

    /// Hashes the next piece of the client's files. Returns the subscription when all are hashed.
    pub fn prepare(&mut self) -> Option<Vec<u8>> {
        let preparation = self.preparation.as_mut()?;
        if preparation.step(&*self.folder, &self.selection) {
            return None;
        }
        let mut options = HashWriter::default();
        options.put(b"RESYNC", b"1");
        let path: &[u8] = if self.path.is_empty() { b"/" } else { &self.path };
        let cache = preparation.cache.hash();
        let frame = Message::Icanhaz { path, options: options.hash(), cache }.to_frame();
        self.preparation = None;
        Some(frame)
    }

    pub fn is_preparing(&self) -> bool {
        self.preparation.is_some()
    }

    /// Handles a chunk or a deletion, which may be of another path.
    pub fn on_chunk(&mut self, burger: &Cheezburger<'_>) {
        let Some(below) = self.name_of(burger.filename) else { return };
        if self.arriving.as_ref().is_some_and(|file| file.filename != burger.filename) {
            self.fail_arriving(FileError::new(Code::Invalid, "another file came before it had ended"));
        }
        let path = match TreePath::parse(below) {
            Ok(path) if path.is_empty() => {
                Err(FileError::new(Code::Invalid, "it is the followed path itself"))
            }
            path => path,
        };
        let outcome = match (path, burger.operation) {
            (Ok(path), _) if self.is_left_out(&path) => return,
            (_, Change::Other(_)) => return,
            (Ok(path), Change::Create) => self.on_content(burger, &path),
            (Ok(path), Change::Delete) => self.remove(burger.filename, &path),
            (Err(error), _) => Err(error),
        };
        if let Err(error) = outcome {
            self.give_up();
            if self.skipped != burger.filename {
                self.reporter.fail(burger.filename, error);
            }
            self.skipped = burger.filename.to_vec();
        }
    }

    /// The name below the path, of which the server may have sent anything. None: it is not below the path.
    fn name_of<'a>(&self, filename: &'a [u8]) -> Option<&'a [u8]> {
        match filename.strip_prefix(&self.path[..])? {
            b"" => Some(b""),
            rest => rest.strip_prefix(b"/"),
        }
    }

    fn is_left_out(&self, path: &TreePath) -> bool {
        path.as_bytes().split(|octet| *octet == b'/').any(is_part)
            || self.selection.filter.excludes(path, false)
    }

    fn on_content(&mut self, burger: &Cheezburger<'_>, path: &TreePath) -> Result<(), FileError> {
        if burger.offset == 0 {
            self.skipped.clear();
            if self.is_left(path) {
                self.skipped = burger.filename.to_vec();
                return Ok(());
            }
            if self.selection.rules.dry_run {
                self.skipped = burger.filename.to_vec();
                self.reporter.tell(Event::Planned { path: shown(burger.filename), removal: false });
                return Ok(());
            }
            self.begin_file(burger.filename, path)?;
        }
        if self.skipped == burger.filename {
            return Ok(());
        }
        let len = burger.chunk.len() as u64;
        let Some(file) = &mut self.arriving else {
            // libfilemq's server may send its last chunk once more.
            return match burger.eof && len == 0 {
                true => Ok(()),
                false => Err(FileError::new(Code::Invalid, "its beginning did not come")),
            };
        };
        if burger.offset.checked_add(len).is_some_and(|end| end <= file.offset) && len > 0 {
            return Ok(());
        }
        if burger.offset != file.offset {
            let text = format!("the offset {} after {} octets", burger.offset, file.offset);
            return Err(FileError::new(Code::Invalid, text));
        }
        file.target.write(burger.offset, burger.chunk)?;
        file.hash.update(burger.chunk);
        file.offset += len;
        if len > 0 {
            self.reporter.tell(Event::Progress { bytes: len });
        }
        if burger.eof { self.finish() } else { Ok(()) }
    }

    /// Returns true if the rules say that a file here stays.
    fn is_left(&self, path: &TreePath) -> bool {
        let Some((parent, name)) = path.split_last() else { return true };
        let is_here = || self.folder.directory(&parent).and_then(|parent| parent.attributes(name)).is_ok();
        self.selection.rules.existing == Existing::Nothing && is_here()
    }

    fn begin_file(&mut self, filename: &[u8], path: &TreePath) -> Result<(), FileError> {
        self.give_up();
        let (parent, name) =
            path.split_last().ok_or_else(|| FileError::new(Code::Invalid, "an empty name"))?;
        let mut made = TreePath::default();
        for name in parent.as_bytes().split(|octet| *octet == b'/').filter(|name| !name.is_empty()) {
            made = made.join(name)?;
            make_directory(&*self.folder, &made)?;
        }
        let directory = self.folder.directory(&parent)?;
        let target = lock_part(&*directory, &part_name(name))?.ok_or_else(in_use)?;
        target.set_len(0)?;
        let (filename, name, hash) = (filename.to_vec(), name.to_vec(), blake3::Hasher::new());
        self.arriving = Some(ArrivingFile { filename, directory, name, target, offset: 0, hash });
        Ok(())
    }

    /// Puts the file in its place.
    fn finish(&mut self) -> Result<(), FileError> {
        let Some(file) = &self.arriving else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        file.target.set_attributes(now.as_nanos() as i64, 0o644)?;
        let fsync = self.selection.rules.fsync;
        if fsync {
            file.target.sync()?;
        }
        file.directory.rename(&part_name(&file.name), &file.name)?;
        if fsync {
            file.directory.sync()?;
        }
        let (path, size, digest) = (shown(&file.filename), file.offset, *file.hash.finalize().as_bytes());
        self.arriving = None;
        self.reporter.report.files += 1;
        self.reporter.report.bytes += size;
        self.reporter.tell(Event::Finished { path, size, digest });
        Ok(())
    }

    /// Removes a file, and no directory: the protocol tells of files only.
    fn remove(&mut self, filename: &[u8], path: &TreePath) -> Result<(), FileError> {
        self.give_up();
        self.skipped.clear();
        let Some((parent, name)) = path.split_last() else { return Ok(()) };
        let found = self.folder.directory(&parent);
        let found = found.and_then(|parent| Ok((parent.attributes(name)?.kind, parent)));
        let rules = &self.selection.rules;
        let here = match found {
            Ok((kind, parent)) if kind != Kind::Directory && rules.deletion.is_some() => {
                self.selection.count_removals(1)?;
                if rules.dry_run {
                    self.reporter.tell(Event::Planned { path: shown(filename), removal: true });
                    return Ok(());
                }
                parent.remove_file(name)?;
                true
            }
            _ => false,
        };
        self.reporter.tell(Event::Removed { path: shown(filename), here });
        Ok(())
    }

    fn fail_arriving(&mut self, error: FileError) {
        let filename = self.arriving.as_ref().map(|file| file.filename.clone());
        self.give_up();
        filename.into_iter().for_each(|filename| self.reporter.fail(&filename, error.clone()));
    }

    /// Forgets the file that arrives.
    fn give_up(&mut self) {
        if let Some(file) = self.arriving.take() {
            let _ = file.directory.remove_file(&part_name(&file.name));
        }
    }

    /// As `Operation::waits_for_server`.
    pub fn waits_for_server(&mut self, error: &dyn Fn() -> Error) -> bool {
        self.reporter.note_loss(error)
    }

    /// It ends.
    pub fn abort(&mut self, error: Error) {
        self.give_up();
        self.reporter.tell(Event::Aborted(error));
    }
}

impl Preparation {
    /// Hashes the next piece. False: all is hashed.
    fn step(&mut self, folder: &dyn Folder, selection: &Selection) -> bool {
        if let Some((path, source, size, mut hasher)) = self.hashed.take() {
            match hasher.step(&*source, size) {
                Ok(None) => self.hashed = Some((path, source, size, hasher)),
                Ok(Some(digest)) => {
                    self.cache.put(path.as_bytes(), to_hex(&digest).as_bytes());
                    self.names += 1;
                }
                // It comes from the server.
                Err(_) => {}
            }
            return true;
        }
        let Some(walk) = self.walk.as_mut().filter(|_| self.names < CACHED_MAX) else { return false };
        let mut entry = Vec::new();
        match walk.next(&mut entry) {
            Found::Nothing => return false,
            Found::Failed(..) | Found::Working => return true,
            Found::Entry => {}
        }
        let path = match Entries::of_list(&entry).next() {
            Some(Ok(entry)) if entry.kind == Kind::File && entry.name.len() <= CACHED_NAME_MAX => entry.name,
            _ => return true,
        };
        if let Ok(path) = TreePath::parse(path)
            && !selection.filter.excludes(&path, false)
            && let Ok(source) = folder.open(&path)
            && let Ok(attributes) = source.attributes()
        {
            self.hashed = Some((path, source, attributes.size, FileHasher::default()));
        }
        true
    }
}
