//! Compressed chunks of an operation: what they unpack to, and what they cost.
//!
//! Credit counts the octets that travel, but those of a file are settled as they are written. The difference is a debt:
//! so many settled octets are not given back.

use super::job::Step;
use super::operation::Reply;
use crate::error::{Code, FileError};
use crate::transfer::pack::{Packer, unpack};
use crate::wire::{Cheezburger, Form, Headers};

/// The chunks of an operation.
pub struct Unpacker {
    /// They may be compressed.
    is_asked: bool,
    debt: u64,
}

impl Unpacker {
    pub fn new(is_asked: bool) -> Unpacker {
        Unpacker { is_asked, debt: 0 }
    }

    /// A new connection: nothing is under way.
    pub fn reset(&mut self) {
        self.debt = 0;
    }

    /// What a reply's chunk unpacks to. None: it is not compressed. Errors: those of `unpack`; Invalid, nothing
    /// compressed was asked for.
    pub fn unpack(&mut self, reply: &Reply<'_>) -> Result<Option<Vec<u8>>, FileError> {
        let Some(len) = reply.headers.zstd else { return Ok(None) };
        if !self.is_asked || !matches!(reply.headers.form, Form::Data | Form::Pack) {
            return Err(FileError::new(Code::Invalid, "a compressed chunk that was not asked for"));
        }
        let plain = unpack(reply.burger.chunk, len, reply.chunk_max)?;
        self.owe((plain.len() - reply.burger.chunk.len()) as u64);
        Ok(Some(plain))
    }

    /// So many octets of a file did not travel.
    pub fn owe(&mut self, octets: u64) {
        self.debt += octets;
    }

    /// The credit to give back for octets that are settled.
    pub fn credit_of(&mut self, settled: u64) -> u64 {
        let owed = self.debt.min(settled);
        self.debt -= owed;
        settled - owed
    }
}

/// The frame of a pack again, with its entries compressed. None: it goes as it is. `head`: where the entries begin;
/// `most`: how many octets of them the other side takes.
pub fn compressed(
    packer: &mut Packer,
    (request, path, sequence, extra): (u32, &[u8], u64, bool),
    entries: &[u8],
    most: u64,
) -> Option<Step> {
    let packed = if entries.len() as u64 <= most { packer.pack(entries)? } else { return None };
    let zstd = Some(entries.len() as u64);
    let (request, form) = (Some(request), Form::Pack);
    let headers = Headers { request, form, zstd, extra, ..Headers::default() }.write();
    let mut frame = Vec::new();
    Cheezburger::new(sequence, path, headers.hash()).write_head(&mut frame, packed.len());
    frame.extend_from_slice(&packed);
    Some(Step::Content(frame.into(), packed.len() as u64))
}
