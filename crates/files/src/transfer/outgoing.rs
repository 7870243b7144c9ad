//! A file on its way out: one frame for each chunk, with the values of the groups that end in it.

use std::sync::Arc;

use pinnace_engine::Body;

use super::digest::{Digest, GROUP, GroupHasher, PIECE, ValueTree, group_value, groups_of};
use super::holes::{self, ZEROS_MAX, zeros};
use super::pack::Packer;
use super::sent_values::{FileValues, SentValues};
use crate::error::{Code, FileError};
use crate::tree::{Attributes, MoreAttributes, Source};
use crate::wire::{Cheezburger, DIGEST, Form, Headers};

/// How many pieces are hashed in one step.
const PIECES: usize = 64;

/// A file that is sent.
pub struct OutgoingFile {
    source: Box<dyn Source>,
    attributes: Attributes,
    /// The virtual path, as the frames name it.
    filename: Vec<u8>,
    request: u32,
    /// What is still to be sent, as offsets; the last range first.
    ranges: Vec<(u64, u64)>,
    hasher: GroupHasher,
    /// The values of the groups that were read.
    tree: ValueTree,
    /// Holes are told, and not sent.
    is_sparse: bool,
    /// Present if only parts of the file are sent: all of it is hashed, as far as that is done.
    whole: Option<(GroupHasher, ValueTree)>,
    /// Those of files that were sent, and of this one.
    sent_values: Arc<SentValues>,
    known: Option<Arc<FileValues>>,
    /// The values of all groups so far, if they are to be kept.
    collected: Option<Vec<u8>>,
}

/// A chunk's frame.
pub struct Chunk {
    pub frame: Body,
    /// The octets of the file that it has, and those that travel.
    pub len: u64,
    pub cost: u64,
    pub is_last: bool,
}

impl OutgoingFile {
    /// `ranges`: the parts to send; empty: all. They are extended to whole groups.
    pub fn new(
        source: Box<dyn Source>,
        filename: &[u8],
        request: u32,
        ranges: &[(u64, u64)],
        sent_values: &Arc<SentValues>,
    ) -> Result<OutgoingFile, FileError> {
        let attributes = source.attributes()?;
        let size = attributes.size;
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for (first, end) in ranges {
            let (first, end) = (first / GROUP * GROUP, end.div_ceil(GROUP).saturating_mul(GROUP).min(size));
            match parts.last_mut() {
                Some((_, last)) if first <= *last => *last = end.max(*last),
                _ if first < end => parts.push((first, end)),
                _ => {}
            }
        }
        // An empty file has one group, which is in no range.
        let is_part = !ranges.is_empty() && size > 0;
        if !is_part {
            parts = vec![(0, size)];
        }
        parts.reverse();
        let first = parts.last().map_or(0, |range| range.0);
        let (hasher, tree) = (GroupHasher::new(first, size), ValueTree::new(size));
        let known = sent_values.get(&attributes.tag);
        let whole = is_part.then(|| (GroupHasher::new(0, size), ValueTree::new(size)));
        let collected = (!is_part && known.is_none() && SentValues::are_kept_of(&attributes)).then(Vec::new);
        Ok(OutgoingFile {
            source,
            attributes,
            filename: filename.to_vec(),
            request,
            ranges: parts,
            hasher,
            tree,
            is_sparse: false,
            whole,
            sent_values: sent_values.clone(),
            known,
            collected,
        })
    }

    /// Holes are told, and not sent.
    pub fn telling_holes(self, is_sparse: bool) -> OutgoingFile {
        OutgoingFile { is_sparse, ..self }
    }

    /// The frame that goes before the chunks.
    pub fn begin(&self, more: &MoreAttributes) -> Vec<u8> {
        let headers = Headers {
            request: Some(self.request),
            form: Form::Begin,
            kind: Some(self.attributes.kind),
            size: Some(self.attributes.size),
            mtime_ns: Some(self.attributes.mtime_ns),
            mode: Some(self.attributes.mode),
            tag: self.attributes.tag.to_vec(),
            owner: more.owner,
            xattrs: more.xattrs.clone(),
            ..Headers::default()
        };
        let mut frame = Vec::new();
        Cheezburger::new(0, &self.filename, headers.write().hash()).write_head(&mut frame, 0);
        frame
    }

    /// How many octets are still to be sent.
    pub fn remaining(&self) -> u64 {
        self.ranges.iter().map(|(first, end)| end - first).sum()
    }

    pub fn filename(&self) -> &[u8] {
        &self.filename
    }

    /// The head of a chunk's frame.
    fn head(&self, (sequence, offset, eof): (u64, u64, bool), headers: &Headers, len: usize) -> Vec<u8> {
        let headers = headers.write();
        let burger =
            Cheezburger { offset, eof, ..Cheezburger::new(sequence, &self.filename, headers.hash()) };
        let mut head = Vec::new();
        burger.write_head(&mut head, len);
        head
    }

