//! A request that is served: a listing, or files one after the other.

use pinnace_engine::Body;

use super::changes::Wake;
use super::details::Details;
use super::files::{Files, Opened};
use super::follow::{Follow, Followed};
use super::mounts::{Mount, Mounts, below};
use super::packed::compressed;
use super::provider::{failure, reply};
use super::values::BlockValues;
use super::walk::{Found, Walk};
use crate::error::{Code, FileError};
use crate::transfer::outgoing::OutgoingFile;
use crate::tree::{Kind, TreePath};
use crate::wire::{Change, Cheezburger, Form, Headers, Message, Mode, Request};

/// The octets of a chunk if the client does not choose, and the most that it may choose.
pub const CHUNK_BYTES: u64 = 512 << 10;
const CHUNK_MAX_BYTES: u64 = 1 << 20;

/// Files of at most this many octets are sent many to a chunk.
const SMALL_BYTES: u64 = 64 << 10;

/// What a job's step has come to.
pub enum Step {
    /// A frame with content, and what it costs in credit.
    Content(Body, u64),
    /// A frame without content.
    Told(Vec<u8>),
    /// There is no frame yet, and more work to do.
    Working,
    /// The client has granted too little credit.
    NoCredit,
    /// There is nothing to tell until something changes.
    Nothing,
    /// The last frame of the request.
    Done(Vec<u8>),
}

/// A request that is served.
pub struct Job {
    request: u32,
    path: Vec<u8>,
    chunk: u64,
    details: Details,
    files: u64,
    bytes: u64,
    /// A frame without content that goes next.
    next: Option<Vec<u8>>,
    work: Work,
}

enum Work {
    /// None: all is listed.
    List(Option<Walk>),
    Follow(Box<Follow>),
    Files(Box<Files>),
}

impl Job {
    /// `wake` is called when a job that follows a path may have something to tell.
    pub fn new(request: &Request, mounts: &Mounts, wake: &Wake) -> Result<Job, FileError> {
        let (mount, base) = mounts.resolve(&request.path)?;
        let folder = mount.folder.clone();
        let (mut next, details) = (None, Details::of(request));
        let work = match request.mode {
            Mode::Follow => Work::Follow(Box::new(follow(mount, base, details, wake)?)),
            Mode::List => Work::List(Some(match base.split_last() {
                Some((parent, name)) if folder.kind(&base)? != Kind::Directory => {
                    Walk::of_one(folder.directory(&parent)?, name, b"", details)
                }
                _ => Walk::new(folder.directory(&base)?, b"", details)?,
            })),
            _ => {
                let names = match request.names.is_empty() {
                    true if folder.kind(&base)? == Kind::Directory => {
                        next = Some(directory_begins(request.number, &request.path));
                        Vec::new()
                    }
                    true => vec![Vec::new()],
                    false => request.names.clone(),
                };
                Work::Files(Box::new(Files::new(request, (folder, base), names, mounts.sent_values.clone())))
            }
        };
        Ok(Job { next, ..Job::of_work(request, details, work) })
    }

    /// Lists virtual paths below the request's, and nothing below them.
    pub fn of_paths(request: &Request, paths: &[Vec<u8>], mounts: &Mounts) -> Result<Job, FileError> {
        let above = request.path.strip_suffix(b"/").unwrap_or(&request.path);
        let mut names = Vec::new();
        for path in paths {
            let (mount, base) = mounts.resolve(path)?;
            // A right may be to a path that does not exist yet.
            if mount.folder.kind(&base).is_ok() {
                names.push((below(path, above).unwrap_or(path).to_vec(), &*mount.folder, base));
            }
        }
        let work = Work::List(Some(Walk::of_names(&names)?));
        Ok(Job::of_work(request, Details::default(), work))
    }

    fn of_work(request: &Request, details: Details, work: Work) -> Job {
        let chunk = match u64::from(request.chunk) {
            0 => CHUNK_BYTES,
            chosen => chosen.min(CHUNK_MAX_BYTES),
        };
        let (request, path) = (request.number, request.path.clone());
        Job { request, path, chunk, details, files: 0, bytes: 0, next: None, work }
    }

    pub fn request(&self) -> u32 {
        self.request
    }

    /// The client does not need the rest of a file.
    pub fn skip(&mut self, filename: &[u8]) {
        if let Work::Files(files) = &mut self.work {
            files.current.take_if(|file| file.filename() == filename);
        }
    }

    /// Does the next piece of work. `left`: the client's credit.
    pub fn step(&mut self, sequence: u64, left: u64) -> Step {
        if let Some(frame) = self.next.take() {
            return Step::Told(frame);
        }
        match &self.work {
            Work::List(_) | Work::Follow(_) => self.list(sequence, left),
            Work::Files(_) => self.send(sequence, left),
        }
    }

    fn end(&self) -> Step {
        let headers = Headers {
            request: Some(self.request),
            form: Form::End,
            files: Some(self.files),
            bytes: Some(self.bytes),
            ..Headers::default()
        };
        Step::Done(reply(&self.path, &headers))
    }

