//! A request for the values of a file's blocks, by which the client finds the blocks that it has.

use super::job::Step;
use crate::error::{Code, FileError};
use crate::transfer::digest::{BLOCK, block_value};
use crate::tree::{Attributes, Source};
use crate::wire::{Cheezburger, DIGEST, Form, Headers};

/// The blocks that are read for one frame.
const BLOCKS: u64 = 32;

/// A file whose blocks are read.
pub struct BlockValues {
    source: Box<dyn Source>,
    attributes: Attributes,
    filename: Vec<u8>,
    request: u32,
    next: u64,
    is_over: bool,
}

impl BlockValues {
    pub fn new(
        source: Box<dyn Source>,
        attributes: Attributes,
        filename: &[u8],
        request: u32,
    ) -> BlockValues {
        BlockValues { source, attributes, filename: filename.to_vec(), request, next: 0, is_over: false }
    }

    /// The next frame. None: all were sent. Errors: those of reading; Changed.
    pub fn next_frame(&mut self, sequence: u64) -> Result<Option<Step>, FileError> {
        if self.is_over {
            return Ok(None);
        }
        let (first, whole) = (self.next, self.attributes.size / BLOCK);
        self.next = whole.min(first + BLOCKS);
        self.is_over = self.next == whole;
        let (mut octets, mut values) = (vec![0; BLOCK as usize], Vec::new());
        for block in first..self.next {
            if self.source.read(block * BLOCK, &mut octets)? != octets.len() {
                return Err(FileError::new(Code::Changed, "the file was changed while it was read"));
            }
            values.extend_from_slice(&block_value(block, &octets));
        }
        debug_assert_eq!(values.len() as u64, (self.next - first) * DIGEST as u64);
        let headers = Headers {
            request: Some(self.request),
            form: Form::Values,
            size: Some(self.attributes.size),
            mtime_ns: Some(self.attributes.mtime_ns),
            mode: Some(self.attributes.mode),
            tag: self.attributes.tag.to_vec(),
            ..Headers::default()
        };
        let headers = headers.write();
        let burger = Cheezburger::new(sequence, &self.filename, headers.hash());
        let burger = Cheezburger { offset: first * BLOCK, eof: self.is_over, ..burger };
        let mut frame = Vec::new();
        burger.write_head(&mut frame, values.len());
        frame.extend_from_slice(&values);
        Ok(Some(Step::Content(frame.into(), values.len() as u64)))
    }
}
