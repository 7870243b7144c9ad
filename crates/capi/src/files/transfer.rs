//! A transfer: its events, its end and its report.

use std::ffi::{CString, OsStr, c_char, c_int, c_long, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use pinnace_files::client::{Client, Event, Report, Transfer};
use pinnace_interface::errno;
use pinnace_sys::wake::WakeFd;

use super::client::client;
use super::event::{EventT, EventTexts};
use super::owned::Objects;
use super::rules::rules_of;
use crate::arguments::SizedStruct;
use crate::call_error::{CallError, c_text, given, string, told_call};
use crate::pinnace::deadline;

static TRANSFERS: Objects<UnderWay> = Objects::new("a transfer");

struct UnderWay {
    cancel: Box<dyn Fn() + Send + Sync>,
    /// Its handle was released: texts of an event would be freed with the call that returns them.
    is_closed: AtomicBool,
    /// Held by the call that waits for an event.
    state: Mutex<State>,
    /// Present if C has asked for a descriptor.
    readiness: OnceLock<Arc<Readiness>>,
    outcome: OnceLock<Outcome>,
}

struct State {
    transfer: Transfer,
    /// Of the last event.
    texts: EventTexts,
}

/// What the transfer has come to.
enum Outcome {
    Complete { files: u64, bytes: u64, failed: Vec<Failure> },
    Aborted { number: c_int, words: String },
}

struct Failure {
    path: CString,
    number: c_int,
    text: CString,
    here: bool,
}

/// The descriptor that is readable while an event may be there.
struct Readiness(WakeFd);

impl Wake for Readiness {
    fn wake(self: Arc<Readiness>) {
        self.0.signal();
    }
}

/// pinnace_files_report_t.
#[repr(C)]
pub struct ReportT {
    size: usize,
    files: u64,
    bytes: u64,
    failed: u64,
}

/// pinnace_files_failure_t.
#[repr(C)]
pub struct FailureT {
    size: usize,
    error: c_int,
    path: *const c_char,
    text: *const c_char,
    here: c_int,
}

impl Outcome {
    fn of(event: &Event) -> Option<Outcome> {
        match event {
            Event::Ended(Report { files, bytes, failed, .. }) => {
                let failed = failed.iter().map(|(path, error)| Failure {
                    path: c_text(path),
                    number: errno::of_code(error.code),
                    text: c_text(&error.text),
                    here: error.here,
                });
                Some(Outcome::Complete { files: *files, bytes: *bytes, failed: failed.collect() })
            }
            Event::Aborted(error) => {
                let CallError { number, words } = error.into();
                Some(Outcome::Aborted { number, words })
            }
            _ => None,
        }
    }
}

fn timed_out() -> CallError {
    CallError::new(libc::EAGAIN, "no event within the time")
}

impl UnderWay {
    fn new(transfer: Transfer) -> UnderWay {
        UnderWay {
            cancel: Box::new(transfer.canceller()),
            is_closed: AtomicBool::new(false),
            state: Mutex::new(State { transfer, texts: EventTexts::default() }),
            readiness: OnceLock::new(),
            outcome: OnceLock::new(),
        }
    }

    /// Only one call takes events at a time.
    fn lock(&self, until: Option<Instant>) -> Result<MutexGuard<'_, State>, CallError> {
        match until {
            None => Ok(self.state.lock()),
            Some(until) => self.state.try_lock_until(until).ok_or_else(timed_out),
        }
    }

    /// The next event; None: the transfer is over. Error: EAGAIN.
    fn next(&self, state: &State, until: Option<Instant>) -> Result<Option<Event>, CallError> {
        if let Some(readiness) = self.readiness.get() {
            readiness.0.clear();
            let waker = Waker::from(readiness.clone());
            if let Poll::Ready(event) = state.transfer.poll_event(&mut Context::from_waker(&waker)) {
                // It stays readable until no event is found.
                readiness.0.signal();
                return Ok(event);
            }
        }
        let event = match until {
            None => state.transfer.next_event(),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                match state.transfer.next_event_within(left) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Disconnected) => None,
                    Err(RecvTimeoutError::Timeout) => return Err(timed_out()),
                }
            }
        };
        Ok(event)
    }

    /// As `next`; keeps what the transfer has come to.
    fn take(&self, state: &State, until: Option<Instant>) -> Result<Option<Event>, CallError> {
        let event = self.next(state, until)?;
        if let Some(outcome) = event.as_ref().and_then(Outcome::of) {
            let _ = self.outcome.set(outcome);
        }
        Ok(event)
    }
}

/// Begins a transfer with a client.
fn begin(handle: *mut c_void, start: impl FnOnce(&Client) -> Result<Transfer, CallError>) -> *mut c_void {
    told_call(|| {
        let client = client(handle)?;
        Ok(TRANSFERS.insert(UnderWay::new(start(&client)?)))
    })
}

/// # Safety
/// `from` must be null or a C string that lives as long as the result is used.
unsafe fn local<'a>(from: *const c_char) -> Result<&'a Path, CallError> {
    // SAFETY: the caller's promise.
    Ok(Path::new(OsStr::from_bytes(unsafe { given(from, "the path of this host") }?.to_bytes())))
}

/// # Safety
/// `from` must be null or a C string that lives as long as the result is used.
unsafe fn remote<'a>(from: *const c_char) -> Result<&'a str, CallError> {
    // SAFETY: the caller's promise.
    unsafe { string(from, "the virtual path") }
}

/// Begins to fetch a file or a directory; NULL on an error.
///
/// # Safety
/// `path` and `to` must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_get(
    handle: *mut c_void,
    path: *const c_char,
    to: *const c_char,
    rules: *const c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    begin(handle, |client| {
        Ok(client.get_by(unsafe { remote(path) }?, unsafe { local(to) }?, rules_of(rules)?))
    })
}

