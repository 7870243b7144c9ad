//! Files that a program reads and writes as streams.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::task::{Command, Offer};
use super::{Client, Dialogue, Transfer};
use crate::dialogue::events::Events;
use crate::dialogue::stream::{Pipe, Stream};
use crate::dialogue::upload::Upload;
use crate::error::{Code, Error, FileError};
use crate::rules::Rules;
use crate::tree::TreePath;
use crate::tree::spool::Spool;

/// A file that is fetched in order, as it is read. It ends when this is dropped.
pub struct Download {
    operation: u64,
    pipe: Arc<Pipe>,
    dialogue: Arc<Dialogue>,
    /// Octets that were taken from the pipe, and how many of them were read.
    piece: Vec<u8>,
    read: usize,
}

impl Download {
    /// Waits for the next octets. All of them are verified. None: the file is complete. Errors: the file failed, which
    /// may be after some octets; the connection is lost for good.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let piece = self.pipe.next()?;
        self.dialogue.task.send(Command::Collect { operation: self.operation });
        Ok(piece)
    }
}

impl Read for Download {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            self.read = 0;
            self.piece = self.next_piece().map_err(io::Error::other)?.unwrap_or_default();
        }
        let len = into.len().min(self.piece.len() - self.read);
        into[..len].copy_from_slice(&self.piece[self.read..self.read + len]);
        self.read += len;
        Ok(len)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.dialogue.task.send(Command::Cancel { operation: self.operation });
    }
}

impl Client {
    /// Fetches a file to be read in order, without a copy on the disk. Nothing is read before its group of 16 KiB was
    /// verified; at most a window of octets waits to be read. While they wait, other transfers of this client wait too.
    /// If the file changes after octets of it were read, that is an error.
    pub fn open(&self, path: &str) -> Download {
        let (operation, pipe) = (self.next_operation(), Arc::<Pipe>::default());
        let what = Box::new(Stream::new(path.as_bytes(), pipe.clone()));
        self.dialogue.task.send(Command::Start { operation, what, offer: None });
        Download { operation, pipe, dialogue: self.dialogue.clone(), piece: Vec::new(), read: 0 }
    }

    /// Fetches a file and writes it in order, as `open` has it. Returns its octets. Errors: those of `open`; Stream,
    /// it cannot be written. What was written before stays.
    pub fn get_to(&self, path: &str, into: &mut impl Write) -> Result<u64, Error> {
        let (mut download, mut bytes) = (self.open(path), 0);
        while let Some(piece) = download.next_piece()? {
            into.write_all(&piece).map_err(Error::Stream)?;
            bytes += piece.len() as u64;
        }
        into.flush().map_err(Error::Stream)?;
        Ok(bytes)
    }

    /// Uploads what is read until its end as a file of the virtual path `path`, with the present time and the
    /// permissions of a new file. All of it is read first, to a file without a name in the directory of the variable
    /// TMPDIR. If `path` is a directory of the server, the file goes into it by the last name of `path`. Errors:
    /// Stream, it cannot be read, or there is no room for it; File, the path has no name of a file.
    pub fn put_from(&self, from: &mut impl Read, path: &str, rules: Rules) -> Result<Transfer, Error> {
        let number = self.next_operation();
        let alias = format!("/upload-{number}");
        let failed = |error: FileError| Error::File { path: path.to_owned(), error };
        let name = path.rsplit('/').next().unwrap_or_default().as_bytes();
        if TreePath::parse(name).map_err(failed)?.is_empty() {
            return Err(failed(FileError::new(Code::Invalid, "a path without a file's name")));
        }
        let folder = Spool::fill(&std::env::temp_dir(), name, from).map_err(Error::Stream)?;
        let source = [alias.as_bytes(), b"/", name].concat();
        let (events, received) = Events::channel();
        let what = Box::new(Upload::new(path.as_bytes(), &source, path.as_bytes(), rules, events.clone()));
        let offer = Offer { alias, folder: Arc::new(folder), events };
        Ok(self.start_as(number, what, Some(offer), received))
    }
}