    /// A frame that holds entries, with its head; they are appended, and then `finish_entries` is called.
    fn begin_entries(&self, sequence: u64, form: Form) -> Vec<u8> {
        let extra = if form == Form::Pack { self.details.has_more() } else { self.details.has_extra() };
        let headers = Headers { request: Some(self.request), form, extra, ..Headers::default() }.write();
        let mut frame = Vec::with_capacity(self.chunk as usize / 4);
        Cheezburger::new(sequence, &self.path, headers.hash()).write_head(&mut frame, 0);
        frame
    }

    fn list(&mut self, sequence: u64, left: u64) -> Step {
        if left == 0 {
            return Step::NoCredit;
        }
        let mut frame = self.begin_entries(sequence, Form::List);
        let (head, most) = (frame.len(), left.min(self.chunk) as usize);
        match &mut self.work {
            Work::List(walk) => walk.iter_mut().for_each(Walk::begin_step),
            Work::Follow(follow) => follow.begin_step(),
            Work::Files(_) => return Step::NoCredit,
        }
        let mut is_working = false;
        // The last entry may exceed the credit.
        while frame.len() - head < most {
            let told = match &mut self.work {
                Work::List(None) => Followed::Found(Found::Nothing),
                Work::List(Some(walk)) => Followed::Found(walk.next(&mut frame)),
                Work::Follow(follow) => follow.next(&mut frame),
                Work::Files(_) => return Step::NoCredit,
            };
            let told = match (&mut self.work, told) {
                (Work::List(walk @ Some(_)), Followed::Found(Found::Nothing)) => {
                    *walk = None;
                    Followed::Listed(Vec::new())
                }
                (_, told) => told,
            };
            if let Followed::Found(Found::Entry) = told {
                self.files += 1;
                continue;
            }
            is_working = matches!(told, Followed::Found(Found::Working));
            self.next = self.frame_of(told);
            break;
        }
        match (frame.len() > head, self.next.take(), &self.work) {
            (true, next, _) => {
                self.next = next;
                finish_entries(frame, head)
            }
            (false, Some(next), _) => Step::Told(next),
            (false, None, _) if is_working => Step::Working,
            (false, None, Work::Follow(_)) => Step::Nothing,
            (false, None, _) => self.end(),
        }
    }

    /// The frame that tells it. None: there is nothing to tell, or it is an entry, which is in a frame with others.
    fn frame_of(&self, told: Followed) -> Option<Vec<u8>> {
        let path = |name: &[u8]| filename_of(&self.path, name);
        let request = Some(self.request);
        Some(match told {
            Followed::Found(Found::Entry | Found::Working | Found::Nothing) => return None,
            Followed::Found(Found::Failed(name, error)) => failure(self.request, &path(&name), &error),
            Followed::Begin(name) => directory_begins(self.request, &path(&name)),
            Followed::Listed(name) => {
                let headers = Headers { request, form: Form::Listed, ..Headers::default() };
                reply(&path(&name), &headers)
            }
            Followed::Moved { from, to } => {
                let headers = Headers { request, form: Form::Moved, from: path(&from), ..Headers::default() };
                reply(&path(&to), &headers)
            }
            Followed::Gone(name) => {
                let headers = Headers { request, ..Headers::default() }.write();
                let name = path(&name);
                let burger = Cheezburger::new(0, &name, headers.hash());
                Message::Cheezburger(Cheezburger { operation: Change::Delete, ..burger }).to_frame()
            }
        })
    }

    fn send(&mut self, sequence: u64, left: u64) -> Step {
        let request = self.request;
        let Work::Files(files) = &mut self.work else { return Step::NoCredit };
        if files.current.is_some() {
            return self.send_current(sequence, left);
        }
        if let Some(values) = &mut files.values {
            if left == 0 {
                return Step::NoCredit;
            }
            match values.next_frame(sequence) {
                Ok(Some(frame)) => return frame,
                Ok(None) => files.values = None,
                Err(error) => {
                    files.values = None;
                    return Step::Told(failure(request, &self.path, &error));
                }
            }
        }
        let opened = match files.open_next() {
            None => return self.end(),
            Some(Err((name, error))) => {
                return Step::Told(failure(request, &filename_of(&self.path, &name), &error));
            }
            Some(Ok(opened)) => opened,
        };
        let is_set = !opened.name.is_empty() && !files.is_compared;
        if is_set && opened.attributes.size <= SMALL_BYTES && opened.cost() <= left {
            return self.pack(sequence, left, opened);
        }
        let filename = filename_of(&self.path, &opened.name);
        if files.known == Some((opened.attributes.size, opened.attributes.mtime_ns)) {
            let headers = Headers { request: Some(request), form: Form::Unchanged, ..Headers::default() };
            return Step::Told(reply(&filename, &headers));
        }
        if !files.tag.is_empty() && files.tag != opened.attributes.tag {
            let error = FileError::new(Code::Changed, "the file is another version");
            return Step::Told(failure(request, &filename, &error));
        }
        if files.is_compared {
            files.values = Some(BlockValues::new(opened.source, opened.attributes, &filename, request));
            return self.send(sequence, left);
        }
        match OutgoingFile::new(opened.source, &filename, request, &files.ranges, &files.sent_values) {
            Ok(file) => {
                let begin = file.begin(&opened.more);
                files.current = Some(file.telling_holes(files.is_sparse));
                Step::Told(begin)
            }
            Err(error) => Step::Told(failure(request, &filename, &error)),
        }
    }

