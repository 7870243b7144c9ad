//! Finds the blocks of a file that are here at the same place, in the file here or in the part of another version, so
//! that only the others are fetched.

use super::digest::{BLOCK, Value, block_value};
use super::incoming::{Announced, IncomingFile, Part};
use crate::error::{Code, FileError};
use crate::tree::{Directory, Source};
use crate::wire::DIGEST;

/// Smaller files are fetched as a whole: that takes less time than to compare them.
pub const COMPARED: u64 = 4 * BLOCK;

/// A file that is compared.
pub struct Comparison {
    directory: Box<dyn Directory>,
    /// The file here.
    own: Option<Box<dyn Source>>,
    /// The part has octets of another version.
    has_other: bool,
    file: IncomingFile,
    next: u64,
}

impl Comparison {
    /// Begins to compare the file of this name with one that is announced. Errors: those of `Part::open` and
    /// `IncomingFile::begin`.
    pub fn begin(
        directory: Box<dyn Directory>,
        name: &[u8],
        announced: Announced,
    ) -> Result<Comparison, FileError> {
        let own = directory.open(name).ok().map(|(own, _)| own);
        let part = Part::open(&*directory, name)?;
        let has_other = part.announced().is_some_and(|other| *other != announced);
        let file = IncomingFile::begin_compared(&*directory, name, part, announced)?;
        Ok(Comparison { directory, own, has_other, file, next: 0 })
    }

    /// The values of the next blocks. Those that are here are taken over. Errors: those of reading and writing;
    /// Invalid.
    pub fn add(&mut self, offset: u64, values: &[u8]) -> Result<(), FileError> {
        let whole = self.file.size() / BLOCK;
        let count = (values.len() / DIGEST) as u64;
        if offset != self.next * BLOCK || !values.len().is_multiple_of(DIGEST) || count > whole - self.next {
            return Err(FileError::new(Code::Invalid, "values of other blocks"));
        }
        let mut octets = vec![0; BLOCK as usize];
        for value in values.chunks_exact(DIGEST) {
            let (block, value) = (self.next, Value::try_from(value).unwrap_or_default());
            self.next += 1;
            if self.file.has_block(block) || self.has_other && self.file.keep(block, &value, &mut octets)? {
                continue;
            }
            if let Some(own) = &self.own
                && own.read(block * BLOCK, &mut octets)? == octets.len()
                && block_value(block, &octets) == value
            {
                self.file.take_over(block, &octets, &value)?;
            }
        }
        Ok(())
    }

    /// The directory, and the file with the blocks that were taken over.
    pub fn end(self) -> (Box<dyn Directory>, IncomingFile) {
        (self.directory, self.file)
    }
}
