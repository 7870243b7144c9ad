//! A file on its way to a subscriber that does not know the extensions.
//!
//! It has no header and no digest: chunks of content in order, and then an empty chunk with `eof`, which libfilemq's
//! clients wait for. A file that was changed meanwhile begins again at the offset 0.

use pinnace_engine::Body;

use super::cache::{FileHasher, Sha1Digest};
use super::job::{CHUNK_BYTES, Step};
use crate::error::FileError;
use crate::tree::{Attributes, Source, Tag, TreePath};
use crate::wire::{Cheezburger, Hash};

/// How often a file that changes meanwhile begins again. Then it ends where it is, because no other file may follow
/// before: its next change is told as usual.
const CHANGES_MAX: u32 = 3;

/// The file.
pub struct PushedFile {
    pub path: TreePath,
    filename: Vec<u8>,
    source: Box<dyn Source>,
    attributes: Attributes,
    offset: u64,
    /// A chunk was sent.
    has_begun: bool,
    changes: u32,
    /// The digest of the file that the subscriber has, which is not sent if it is the same.
    check: Option<(FileHasher, Sha1Digest)>,
}

/// What became of a file after a step.
pub enum Pushed {
    /// There is more of it.
    Going(Step),
    /// It has ended with this frame. The version, if it is whole and was not changed.
    Ended(Step, Option<Tag>),
    /// It has ended, and what was sent is not the file: the subscriber is to remove it.
    Broken(Step),
    /// The subscriber has it.
    Same(Tag),
    /// It was changed: it is to be opened again, and `begin_again` called; or `end`, if it cannot be opened.
    Changed,
}

impl PushedFile {
    /// `known`: the digest of the file that the subscriber has.
    pub fn new(
        path: TreePath,
        filename: Vec<u8>,
        source: Box<dyn Source>,
        known: Option<Sha1Digest>,
    ) -> Result<PushedFile, FileError> {
        let attributes = source.attributes()?;
        let check = known.map(|digest| (FileHasher::default(), digest));
        Ok(PushedFile { path, filename, source, attributes, offset: 0, has_begun: false, changes: 0, check })
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub fn tag(&self) -> Tag {
        self.attributes.tag
    }

    /// Goes on with the file, opened again.
    pub fn begin_again(self, source: Box<dyn Source>) -> Result<PushedFile, FileError> {
        let attributes = source.attributes()?;
        Ok(PushedFile { source, attributes, offset: 0, changes: self.changes + 1, ..self })
    }

    /// Sends or hashes the next piece. `left`: the client's credit.
    pub fn step(&mut self, sequence: u64, left: u64) -> Pushed {
        if let Some((hasher, known)) = &mut self.check {
            match hasher.step(&*self.source, self.attributes.size) {
                Ok(None) => return Pushed::Going(Step::Working),
                Ok(Some(digest)) if digest == *known => return Pushed::Same(self.attributes.tag),
                // What is wrong with the file shows when it is sent.
                Ok(Some(_)) | Err(_) => self.check = None,
            }
        }
        let may_change = self.changes < CHANGES_MAX;
        if may_change && self.source.attributes().is_ok_and(|now| now.tag != self.attributes.tag) {
            return Pushed::Changed;
        }
        let rest = self.attributes.size - self.offset;
        match rest.min(left).min(CHUNK_BYTES) {
            0 if rest > 0 => Pushed::Going(Step::NoCredit),
            0 => self.ended(sequence),
            len => self.chunk(sequence, len as usize, may_change),
        }
    }

    fn chunk(&mut self, sequence: u64, len: usize, may_change: bool) -> Pushed {
        let mut head = Vec::new();
        self.burger(sequence, false).write_head(&mut head, len);
        let Ok(mut frame) = Body::with_len(head.len() + len) else { return self.broken(sequence) };
        let (to_head, chunk) = frame.as_mut().unwrap_or_default().split_at_mut(head.len());
        to_head.copy_from_slice(&head);
        match self.source.read(self.offset, chunk) {
            Ok(read) if read == len => {}
            Ok(_) if may_change => return Pushed::Changed,
            Ok(_) => return Pushed::Ended(self.end(sequence), None),
            Err(_) => return self.broken(sequence),
        }
        (self.offset, self.has_begun) = (self.offset + len as u64, true);
        Pushed::Going(Step::Content(frame, len as u64))
    }

    fn ended(&self, sequence: u64) -> Pushed {
        let is_same = self.source.attributes().is_ok_and(|now| now.tag == self.attributes.tag);
        Pushed::Ended(self.end(sequence), is_same.then_some(self.attributes.tag))
    }

    fn broken(&self, sequence: u64) -> Pushed {
        Pushed::Broken(self.end(sequence))
    }

    fn burger(&self, sequence: u64, eof: bool) -> Cheezburger<'_> {
        Cheezburger { offset: self.offset, eof, ..Cheezburger::new(sequence, &self.filename, Hash::EMPTY) }
    }

    /// The empty chunk that ends the file.
    pub fn end(&self, sequence: u64) -> Step {
        let mut frame = Vec::new();
        self.burger(sequence, true).write_head(&mut frame, 0);
        Step::Content(frame.into(), 0)
    }
}
