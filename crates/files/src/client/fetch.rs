//! Fetches a file or a tree.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use super::operation::{Asks, Operation, Reply};
use super::{Event, Report};
use crate::error::{Code, Error, FileError};
use crate::transfer::digest::{BLOCK, Digest};
use crate::transfer::incoming::{Announced, IncomingFile, Part, has_part};
use crate::tree::discard::Discard;
use crate::tree::disk::DiskFolder;
use crate::tree::{Directory, Folder, Kind, TreePath};
use crate::wire::{Entries, Entry, Form, Mode, Request};

/// How often the wrong groups of a file are asked for again.
const ATTEMPTS: u32 = 3;

/// The most names in a request, and their octets.
const NAMES_MAX: usize = 1024;
const NAMES_BYTES_MAX: usize = 64 << 10;

/// Where a fetched file or tree goes.
pub enum Place {
    Path(PathBuf),
    Discarded,
}

impl Place {
    /// The directory and name for a file whose name at the server is `own`.
    fn of_file(&self, own: &[u8]) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
        let Place::Path(to) = self else { return Ok((Box::new(Discard), own.to_vec())) };
        let (parent, name) = match to.is_dir() {
            true => (to.clone(), own.to_vec()),
            false => {
                let name = to.file_name().map(|name| name.as_bytes().to_vec());
                let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
                (parent.unwrap_or(Path::new(".")).to_owned(), name.unwrap_or_default())
            }
        };
        TreePath::parse(&name)?;
        Ok((DiskFolder::open(&parent)?.directory(&TreePath::default())?, name))
    }

    /// The folder for a tree, which is created if needed.
    fn of_tree(&self) -> Result<Box<dyn Folder>, FileError> {
        let Place::Path(to) = self else { return Ok(Box::new(Discard)) };
        if !to.is_dir() {
            std::fs::create_dir(to).map_err(|error| {
                rustix::io::Errno::from_io_error(&error)
                    .map_or_else(|| FileError::new(Code::Disk, error.to_string()), FileError::from)
            })?;
        }
        Ok(Box::new(DiskFolder::open(to)?))
    }
}

/// A fetch that is under way.
pub struct Fetch {
    path: Vec<u8>,
    place: Place,
    events: Sender<Event>,
    report: Report,
    tree: Option<Tree>,
    /// Files that arrive, by their path at the server.
    current: HashMap<Vec<u8>, Current>,
    /// Files of which a part was asked for.
    prepared: HashMap<Vec<u8>, Current>,
    /// The requests that have not ended.
    open: usize,
}

struct Current {
    directory: Box<dyn Directory>,
    file: IncomingFile,
    /// The offset of the first wrong group of this attempt, and how many attempts had one.
    wrong_at: Option<u64>,
    attempts: u32,
}

/// The tree that is filled.
struct Tree {
    folder: Box<dyn Folder>,
    /// Names to be asked for.
    wanted: Vec<Vec<u8>>,
    wanted_bytes: usize,
    /// The directory of the last name.
    last: Option<(TreePath, Box<dyn Directory>)>,
    /// Directories, whose attributes are set in the end.
    directories: Vec<(TreePath, i64, u32)>,
}

impl Fetch {
    pub fn new(path: &[u8], place: Place, events: Sender<Event>) -> Fetch {
        let (report, tree, current, prepared, open) = Default::default();
        Fetch { path: path.to_vec(), place, events, report, tree, current, prepared, open }
    }

    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn fail(&mut self, name: &[u8], error: FileError) {
        let path = String::from_utf8_lossy(name).into_owned();
        self.report.failed.push((path.clone(), error.clone()));
        self.tell(Event::Failed { path, error });
    }

    fn finished(&mut self, name: &[u8], size: u64, digest: Digest) {
        self.report.files += 1;
        self.report.bytes += size;
        self.tell(Event::Finished { path: String::from_utf8_lossy(name).into_owned(), size, digest });
    }