    /// Of a file of which only parts are sent, all of it is hashed before the last chunk, which has its digest: a piece
    /// at a time. Returns true if there is more to hash before the next chunk of at most `most` octets.
    pub fn hash_before_last(&mut self, most: u64) -> Result<bool, FileError> {
        let most = if self.is_sparse { most.max(ZEROS_MAX) } else { most };
        let (size, is_last) = (self.attributes.size, self.ranges.len() <= 1 && self.remaining() <= most);
        let Some((hasher, tree)) = self.whole.as_mut().filter(|_| is_last) else {
            return Ok(false);
        };
        let mut octets = vec![0; PIECE];
        for _ in 0..PIECES {
            let piece = &mut octets[..(size - hasher.offset()).min(PIECE as u64) as usize];
            if self.source.read(hasher.offset(), piece)? != piece.len() {
                return Err(changed());
            }
            hasher.update(piece, |index, value| {
                tree.add(index, value);
            });
        }
        Ok(hasher.offset() < size)
    }

    /// Reads the next chunk, of at most `most` octets, which is not 0. Errors: those of reading; Changed, the file has
    /// another size or version than at the beginning.
    pub fn next_chunk(
        &mut self,
        sequence: u64,
        most: u64,
        packer: Option<&mut Packer>,
    ) -> Result<Chunk, FileError> {
        let (first, end) = self.ranges.last().copied().unwrap_or((0, 0));
        let mut len = most.min(end - first);
        if self.is_sparse
            && let Some((hole, hole_end)) = holes::first_within(&*self.source, (first, first + len))?
        {
            if hole == first {
                return self.zeros(sequence, first, hole_end.min(end).min(first + ZEROS_MAX));
            }
            len = hole - first;
        }
        if len >= GROUP && first + len < end {
            // Whole groups, so that each is hashed at once.
            len -= (first + len) % GROUP;
        }
        let is_last = first + len == end && self.ranges.len() <= 1;
        // Known before the octets are read, so that these are read to their place.
        let ended = match first + len == end && end == self.attributes.size {
            true => groups_of(end) - first / GROUP,
            false => (first + len) / GROUP - first / GROUP,
        };
        let headers = Headers {
            request: Some(self.request),
            groups: vec![0; ended as usize * DIGEST],
            digest: is_last.then_some(Digest::default()),
            ..Headers::default()
        };
        let place = (sequence, first, is_last);
        let head = self.head(place, &headers, len as usize);
        let no_memory = |_| FileError::new(Code::Limit, "out of memory");
        let mut frame = Body::with_len(head.len() + len as usize).map_err(no_memory)?;
        let bytes = frame.as_mut().unwrap_or_default();
        let (to_head, chunk) = bytes.split_at_mut(head.len());
        let mut values = Vec::with_capacity(headers.groups.len());
        for (at, piece) in (first..).step_by(PIECE).zip(chunk.chunks_mut(PIECE)) {
            if self.source.read(at, piece)? != piece.len() {
                return Err(changed());
            }
            values.extend(self.values_of(at, piece));
        }
        if len == 0 {
            values = self.values_of(first, &[]);
        }
        debug_assert_eq!(values.len(), headers.groups.len());
        let headers = Headers { groups: values, digest: self.finish(is_last)?, ..headers };
        self.advance(first + len);
        if let Some(packed) = packer.and_then(|packer| packer.pack_at(first, chunk)) {
            let headers = Headers { zstd: Some(len), ..headers };
            let (cost, head) = (packed.len() as u64, self.head(place, &headers, packed.len()));
            return Ok(Chunk { frame: [head, packed].concat().into(), len, cost, is_last });
        }
        to_head.copy_from_slice(&self.head(place, &headers, len as usize));
        Ok(Chunk { frame, len, cost: len, is_last })
    }

    /// Tells a hole.
    fn zeros(&mut self, sequence: u64, first: u64, end: u64) -> Result<Chunk, FileError> {
        let is_last = self.ranges.last().is_some_and(|range| range.1 == end) && self.ranges.len() <= 1;
        for (offset, octets) in zeros(first, end - first) {
            self.values_of(offset, octets);
        }
        let (request, zeros) = (Some(self.request), Some(end - first));
        let headers = Headers { request, zeros, digest: self.finish(is_last)?, ..Headers::default() };
        self.advance(end);
        let frame = self.head((sequence, first, is_last), &headers, 0).into();
        Ok(Chunk { frame, len: end - first, cost: 0, is_last })
    }

