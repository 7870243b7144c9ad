//! Where files go: a file of its own, or a tree that is filled.

mod links;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::digest::{Digest, digest_of};
use super::hard_links::HardLinks;
use super::incoming::{in_use, lock_part, remove_blocks};
use super::mirror::{self, Mirror, in_the_way};
use super::old_parts::remove_old_parts;
use super::selection::Selection;
use crate::error::{Code, FileError};
use crate::rules::Rules;
use crate::tree::discard::Discard;
use crate::tree::disk::DiskFolder;
use crate::tree::parts::part_name;
use crate::tree::{Attributes, Directory, Folder, Kind, TreePath};
use crate::wire::{Entry, HardLink};

/// Where files go.
pub enum Place {
    /// A path below a folder. If it is a directory, a file goes into it, and the content of a tree too. `is_directory`:
    /// it is one, or becomes one.
    At { folder: Arc<dyn Folder>, path: TreePath, is_directory: bool },
    /// Nowhere, once they are verified.
    Discarded,
}

impl Place {
    /// A path of this host, which itself may lead over links; with a slash at its end, a directory. Error: its parent
    /// cannot be opened.
    pub fn of_path(to: &Path) -> Result<Place, FileError> {
        let name = to.file_name().filter(|_| !to.is_dir());
        let (directory, path) = match name {
            None => (to, TreePath::default()),
            Some(name) => {
                let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
                (parent.unwrap_or(Path::new(".")), TreePath::parse(name.as_bytes())?)
            }
        };
        // The report names the virtual path; what is missing is here.
        let here = |error: FileError| {
            let is_file = directory.metadata().is_ok_and(|known| !known.is_dir());
            let error = if is_file { in_the_way(Kind::File, Kind::Directory) } else { error };
            FileError::new(error.code, format!("{}: {error}", directory.display()))
        };
        let is_directory = to.as_os_str().as_bytes().ends_with(b"/");
        Ok(Place::At { folder: Arc::new(DiskFolder::open(directory).map_err(here)?), path, is_directory })
    }

    /// The same place by the rules of a transfer.
    pub fn by(self, rules: &Rules) -> Place {
        match self {
            Place::At { folder, path, is_directory } if rules.sparse => {
                Place::At { folder: folder.with_holes().unwrap_or(folder), path, is_directory }
            }
            place => place,
        }
    }

    /// A file is to come whose name at the sender is `own`: makes the directories that it goes into, and removes a
    /// directory that is in its way, if the rules do that.
    pub(super) fn prepare(&self, own: &[u8], selection: &Selection) -> Result<(), FileError> {
        let Place::At { folder, path, is_directory } = self else { return Ok(()) };
        let parent = path.split_last().map(|(parent, _)| parent).filter(|_| !is_directory);
        make_directory(&**folder, parent.as_ref().unwrap_or(path))?;
        let (directory, name) = self.of_file(own)?;
        if directory.attributes(&name).is_ok_and(|known| known.kind == Kind::Directory) {
            mirror::make_way(&**folder, selection, &path.join(own)?, Kind::File)?;
        }
        Ok(())
    }

    /// The directory and name for a file whose name at the sender is `own`.
    pub(super) fn of_file(&self, own: &[u8]) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
        let Place::At { folder, path, is_directory } = self else {
            return Ok((Box::new(Discard), own.to_vec()));
        };
        let Some((parent, name)) = path.split_last() else {
            return in_directory(folder.directory(path)?, own);
        };
        let directory = folder.directory(&parent)?;
        match *is_directory || directory.attributes(name).is_ok_and(|known| known.kind == Kind::Directory) {
            true => in_directory(directory.directory(name)?, own),
            false => Ok((directory, name.to_vec())),
        }
    }

    /// The folder for a tree, which is created if needed; a file that is in its way is removed, if the rules do that.
    /// `own`: the name of the tree, if it goes below the place.
    pub fn of_tree(&self, own: Option<&[u8]>, selection: &Selection) -> Result<Box<dyn Folder>, FileError> {
        let Place::At { folder, path, .. } = self else { return Ok(Box::new(Discard)) };
        let (base, is_dry) = (path.join(own.unwrap_or_default())?, selection.rules.dry_run);
        if own.is_some() && !is_dry {
            make_directory(&**folder, path)?;
        }
        mirror::make_way(&**folder, selection, &base, Kind::Directory)?;
        if !is_dry {
            make_directory(&**folder, &base)?;
        }
        Ok(Box::new(Below { folder: folder.clone(), base }))
    }
}