    fn on_begin(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> Result<(), FileError> {
        let headers = reply.headers;
        if headers.kind == Some(Kind::Directory) {
            let folder = self.place.of_tree()?;
            let (wanted, wanted_bytes, last, directories) = Default::default();
            self.tree = Some(Tree { folder, wanted, wanted_bytes, last, directories });
            self.open += 1;
            asks.ask(Request::new(0, Mode::List, &self.path));
            return Ok(());
        }
        let announced = Announced {
            size: headers.size.unwrap_or(0),
            mtime_ns: headers.mtime_ns.unwrap_or(0),
            mode: headers.mode.unwrap_or(0o644) & 0o777,
            tag: headers.tag.clone(),
        };
        let filename = reply.burger.filename;
        let prepared = self.prepared.remove(filename).filter(|known| *known.file.announced() == announced);
        let current = match prepared {
            Some(current) => current,
            None => {
                let (directory, name) = self.place_of(filename)?;
                let part = Part::open(&*directory, &name)?;
                let file = IncomingFile::begin(&*directory, &name, part, announced)?;
                Current { directory, file, wrong_at: None, attempts: 0 }
            }
        };
        let (path, size) = (String::from_utf8_lossy(filename).into_owned(), current.file.size());
        self.tell(Event::Begun { path, size });
        self.current.insert(filename.to_vec(), current);
        Ok(())
    }

    /// Where a file of the server goes: directory and name.
    fn place_of(&mut self, filename: &[u8]) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
        let Some(tree) = &mut self.tree else {
            return self.place.of_file(filename.rsplit(|octet| *octet == b'/').next().unwrap_or_default());
        };
        let below = filename.strip_prefix(self.path.strip_suffix(b"/").unwrap_or(&self.path));
        let below = below.and_then(|name| name.strip_prefix(b"/"));
        let below = below.ok_or_else(|| FileError::new(Code::Invalid, "a file that was not asked for"))?;
        tree.place_of(&TreePath::parse(below)?)
    }