    /// The values of the groups that the chunk completes.
    fn values_of(&mut self, offset: u64, chunk: &[u8]) -> Vec<u8> {
        let (first, end) = (offset / GROUP, offset + chunk.len() as u64);
        let groups_end = if end == self.attributes.size { groups_of(end) } else { end / GROUP };
        let place = first as usize * DIGEST..groups_end as usize * DIGEST;
        match self.known.as_ref().map(|known| &known.groups[place]) {
            None => self.hash(chunk),
            Some(known) if self.whole.is_none() => known.to_vec(),
            Some(known) => {
                // Perhaps it is asked for because it was wrong.
                let known = known.to_vec();
                let values = self.hash(chunk);
                if values != known {
                    self.sent_values.forget(&self.attributes.tag);
                    self.known = None;
                }
                values
            }
        }
    }

    fn hash(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut values = Vec::with_capacity((chunk.len() as u64 / GROUP + 1) as usize * DIGEST);
        let tree = &mut self.tree;
        let mut keep = |index, value| {
            tree.add(index, value);
            values.extend_from_slice(&value);
        };
        if self.attributes.size == 0 {
            keep(0, group_value(0, &[], 0));
        }
        self.hasher.update(chunk, keep);
        self.collected.iter_mut().for_each(|collected| collected.extend_from_slice(&values));
        values
    }

    fn advance(&mut self, offset: u64) {
        if self.ranges.last().is_some_and(|range| range.1 == offset) {
            self.ranges.pop();
            if let Some((first, _)) = self.ranges.last() {
                self.hasher = GroupHasher::new(*first, self.attributes.size);
            }
        } else if let Some(range) = self.ranges.last_mut() {
            range.0 = offset;
        }
    }

    /// After the last chunk: checks that the file is still the same version. Returns its digest.
    fn finish(&mut self, is_last: bool) -> Result<Option<Digest>, FileError> {
        if !is_last {
            return Ok(None);
        }
        while self.hash_before_last(u64::MAX)? {}
        if self.source.attributes()?.tag != self.attributes.tag {
            return Err(changed());
        }
        let digest = match (&self.known, &self.whole) {
            (Some(known), None) => return Ok(Some(known.digest)),
            (_, Some((_, tree))) => tree.digest(),
            (None, None) => self.tree.digest(),
        };
        if let (Some(digest), Some(groups)) = (digest, self.collected.take()) {
            self.sent_values.keep(self.attributes.tag, FileValues { groups, digest });
        }
        Ok(digest)
    }
}

fn changed() -> FileError {
    FileError::new(Code::Changed, "the file was changed while it was read")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::tree::discard::Discard;
    use crate::wire::Message;

    /// A file that changes and stays the same version.
    #[derive(Clone)]
    struct Mapped(Arc<Mutex<Vec<u8>>>);

    impl Source for Mapped {
        fn attributes(&self) -> Result<Attributes, FileError> {
            Ok(Attributes { size: self.0.lock().unwrap().len() as u64, ..Discard.attributes()? })
        }

        fn read(&self, offset: u64, octets: &mut [u8]) -> Result<usize, FileError> {
            octets.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..octets.len()]);
            Ok(octets.len())
        }
    }

    /// The values that are sent, and the digest.
    fn send(source: &Mapped, ranges: &[(u64, u64)], sent: &Arc<SentValues>) -> (Vec<u8>, Option<Digest>) {
        let mut file = OutgoingFile::new(Box::new(source.clone()), b"/file", 1, ranges, sent).unwrap();
        let mut values = Vec::new();
        loop {
            let chunk = file.next_chunk(1, 100_000, None).unwrap();
            let Ok(Message::Cheezburger(burger)) = Message::read(&chunk.frame) else { panic!("no chunk") };
            let headers = Headers::read(burger.headers).unwrap();
            values.extend(headers.groups);
            if chunk.is_last {
                return (values, headers.digest);
            }
        }
    }

    #[test]
    fn kept_values_are_forgotten_when_they_are_wrong() {
        let octets: Vec<u8> = (0..2_000_000u32).map(|at| (at >> 8) as u8).collect();
        let values = |octets: &[u8]| {
            let groups = octets.chunks(GROUP as usize).enumerate();
            groups.flat_map(|(index, group)| group_value(index as u64, group, 2_000_000)).collect::<Vec<u8>>()
        };
        let digest = |octets: &[u8]| Some(*blake3::hash(octets).as_bytes());
        let (source, sent) = (Mapped(Arc::new(Mutex::new(octets.clone()))), Arc::default());
        let right = (values(&octets), digest(&octets));
        assert_eq!(send(&source, &[], &sent), right);
        let mut changed = octets;
        changed[70_000] ^= 1;
        source.0.lock().unwrap().clone_from(&changed);
        assert_eq!(send(&source, &[], &sent), right, "not hashed again");
        let group = |values: &[u8], index: usize| values[index * DIGEST..(index + 1) * DIGEST].to_vec();
        assert_eq!(send(&source, &[(0, 1)], &sent), (group(&right.0, 0), digest(&changed)));
        let new = values(&changed);
        assert_eq!(send(&source, &[(70_000, 70_001)], &sent), (group(&new, 4), digest(&changed)));
        assert_eq!(send(&source, &[], &sent), (new, digest(&changed)));
    }
}