/// Begins to upload a file or a directory; NULL on an error.
///
/// # Safety
/// `from` and `path` must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_put(
    handle: *mut c_void,
    from: *const c_char,
    path: *const c_char,
    rules: *const c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    begin(handle, |client| {
        Ok(client.put_by(unsafe { local(from) }?, unsafe { remote(path) }?, rules_of(rules)?))
    })
}

/// Begins to follow a directory; NULL on an error.
///
/// # Safety
/// `path` and `to` must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_follow(
    handle: *mut c_void,
    path: *const c_char,
    to: *const c_char,
    rules: *const c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    begin(handle, |client| {
        Ok(client.follow(unsafe { remote(path) }?, unsafe { local(to) }?, rules_of(rules)?))
    })
}

/// Begins to list the names below a path; NULL on an error.
///
/// # Safety
/// `path` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_list(handle: *mut c_void, path: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    begin(handle, |client| Ok(client.list(unsafe { remote(path) }?)))
}

/// Begins to fetch what is discarded; NULL on an error.
///
/// # Safety
/// `path` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_discard(handle: *mut c_void, path: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    begin(handle, |client| Ok(client.discard(unsafe { remote(path) }?)))
}

/// Writes the next event, and returns 1; 0 if the transfer is over.
///
/// # Safety
/// `event` must be null or point to as many bytes as its first member specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_transfer_next_event(
    handle: *mut c_void,
    event: *mut EventT,
    timeout_ms: c_long,
) -> c_int {
    told_call(|| {
        let (transfer, until) = (TRANSFERS.get(handle)?, deadline(timeout_ms));
        // SAFETY: the caller's promise.
        let to = unsafe { SizedStruct::at(event) }?;
        let mut state = transfer.lock(until)?;
        while let Some(event) = transfer.take(&state, until)? {
            if transfer.is_closed.load(Ordering::Acquire) {
                return Err(CallError::new(libc::EFAULT, "the transfer was closed during the call"));
            }
            if let Some(event) = EventT::new(event, &mut state.texts, to.given()) {
                to.write(&event);
                return Ok(1);
            }
        }
        Ok(0)
    })
}

/// Waits until the transfer is over, and writes its report.
///
/// # Safety
/// `report` must be null or point to as many bytes as its first member specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_transfer_wait(
    handle: *mut c_void,
    report: *mut ReportT,
    timeout_ms: c_long,
) -> c_int {
    told_call(|| {
        let (transfer, until) = (TRANSFERS.get(handle)?, deadline(timeout_ms));
        // SAFETY: the caller's promise.
        let to = if report.is_null() { None } else { Some(unsafe { SizedStruct::at(report) }?) };
        if transfer.outcome.get().is_none() {
            let state = transfer.lock(until)?;
            while transfer.outcome.get().is_none() && transfer.take(&state, until)?.is_some() {}
        }
        match transfer.outcome.get() {
            Some(Outcome::Complete { files, bytes, failed }) => {
                to.into_iter().for_each(|to| {
                    let failed = failed.len() as u64;
                    to.write(&ReportT { size: to.given(), files: *files, bytes: *bytes, failed });
                });
                Ok(0)
            }
            Some(Outcome::Aborted { number, words }) => Err(CallError::new(*number, words)),
            None => Err(CallError::new(libc::ECANCELED, "the transfer has ended without a report")),
        }
    })
}

/// Writes a file that failed, of a transfer that is complete.
///
/// # Safety
/// `failure` must be null or point to as many bytes as its first member specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_transfer_failure(
    handle: *mut c_void,
    index: usize,
    failure: *mut FailureT,
) -> c_int {
    told_call(|| {
        let transfer = TRANSFERS.get(handle)?;
        // SAFETY: the caller's promise.
        let to = unsafe { SizedStruct::at(failure) }?;
        let failed = match transfer.outcome.get() {
            Some(Outcome::Complete { failed, .. }) => failed.get(index),
            _ => None,
        };
        let none = || CallError::new(libc::ENOENT, "no such failure in the report of this transfer");
        let Failure { path, number, text, here } = failed.ok_or_else(none)?;
        let (path, text) = (path.as_ptr(), text.as_ptr());
        let (error, here) = (*number, c_int::from(*here));
        to.write(&FailureT { size: to.given(), error, path, text, here });
        Ok(0)
    })
}

/// The descriptor that is readable while an event may be there; it belongs to the transfer.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_transfer_fd(handle: *mut c_void) -> c_int {
    told_call(|| {
        let transfer = TRANSFERS.get(handle)?;
        if let Some(readiness) = transfer.readiness.get() {
            return Ok(readiness.0.raw());
        }
        let failed = |_| CallError::new(libc::EMFILE, "no further descriptor can be opened");
        let new = Readiness(WakeFd::new().map_err(failed)?);
        // An event may be there; another thread may wait for the next one without telling this descriptor.
        new.0.signal();
        Ok(transfer.readiness.get_or_init(|| Arc::new(new)).0.raw())
    })
}

/// Ends a transfer soon.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_transfer_cancel(handle: *mut c_void) -> c_int {
    told_call(|| {
        (TRANSFERS.get(handle)?.cancel)();
        Ok(0)
    })
}

/// Cancels a transfer, unless it is over, and releases it.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_transfer_close(handle: *mut c_void) -> c_int {
    told_call(|| {
        if let Some(transfer) = TRANSFERS.remove(handle)? {
            transfer.is_closed.store(true, Ordering::Release);
            (transfer.cancel)();
        }
        Ok(0)
    })
}
