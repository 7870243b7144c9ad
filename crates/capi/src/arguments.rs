//! Arguments that C passes in, checked before use.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use pinnace_engine::pending_sleep::Turn;
use pinnace_engine::{Error, Invalid, SocketType, Wait};

const DONTWAIT: c_int = 1;
const SNDMORE: c_int = 2;

/// The flags of a send or a receive.
#[derive(Clone, Copy)]
pub(crate) struct Flags {
    pub(crate) wait: bool,
    pub(crate) more: bool,
}

impl Flags {
    #[inline(always)]
    pub(crate) fn read(flags: c_int) -> Result<Flags, Error> {
        if flags & !(DONTWAIT | SNDMORE) != 0 {
            return Err(Error::Invalid(Invalid::Flags));
        }
        Ok(Flags { wait: flags & DONTWAIT == 0, more: flags & SNDMORE != 0 })
    }

    /// The wait mode of a call that `guard_waiting` runs.
    #[inline(always)]
    pub(crate) fn deferred(self, turn: Turn) -> Wait {
        if self.wait { turn.wait() } else { Wait::Never }
    }
}

/// A size as an int return value, saturating.
#[inline(always)]
pub(crate) fn int_size(size: usize) -> c_int {
    c_int::try_from(size).unwrap_or(c_int::MAX)
}

/// The `len` bytes at `data`, which may be null if `len` is 0.
///
/// # Safety
/// Unless it is null, `data` must be valid for reads of `len` bytes for as long as the result is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], Error> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Error::Fault);
    }
    if len > isize::MAX as usize {
        return Err(Error::Invalid(Invalid::Length));
    }
    // SAFETY: the caller's promise, and checked above.
    Ok(unsafe { slice::from_raw_parts(data.cast(), len) })
}

/// As `bytes`, for writing.
///
/// # Safety
/// Unless it is null, `data` must be valid for writes of `len` bytes, with no other access, for as long as the result
/// is used.
#[inline(always)]
pub(crate) unsafe fn bytes_mut<'a>(data: *mut c_void, len: usize) -> Result<&'a mut [u8], Error> {
    if len == 0 {
        return Ok(&mut []);
    }
    if data.is_null() {
        return Err(Error::Fault);
    }
    // Callers pass lengths such as SIZE_MAX for "enough"; a slice may not exceed isize::MAX.
    let len = len.min(isize::MAX as usize);
    // SAFETY: the caller's promise, and checked above.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), len) })
}

/// A struct of the caller with a size_t as the first member that holds its size in bytes. A caller built against an
/// older version has a shorter struct than ours.
pub(crate) struct SizedStruct<T> {
    at: *mut T,
    /// The bytes that a call writes.
    size: usize,
    given: usize,
}

impl<T> SizedStruct<T> {
    /// Errors: Fault for null, Invalid if the size is less than that of the size member.
    ///
    /// # Safety
    /// `at` must be null, or point to a size and be valid for writes of that many bytes until `write`. `T` must be
    /// `repr(C)`, have its size as the first member, and consist of plain numbers and pointers.
    pub(crate) unsafe fn at(at: *mut T) -> Result<SizedStruct<T>, Error> {
        if at.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: not null, and the caller's promise.
        let size = unsafe { at.cast::<usize>().read() };
        if size < size_of::<usize>() {
            return Err(Error::Invalid(Invalid::Length));
        }
        Ok(SizedStruct { at, size: size.min(size_of::<T>()), given: size })
    }

    /// The size that the caller has set.
    pub(crate) fn given(&self) -> usize {
        self.given
    }

    /// Writes the part of `from` that fits.
    pub(crate) fn write(&self, from: &T) {
        let (from, to) = (ptr::from_ref(from).cast::<u8>(), self.at.cast::<u8>());
        // SAFETY: the promise to `at`; numbers may be copied in part.
        unsafe { ptr::copy_nonoverlapping(from, to, self.size) }
    }
}

/// A path, of arbitrary bytes.
///
/// # Safety
/// `text` must be null or a C string that lives as long as the result is used.
pub(crate) unsafe fn path<'a>(text: *const c_char) -> Result<&'a Path, Error> {
    if text.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: the caller's promise.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes())))
}

/// A C string that must be UTF-8.
///
/// # Safety
/// `text` must be null or a C string that lives as long as the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Error::Invalid(Invalid::Text))
}

/// The socket type of libzmq's number. Errors: Invalid.
pub(crate) fn socket_type(number: c_int) -> Result<SocketType, Error> {
    u8::try_from(number).ok().and_then(SocketType::from_number).ok_or(Error::Invalid(Invalid::SocketType))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_two() {
        let read = |flags| Flags::read(flags).map(|flags| (flags.wait, flags.more));
        assert_eq!(read(0), Ok((true, false)));
        assert_eq!(read(1), Ok((false, false)));
        assert_eq!(read(3), Ok((false, true)));
        assert!(matches!(read(4), Err(Error::Invalid(_))));
        assert!(matches!(read(-1), Err(Error::Invalid(_))));
    }

    #[test]
    fn null_is_nothing_or_a_fault() {
        let null = std::ptr::null_mut();
        // SAFETY: null pointers.
        unsafe {
            assert_eq!(bytes(null, 0), Ok(&[][..]));
            assert_eq!(bytes(null, 1), Err(Error::Fault));
            assert_eq!(bytes_mut(null, 0), Ok(&mut [][..]));
            assert_eq!(bytes_mut(null, 1), Err(Error::Fault));
            assert_eq!(text(null.cast()), Err(Error::Fault));
        }
    }

    #[test]
    fn sizes_end_at_int_max() {
        assert_eq!(int_size(7), 7);
        assert_eq!(int_size(1 << 40), c_int::MAX);
    }
}