/// Makes a directory and those above it, as far as they are missing.
pub fn make_directory(folder: &dyn Folder, path: &TreePath) -> Result<(), FileError> {
    let Some((parent, name)) = path.split_last() else { return Ok(()) };
    let directory = match folder.directory(&parent) {
        Err(error) if error.code == Code::NotFound && !parent.is_empty() => {
            make_directory(folder, &parent)?;
            folder.directory(&parent)?
        }
        directory => directory?,
    };
    match directory.attributes(name) {
        Ok(known) if known.kind == Kind::Directory => Ok(()),
        Ok(known) => Err(in_the_way(known.kind, Kind::Directory)),
        Err(_) => directory.make_directory(name, 0o755),
    }
}

fn in_directory(
    directory: Box<dyn Directory>,
    own: &[u8],
) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
    let path = TreePath::parse(own)?;
    match path.split_last() {
        Some((parent, name)) if parent.is_empty() => Ok((directory, name.to_vec())),
        _ => Err(FileError::new(Code::Invalid, "a file without a name")),
    }
}

/// A directory of a folder, as a folder.
struct Below {
    folder: Arc<dyn Folder>,
    base: TreePath,
}

impl Folder for Below {
    fn directory(&self, path: &TreePath) -> Result<Box<dyn Directory>, FileError> {
        self.folder.directory(&self.base.join(path.as_bytes())?)
    }

    fn rename(&self, from: &TreePath, to: &TreePath) -> Result<(), FileError> {
        self.folder.rename(&self.base.join(from.as_bytes())?, &self.base.join(to.as_bytes())?)
    }

    fn link(&self, file: &TreePath, to: &TreePath) -> Result<(), FileError> {
        self.folder.link(&self.base.join(file.as_bytes())?, &self.base.join(to.as_bytes())?)
    }
}

/// A tree that is filled.
pub struct TreeTarget {
    folder: Box<dyn Folder>,
    selection: Arc<Selection>,
    /// Present if what the source does not have is removed.
    mirror: Option<Mirror>,
    /// The directory of the last name.
    last: Option<(TreePath, Box<dyn Directory>)>,
    /// Directories, whose attributes are set in the end.
    directories: Vec<(TreePath, i64, u32)>,
    links: HardLinks,
    /// The last directory of the listing that could not be made: what is below it is not tried.
    blocked: Option<TreePath>,
    /// The last directory of the source that was left out. If it cannot be read, that is told next.
    left_out: Option<TreePath>,
}

/// What an entry of the source means here.
#[derive(Debug, PartialEq, Eq)]
pub enum Placed {
    /// Nothing is to be done, or it is left out.
    Same,
    /// It is made; of a dry run: it would be.
    Made,
    /// A file is to be fetched.
    Wanted,
}

impl TreeTarget {
    pub fn new(folder: Box<dyn Folder>, selection: Arc<Selection>) -> TreeTarget {
        let mirror = selection.rules.deletion.map(|_| Mirror::default());
        TreeTarget {
            folder,
            selection,
            mirror,
            last: None,
            directories: Vec::new(),
            links: HardLinks::default(),
            blocked: None,
            left_out: None,
        }
    }

