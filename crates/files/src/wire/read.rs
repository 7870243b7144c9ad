//! Reads the fields of a frame in their order.

use super::{DecodeError, Hash, NAME_MAX};

/// What is left of a frame.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(frame: &'a [u8]) -> Reader<'a> {
        Reader(frame)
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Malformed("cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Malformed("cut short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn string(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }

    pub fn longstr(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// A path or file name.
    pub fn name(&mut self) -> Result<&'a [u8], DecodeError> {
        let name = self.longstr()?;
        match name.len() <= NAME_MAX {
            true => Ok(name),
            false => Err(DecodeError::Malformed("a name longer than 4096 octets")),
        }
    }

    pub fn hash(&mut self) -> Result<Hash<'a>, DecodeError> {
        let (before, count) = (self.0, self.u32()?);
        // No count is believed: each pair takes at least five octets.
        for _ in 0..count {
            self.string()?;
            self.longstr()?;
        }
        Ok(Hash::of_valid(&before[..before.len() - self.0.len()]))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