    /// Handles a chunk of a file. Returns the settled octets.
    fn on_data(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64 {
        let (filename, len) = (reply.burger.filename, reply.burger.chunk.len() as u64);
        // The rest of a file that failed here is still on its way.
        let Some(current) = self.current.get_mut(filename) else { return len };
        let held = current.file.unrecorded() + len;
        let mut settled = match current.file.write(&reply.burger, reply.headers) {
            Ok(written) => {
                current.wrong_at = current.wrong_at.or(written.wrong_at);
                written.recorded
            }
            Err(error) => {
                self.current.remove(filename);
                self.fail(filename, error);
                return held;
            }
        };
        self.tell(Event::Progress { bytes: len });
        if reply.burger.eof
            && let Some(current) = self.current.remove(filename)
        {
            settled += current.file.unrecorded();
            self.finish(filename, current, reply.headers.digest, asks);
        }
        settled
    }

    /// After the last chunk: puts the file in its place, or asks for wrong groups again.
    fn finish(&mut self, filename: &[u8], mut current: Current, digest: Option<Digest>, asks: &mut Asks) {
        let missing = current.file.missing();
        if !missing.is_empty() && current.attempts < ATTEMPTS {
            (current.wrong_at, current.attempts) = (None, current.attempts + 1);
            self.ask_ranges(filename, missing, current.file.announced().tag.clone(), asks);
            self.prepared.insert(filename.to_vec(), current);
            return;
        }
        let size = current.file.size();
        let finished = match current.wrong_at {
            Some(at) => {
                let text = format!("the octets from {at} on are not those that were announced");
                Err(FileError::new(Code::Corrupt, text))
            }
            None => current.file.finish(&*current.directory, digest, false),
        };
        match finished {
            Ok(digest) => self.finished(filename, size, digest),
            Err(error) => self.fail(filename, error),
        }
    }

    fn ask_ranges(&mut self, filename: &[u8], ranges: Vec<(u64, u64)>, tag: Vec<u8>, asks: &mut Asks) {
        self.open += 1;
        asks.ask(Request { ranges, tag, ..Request::new(0, Mode::Fetch, filename) });
    }

    /// Asks for what is missing of a file that an earlier transfer has begun. False: there is no part of it.
    fn resume(&mut self, filename: &[u8], asks: &mut Asks) -> Result<bool, FileError> {
        let (directory, name) = self.place_of(filename)?;
        if !has_part(&*directory, &name) {
            return Ok(false);
        }
        let part = Part::open(&*directory, &name)?;
        let Some(announced) = part.announced().cloned() else { return Ok(false) };
        let tag = announced.tag.clone();
        let file = IncomingFile::begin(&*directory, &name, part, announced)?;
        if file.is_empty() {
            return Ok(false);
        }
        let mut missing = file.missing();
        if missing.is_empty() {
            // All has arrived; the digest has not.
            missing.push((0, 1));
        }
        self.ask_ranges(filename, missing, tag, asks);
        self.prepared.insert(filename.to_vec(), Current { directory, file, wrong_at: None, attempts: 0 });
        Ok(true)
    }

    fn on_failed(
        &mut self,
        filename: &[u8],
        error: FileError,
        asks: &mut Asks,
        settled: &mut u64,
    ) -> Result<(), FileError> {
        if let Some(current) = self.current.remove(filename) {
            *settled += current.file.unrecorded();
        }
        if self.prepared.remove(filename).is_some() && error.code == Code::Changed {
            // The part is of another version: the file is fetched from the beginning.
            self.open += 1;
            asks.ask(Request::new(0, Mode::Fetch, filename));
            return Ok(());
        }
        Err(error)
    }

    fn on_list(&mut self, chunk: &[u8], asks: &mut Asks) -> Result<(), FileError> {
        for entry in Entries::of_list(chunk) {
            let entry = entry.map_err(|error| FileError::new(Code::Invalid, error.to_string()))?;
            let Some(tree) = &mut self.tree else { break };
            let wanted = match tree.on_entry(&entry) {
                Ok(is_wanted) => is_wanted,
                Err(error) => {
                    self.fail(entry.name, error);
                    continue;
                }
            };
            if wanted && entry.size > BLOCK {
                let filename =
                    [self.path.strip_suffix(b"/").unwrap_or(&self.path), b"/", entry.name].concat();
                match self.resume(&filename, asks) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        self.fail(&filename, error);
                        continue;
                    }
                }
            }
            if let Some(tree) = self.tree.as_mut().filter(|_| wanted) {
                tree.wanted_bytes += entry.name.len();
                tree.wanted.push(entry.name.to_vec());
            }
        }
        self.ask_wanted(asks, NAMES_MAX);
        Ok(())
    }

    /// Asks for files once there are `least` names.
    fn ask_wanted(&mut self, asks: &mut Asks, least: usize) {
        let Some(tree) = &mut self.tree else { return };
        while !tree.wanted.is_empty() && (tree.wanted.len() >= least || tree.wanted_bytes >= NAMES_BYTES_MAX)
        {
            let rest = tree.wanted.split_off(tree.wanted.len().min(NAMES_MAX));
            let names = std::mem::replace(&mut tree.wanted, rest);
            tree.wanted_bytes = tree.wanted.iter().map(Vec::len).sum();
            self.open += 1;
            asks.ask(Request { names, ..Request::new(0, Mode::Fetch, &self.path) });
        }
    }

    fn on_pack(&mut self, chunk: &[u8]) -> Result<(), FileError> {
        let mut bytes = 0;
        for entry in Entries::of_pack(chunk) {
            let entry = entry.map_err(|error| FileError::new(Code::Invalid, error.to_string()))?;
            let Some(tree) = &mut self.tree else { break };
            bytes += entry.size;
            match tree.write_small(&entry) {
                Ok(digest) => self.finished(entry.name, entry.size, digest),
                Err(error) => self.fail(entry.name, error),
            }
        }
        self.tell(Event::Progress { bytes });
        Ok(())
    }

    fn finish_tree(&mut self) {
        let Some(mut tree) = self.tree.take() else { return };
        // The deepest first: writing into a directory changes its time.
        for (path, mtime_ns, mode) in std::mem::take(&mut tree.directories).into_iter().rev() {
            let set = tree.place_of(&path);
            let set = set.and_then(|(directory, name)| directory.set_attributes(&name, mtime_ns, mode));
            if let Err(error) = set {
                self.fail(path.as_bytes(), error);
            }
        }
    }
}