    /// The directory of a path, and the name in it.
    pub fn place_of(&mut self, path: &TreePath) -> Result<(Box<dyn Directory>, Vec<u8>), FileError> {
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

    /// Makes directories and links. If a directory cannot be made, nothing below it is made or wanted.
    pub fn place_entry(&mut self, entry: &Entry<'_>) -> Result<Placed, FileError> {
        let path = TreePath::parse(entry.name)?;
        let placed = self.place(entry, path.clone());
        if placed.is_err() && entry.kind == Kind::Directory && self.folder.directory(&path).is_err() {
            self.blocked = Some(path);
        }
        placed
    }

    fn place(&mut self, entry: &Entry<'_>, path: TreePath) -> Result<Placed, FileError> {
        let selection = self.selection.clone();
        if self.selection.filter.excludes(&path, entry.kind == Kind::Directory) {
            self.left_out = (entry.kind == Kind::Directory).then_some(path);
            return Ok(Placed::Same);
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.add(&path, entry.kind == Kind::Directory);
        }
        let is_blocked = self.blocked.as_ref().is_some_and(|above| path != *above && path.is_below(above));
        if is_blocked && entry.extra.link != HardLink::First {
            return Ok(Placed::Same);
        }
        if selection.rules.hard_links
            && self.links.add(&path, entry, |first| !selection.filter.excludes(first, false))?
        {
            return Ok(Placed::Same);
        }
        if is_blocked {
            return Ok(Placed::Same);
        }
        let (parent, name) = split(&path)?;
        let is_dry = selection.rules.dry_run;
        let mut own = match self.directory_of(parent.clone()) {
            // A directory that would be made.
            Err(error) if is_dry && error.code == Code::NotFound => None,
            directory => directory?.attributes(name).ok(),
        };
        let is_directory = |kind| kind == Kind::Directory;
        if own.as_ref().is_some_and(|own| is_directory(own.kind) != is_directory(entry.kind)) {
            self.make_way(&path, entry.kind)?;
            own = None;
        }
        if is_dry {
            return Ok(match entry.kind {
                Kind::File if self.replaces(own.as_ref(), entry, &path) => Placed::Wanted,
                Kind::File => Placed::Same,
                Kind::Link if own.is_some() && self.leads_to(&path, entry.target) => Placed::Same,
                Kind::Directory if own.is_some() => Placed::Same,
                _ => Placed::Made,
            });
        }
        self.make_entry(entry, path, own)
    }

    /// Returns true if a file of the source replaces the one here.
    fn replaces(&mut self, own: Option<&Attributes>, entry: &Entry<'_>, path: &TreePath) -> bool {
        let selection = self.selection.clone();
        let digest = || {
            let (parent, name) = split(path).ok()?;
            digest_of(&*self.directory_of(parent).ok()?.open(name).ok()?.0).ok()
        };
        selection.replaces(own, entry, digest)
    }

    /// Returns true if there is a link here with this target.
    fn leads_to(&mut self, path: &TreePath, target: &[u8]) -> bool {
        let Ok((parent, name)) = split(path) else { return false };
        let link = self.directory_of(parent).and_then(|directory| directory.read_link(name));
        link.is_ok_and(|link| link == target)
    }

    /// Makes the directory or link of an entry. If it exists here, sets its attributes.
    fn make_entry(
        &mut self,
        entry: &Entry<'_>,
        path: TreePath,
        own: Option<Attributes>,
    ) -> Result<Placed, FileError> {
        if entry.kind == Kind::File && self.replaces(own.as_ref(), entry, &path) {
            return Ok(Placed::Wanted);
        }
        let selection = self.selection.clone();
        let more = selection.more_of(entry.extra.owner, entry.extra.xattrs);
        let (parent, name) = split(&path)?;
        let directory = self.directory_of(parent)?;
        match entry.kind {
            Kind::Directory => {
                let is_new = own.is_none();
                if is_new {
                    directory.make_directory(name, entry.mode & 0o777)?;
                }
                if !is_new {
                    remove_old_parts(&*directory.directory(name)?, selection.part_age);
                }
                let set = more.map_or(Ok(()), |more| directory.set_more(name, &more));
                self.directories.push((path, entry.mtime_ns, entry.mode & 0o777));
                set.map(|()| if is_new { Placed::Made } else { Placed::Same })
            }
            Kind::Link => {
                let is_same = directory.read_link(name).is_ok_and(|target| target == entry.target);
                if !is_same {
                    directory.make_link(name, entry.target)?;
                }
                directory.set_link_time(name, entry.mtime_ns)?;
                if let Some(more) = more {
                    directory.set_more(name, &more)?;
                }
                Ok(if is_same { Placed::Same } else { Placed::Made })
            }
            Kind::File => {
                let same = own.filter(|own| selection.is_same(own, entry));
                if let Some(more) = more.filter(|_| same.is_some()) {
                    directory.set_more(name, &more)?;
                }
                let (mtime_ns, mode) = (entry.mtime_ns, entry.mode & 0o777);
                if same.is_some_and(|own| (own.mtime_ns, own.mode) != (mtime_ns, mode)) {
                    directory.set_attributes(name, mtime_ns, mode)?;
                }
                Ok(Placed::Same)
            }
        }
    }

    /// As `mirror::make_way`.
    fn make_way(&mut self, path: &TreePath, new: Kind) -> Result<(), FileError> {
        self.last = None;
        mirror::make_way(&*self.folder, &self.selection, path, new)
    }

    /// Writes a whole file of a pack.
    pub fn write_small(&mut self, entry: &Entry<'_>) -> Result<Digest, FileError> {
        let Some((digest, content)) = entry.content else {
            return Err(FileError::new(Code::Invalid, "no content"));
        };
        if blake3::hash(content).as_bytes() != digest {
            return Err(FileError::new(Code::Corrupt, "the octets are not those that were announced"));
        }
        let path = TreePath::parse(entry.name)?;
        let more = self.selection.more_of(entry.extra.owner, entry.extra.xattrs);
        let (fsync, is_sparse) = (self.selection.rules.fsync, self.selection.rules.sparse);
        let (parent, name) = split(&path)?;
        let directory = self.directory_of(parent)?;
        let part = part_name(name);
        let target = match directory.create_new(&part)? {
            // Another transfer may have opened it too.
            Some(target) if target.try_lock()? && directory.is_named(&part, &*target)? => target,
            _ => {
                let target = lock_part(directory, &part)?.ok_or_else(in_use)?;
                target.set_len(0)?;
                // It was the part of a larger version.
                remove_blocks(directory, name)?;
                target
            }
        };
        let fill = || {
            target.write(0, content)?;
            if is_sparse {
                // It may end with a hole.
                target.set_len(content.len() as u64)?;
            }
            more.map_or(Ok(()), |more| target.set_more(&more))?;
            target.set_attributes(entry.mtime_ns, entry.mode & 0o777)?;
            if fsync { target.sync() } else { Ok(()) }
        };
        if let Err(error) = fill() {
            // A later transfer begins at its first octet.
            directory.remove_file(&part)?;
            return Err(error);
        }
        directory.rename(&part, name)?;
        if fsync {
            directory.sync()?;
        }
        Ok(*digest)
    }

    /// A path of the source failed, perhaps before it was listed. Returns true if it is left out here.
    pub fn miss(&mut self, path: &TreePath, code: Code) -> bool {
        // If it was not listed as a directory, it may be a file. The empty path is the whole transfer.
        let is_directory = self.left_out.as_ref() == Some(path);
        let is_left_out = !path.is_empty() && self.selection.filter.excludes(path, is_directory);
        // What is neither a file, nor a directory, nor a link has nothing below it.
        let is_special = code == Code::NotPlain && self.folder.directory(path).is_err();
        if let Some(mirror) = &mut self.mirror {
            match is_left_out || is_special {
                true => mirror.add(path, false),
                false => mirror.miss(path),
            }
        }
        is_left_out
    }

    /// The source lists a directory.
    pub fn begin_listing(&mut self, base: TreePath) {
        if base.is_empty()
            && !self.selection.rules.dry_run
            && let Ok(root) = self.folder.directory(&base)
        {
            remove_old_parts(&*root, self.selection.part_age);
        }
        self.blocked.take_if(|above| !base.is_below(above));
        self.mirror.iter_mut().for_each(|mirror| mirror.begin(base.clone()));
    }

    /// The listing of the directory is complete: removes what it did not have, and reports each path.
    pub fn end_listing(&mut self, removed: impl FnMut(&TreePath)) -> Result<(), FileError> {
        (self.last, self.blocked) = (None, None);
        match &mut self.mirror {
            Some(mirror) => mirror.remove_unlisted(&*self.folder, &self.selection, removed),
            None => Ok(()),
        }
    }

    /// The source has removed a path. Returns true if it is removed here too.
    pub fn remove(&mut self, path: &TreePath) -> Result<bool, FileError> {
        self.last = None;
        match self.mirror {
            Some(_) => mirror::remove(&*self.folder, &self.selection, path),
            None => Ok(false),
        }
    }

    /// The source has moved a path. Returns true if it is moved here too; what is at `to` afterwards is told by the
    /// source.
    pub fn rename(&mut self, from: &TreePath, to: &TreePath) -> Result<bool, FileError> {
        self.last = None;
        let filter = &self.selection.filter;
        if self.mirror.is_none() || filter.excludes(from, false) || filter.excludes(to, false) {
            return Ok(false);
        }
        if self.selection.rules.dry_run {
            return Ok(false);
        }
        match self.folder.rename(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.code == Code::NotFound => Ok(false),
            // What is in the way differs from what the source has there.
            Err(_) => mirror::remove(&*self.folder, &self.selection, from).map(|_| false),
        }
    }

    /// Sets the attributes of directories, the deepest first: writing into one changes its time. Reports failures.
    pub fn finish(&mut self, mut report: impl FnMut(&TreePath, FileError)) {
        for (path, mtime_ns, mode) in std::mem::take(&mut self.directories).into_iter().rev() {
            let set = self.place_of(&path);
            if let Err(error) =
                set.and_then(|(directory, name)| directory.set_attributes(&name, mtime_ns, mode))
            {
                report(&path, error);
            }
        }
    }
}

fn split(path: &TreePath) -> Result<(TreePath, &[u8]), FileError> {
    path.split_last().ok_or_else(|| FileError::new(Code::Invalid, "an empty name"))
}
