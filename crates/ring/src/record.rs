//! The format of a frame in a segment: as on the wire, or as a reference to its body.
//!
//! ```text
//! short       flags        len(1)          body
//! long        flags|LONG   len(8, BE)      body
//! reference   flags|REF    pointer(8)      (the body lies elsewhere)
//! ```
//! Flags are those of ZMTP 3 (RFC 23). REF is a bit that the wire reserves; intake clears it in a peer's bytes.
//! It also clears LOAN, unless the peer shares an arena with us (`arena`).

/// More frames of the same message follow (RFC 23, flags bit 0).
pub const MORE: u8 = 1;
/// The length takes eight bytes (RFC 23, flags bit 1).
pub const LONG: u8 = 2;
/// A command, not a message (RFC 23, flags bit 2).
pub const COMMAND: u8 = 4;
/// The record is a reference.
pub(crate) const REF: u8 = 0x80;

/// A frame from shared memory is a loan.
pub(crate) const LOAN: u8 = 0x40;

/// Bytes of a reference record.
pub(crate) const REF_LEN: usize = 9;
/// Bytes of the longest header on the wire.
pub(crate) const HEADER_MAX: usize = 9;
/// Bytes of a loan.
pub(crate) const LOAN_LEN: usize = 17;

/// A record's head, read from its first bytes.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) flags: u8,
    pub(crate) header: usize,
    pub(crate) body: usize,
}

/// Reads the head of the whole record at `at`. A REF record counts as a header of nine bytes without a body.
///
/// # Safety
/// A whole record must lie at `at`.
#[inline(always)]
pub(crate) unsafe fn head(at: *const u8) -> Head {
    // SAFETY: a record has at least two bytes, and nine where LONG or REF is set.
    unsafe {
        let flags = *at;
        if flags & (LONG | REF) == 0 {
            return Head { flags, header: 2, body: *at.add(1) as usize };
        }
        let body = if flags & REF != 0 {
            0
        } else {
            u64::from_be_bytes(at.add(1).cast::<[u8; 8]>().read_unaligned())
        };
        Head { flags, header: 9, body: body as usize }
    }
}

/// The raw body pointer of the reference record at `at`.
///
/// # Safety
/// A whole reference record must lie at `at`.
#[inline]
pub(crate) unsafe fn raw_body(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    u64::from_ne_bytes(unsafe { at.add(1).cast::<[u8; 8]>().read_unaligned() })
}

/// Size on the wire of a frame with a body of `len` bytes.
#[inline(always)]
pub(crate) fn wire_len(len: usize) -> usize {
    header_len(len) + len
}

/// Size of the header of a frame with a body of `len` bytes.
#[inline(always)]
pub(crate) fn header_len(len: usize) -> usize {
    if len < 256 { 2 } else { HEADER_MAX }
}

/// Writes the header of a frame with a body of `len` bytes to `at`; returns the header's length.
///
/// # Safety
/// There must be room for nine bytes at `at`.
#[inline(always)]
pub(crate) unsafe fn write_header(at: *mut u8, flags: u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        if len < 256 {
            at.cast::<[u8; 2]>().write_unaligned([flags, len as u8]);
        } else {
            *at = flags | LONG;
            at.add(1).cast::<[u8; 8]>().write_unaligned((len as u64).to_be_bytes());
        }
    }
    header_len(len)
}

/// Writes a loan.
pub(crate) fn write_loan(to: &mut [u8; LOAN_LEN], flags: u8, position: u64, len: usize) {
    to[0] = flags & MORE | LOAN;
    to[1..9].copy_from_slice(&position.to_be_bytes());
    to[9..].copy_from_slice(&(len as u64).to_be_bytes());
}

/// Position and length of the whole loan at `at`.
///
/// # Safety
/// A whole loan must lie there.
pub(crate) unsafe fn read_loan(at: *const u8) -> (u64, u64) {
    // SAFETY: the caller's promise.
    let numbers = unsafe { at.add(1).cast::<[[u8; 8]; 2]>().read_unaligned() };
    (u64::from_be_bytes(numbers[0]), u64::from_be_bytes(numbers[1]))
}

/// Writes a frame to `at`.
///
/// # Safety
/// There must be room for nine bytes and the body at `at`.
#[inline(always)]
pub(crate) unsafe fn write(at: *mut u8, flags: u8, body: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        let header = write_header(at, flags, body.len());
        copy(body.as_ptr(), at.add(header), body.len());
    }
}

/// As `ptr::copy_nonoverlapping`, of bytes. Copies 8 to 16 bytes inline, where a call costs more than the copy.
///
/// # Safety
/// Those of `ptr::copy_nonoverlapping`.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise. Both words of eight bytes lie within `len`, and may overlap.
    unsafe {
        if !(8..=16).contains(&len) {
            return std::ptr::copy_nonoverlapping(from, to, len);
        }
        let first = from.cast::<[u8; 8]>().read();
        let last = from.add(len - 8).cast::<[u8; 8]>().read();
        to.cast::<[u8; 8]>().write(first);
        to.add(len - 8).cast::<[u8; 8]>().write(last);
    }
}