impl Tree {
    /// The directory of a path, and the name in it.
    fn place_of(&mut self, path: &TreePath) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
        let (parent, name) = split(path)?;
        Ok((self.folder.directory(&parent)?, name.to_vec()))
    }

    /// The directory of a path, kept for the next names.
    fn directory_of(&mut self, parent: TreePath) -> Result<&dyn Directory, FileError> {
        if self.last.as_ref().is_none_or(|(known, _)| *known != parent) {
            self.last = Some((parent.clone(), self.folder.directory(&parent)?));
        }
        match &self.last {
            Some((_, directory)) => Ok(&**directory),
            None => Err(FileError::new(Code::NotFound, "no directory")),
        }
    }

    /// Makes directories and links. Returns true if it is a file that differs from what is here.
    fn on_entry(&mut self, entry: &Entry<'_>) -> Result<bool, FileError> {
        let path = TreePath::parse(entry.name)?;
        let (parent, name) = split(&path)?;
        let directory = self.directory_of(parent)?;
        let own = directory.attributes(name);
        match entry.kind {
            Kind::Directory => {
                match own {
                    Ok(own) if own.kind == Kind::Directory => {}
                    Ok(_) => return Err(FileError::new(Code::Denied, "a file is in the way of a directory")),
                    Err(_) => directory.make_directory(name, entry.mode & 0o777)?,
                }
                self.directories.push((path, entry.mtime_ns, entry.mode & 0o777));
            }
            Kind::Link => {
                let is_same = own.is_ok_and(|own| own.kind == Kind::Link)
                    && directory.read_link(name).is_ok_and(|target| target == entry.target);
                if !is_same {
                    directory.make_link(name, entry.target)?;
                }
            }
            Kind::File => {
                let is_same = own.is_ok_and(|own| {
                    (own.kind, own.size, own.mtime_ns) == (Kind::File, entry.size, entry.mtime_ns)
                });
                return Ok(!is_same);
            }
        }
        Ok(false)
    }

    /// Writes a whole file of a pack.
    fn write_small(&mut self, entry: &Entry<'_>) -> Result<Digest, FileError> {
        let Some((digest, content)) = entry.content else {
            return Err(FileError::new(Code::Invalid, "no content"));
        };
        if blake3::hash(content).as_bytes() != digest {
            return Err(FileError::new(Code::Corrupt, "the octets are not those that were announced"));
        }
        let path = TreePath::parse(entry.name)?;
        let (parent, name) = split(&path)?;
        let directory = self.directory_of(parent)?;
        let part = crate::transfer::incoming::part_name(name);
        let target = directory.create(&part)?;
        target.set_len(0)?;
        target.write(0, content)?;
        target.set_attributes(entry.mtime_ns, entry.mode & 0o777)?;
        directory.rename(&part, name)?;
        Ok(*digest)
    }
}

fn split(path: &TreePath) -> Result<(TreePath, &[u8]), FileError> {
    path.split_last().ok_or_else(|| FileError::new(Code::Invalid, "an empty name"))
}

impl Operation for Fetch {
    fn begin(&mut self, asks: &mut Asks) {
        (self.tree, self.open) = (None, 0);
        self.current.clear();
        self.prepared.clear();
        let path = self.path.clone();
        match self.resume(&path, asks) {
            Ok(true) => {}
            // What is wrong with the place shows when the file begins.
            Ok(false) | Err(_) => {
                self.open = 1;
                asks.ask(Request::new(0, Mode::Fetch, &self.path));
            }
        }
    }

    fn on_reply(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64 {
        let (filename, headers) = (reply.burger.filename, reply.headers);
        let mut settled = reply.burger.chunk.len() as u64;
        let outcome = match headers.form {
            Form::Begin => self.on_begin(reply, asks),
            Form::Data => {
                settled = self.on_data(reply, asks);
                Ok(())
            }
            Form::List => self.on_list(reply.burger.chunk, asks),
            Form::Pack => self.on_pack(reply.burger.chunk),
            Form::Failed => self.on_failed(filename, reply.failure(), asks, &mut settled),
            Form::End => {
                self.open = self.open.saturating_sub(1);
                self.ask_wanted(asks, 1);
                Ok(())
            }
        };
        if let Err(error) = outcome {
            self.fail(filename, error);
        }
        if self.open == 0 {
            for (name, current) in std::mem::take(&mut self.current) {
                settled += current.file.unrecorded();
                self.fail(&name, FileError::new(Code::Invalid, "the server ended before the file did"));
            }
            self.finish_tree();
            let report = std::mem::take(&mut self.report);
            self.tell(Event::Ended(report));
        }
        settled
    }

    fn is_over(&self) -> bool {
        self.open == 0
    }

    fn abort(&mut self, error: Error) -> u64 {
        self.tell(Event::Aborted(error));
        self.current.drain().map(|(_, current)| current.file.unrecorded()).sum()
    }
}