    /// Sends the next chunk of the file that has begun.
    fn send_current(&mut self, sequence: u64, left: u64) -> Step {
        let Work::Files(files) = &mut self.work else { return Step::NoCredit };
        let Files { current: Some(file), packer, .. } = &mut **files else { return Step::NoCredit };
        if left == 0 && file.remaining() > 0 {
            return Step::NoCredit;
        }
        let most = left.min(self.chunk);
        let next = match file.hash_before_last(most) {
            Ok(true) => return Step::Working,
            Ok(false) => file.next_chunk(sequence, most, packer.as_mut()),
            Err(error) => Err(error),
        };
        match next {
            Ok(part) => {
                self.bytes += part.len;
                if part.is_last {
                    self.files += 1;
                    files.current = None;
                }
                Step::Content(part.frame, part.cost)
            }
            Err(error) => {
                let name = file.filename().to_vec();
                files.current = None;
                Step::Told(failure(self.request, &name, &error))
            }
        }
    }

    /// Sends small files, beginning with one that the credit covers.
    fn pack(&mut self, sequence: u64, left: u64, first: Opened) -> Step {
        let mut frame = self.begin_entries(sequence, Form::Pack);
        let (head, most) = (frame.len(), left.min(self.chunk));
        let Work::Files(files) = &mut self.work else { return Step::NoCredit };
        let mut next = Some(first);
        let mut content = Vec::new();
        while let Some(opened) = next.take() {
            let fits =
                opened.attributes.size <= SMALL_BYTES && (frame.len() - head) as u64 + opened.cost() <= most;
            if !fits && frame.len() > head {
                files.put_back(opened);
                break;
            }
            match opened.add_to(&mut frame, &mut content, self.details.has_more()) {
                Ok(()) => (self.files, self.bytes) = (self.files + 1, self.bytes + content.len() as u64),
                Err(error) => {
                    self.next = Some(failure(self.request, &filename_of(&self.path, &opened.name), &error));
                    break;
                }
            }
            match files.open_next() {
                Some(Ok(opened)) => next = Some(opened),
                Some(Err((name, error))) => {
                    self.next = Some(failure(self.request, &filename_of(&self.path, &name), &error))
                }
                None => {}
            }
        }
        match (frame.len() > head, self.next.take()) {
            (false, Some(failed)) => Step::Told(failed),
            (_, failed) => {
                self.next = failed;
                let extra = self.details.has_more();
                let (name, entries) = ((self.request, &self.path[..], sequence, extra), &frame[head..]);
                let packed =
                    files.packer.as_mut().and_then(|packer| compressed(packer, name, entries, self.chunk));
                packed.unwrap_or_else(|| finish_entries(frame, head))
            }
        }
    }
}

/// The virtual path of a name below a request's path.
fn filename_of(path: &[u8], name: &[u8]) -> Vec<u8> {
    match name.is_empty() {
        true => path.to_vec(),
        false => [path.strip_suffix(b"/").unwrap_or(path), b"/", name].concat(),
    }
}

/// Tells that a path is a directory, which is listed and not fetched.
fn directory_begins(request: u32, path: &[u8]) -> Vec<u8> {
    let headers = Headers {
        request: Some(request),
        form: Form::Begin,
        kind: Some(Kind::Directory),
        ..Headers::default()
    };
    reply(path, &headers)
}

/// Begins to follow a path, which may not exist yet. Errors: it is no directory; its folder cannot be watched.
fn follow(mount: &Mount, base: TreePath, details: Details, wake: &Wake) -> Result<Follow, FileError> {
    let changes = mount.changes.as_ref();
    let changes = changes.ok_or_else(|| FileError::new(Code::Invalid, "this folder is not watched"))?;
    match mount.folder.kind(&base) {
        Ok(Kind::Directory) => {}
        Err(error) if error.code == Code::NotFound => {}
        Ok(_) => return Err(FileError::new(Code::Invalid, "only directories can be followed")),
        Err(error) => return Err(error),
    }
    Ok(Follow::new(mount.folder.clone(), changes.subscribe(base, wake.clone())?, details))
}

/// Writes the length of the entries behind a frame's head.
fn finish_entries(mut frame: Vec<u8>, head: usize) -> Step {
    let len = frame.len() - head;
    frame[head - 4..head].copy_from_slice(&(len as u32).to_be_bytes());
    Step::Content(frame.into(), len as u64)
}
