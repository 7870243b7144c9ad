//! Errors of the interfaces that give a text with each error: a number in errno, and a message stored for the thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pinnace_engine::{Error, Uncancelled};
use pinnace_interface::Unset;

use crate::arguments::text;
use crate::error::set_errno;
use crate::guard::Returned;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The error of a failed call.
pub(crate) struct CallError {
    pub(crate) number: c_int,
    pub(crate) words: String,
}

impl CallError {
    pub(crate) fn new(number: c_int, words: impl Display) -> CallError {
        CallError { number, words: words.to_string() }
    }

    /// The message as a C string.
    pub(crate) fn text(&self) -> CString {
        c_text(&self.words)
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::new(error.errno(), error)
    }
}

impl From<Unset> for CallError {
    fn from(error: Unset) -> CallError {
        CallError::new(libc::EINVAL, error)
    }
}

/// A text for C; a NUL inside becomes a question mark.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// Runs `body`; a panic becomes an error.
pub(crate) fn caught<R>(body: impl FnOnce() -> Result<R, CallError>) -> Result<R, CallError> {
    // The file I/O in `body` would be a cancellation point.
    let _uncancelled = Uncancelled::begin();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(CallError::new(libc::ENOTRECOVERABLE, "internal error: the library panicked"))
    })
}

/// Runs `body`. An error or a panic becomes errno, the thread's error message, and `R::FAILED`.
pub(crate) fn told_call<R: Returned>(body: impl FnOnce() -> Result<R, CallError>) -> R {
    caught(body).unwrap_or_else(|error| {
        // Not available while the thread is exiting.
        let _ = LAST.try_with(|last| last.replace(error.text()));
        set_errno(error.number);
        R::FAILED
    })
}

/// The message of this thread's last failure; empty before the first. Valid until the thread's next failure.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A C string of arbitrary bytes; `what` names it in error messages.
///
/// # Safety
/// `from` must be null or a C string that lives as long as the result is used.
pub(crate) unsafe fn given<'a>(from: *const c_char, what: &str) -> Result<&'a CStr, CallError> {
    if from.is_null() {
        return Err(CallError::new(libc::EFAULT, format!("{what} is NULL")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(from) })
}

/// A C string in UTF-8.
///
/// # Safety
/// As `given`.
pub(crate) unsafe fn string<'a>(from: *const c_char, what: &str) -> Result<&'a str, CallError> {
    // SAFETY: the caller's promise.
    unsafe { text(from) }.map_err(|error| {
        let problem = if error == Error::Fault { "NULL" } else { "not UTF-8" };
        CallError::new(error.errno(), format!("{what} is {problem}"))
    })
}
