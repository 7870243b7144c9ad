//! Clients of guaranteed delivery in C: pinnace_delivery.h.
//!
//! Options, clients and deliveries are checked handles: an invalid or released one is EFAULT. A function that fails
//! sets errno and stores a message for its thread (`pinnace_client_error`, [`call_error`]). A call in progress keeps
//! its client open. `pinnace_client_close` wakes the calls that wait for messages, and returns when the last call has
//! left, or after a limited time, in which case the client ends in spite of the calls in progress ([`closing`]).
//! Handlers run with no lock held, and may call anything.

mod call_error;
mod closing;
mod handlers;
mod options;
mod properties;
mod receive;
mod send;
mod sql;
mod statistics;
#[cfg(test)]
mod tests;
mod together;

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Error as DeliveryError};
use pinnace_interface::errno;
use pinnace_sys::fork;
use pinnace_sys::signals::Mask;

use crate::call_error::c_text;
use crate::delivery::options::{OPTIONS, no_options, string};
use crate::pinnace::{deadline, put_text};
use crate::registry::Registry;
use call_error::{CallError, delivery_call};
use closing::{Closed, Core, far};
use handlers::{Reporting, report};

static CLIENTS: Registry<Open> = Registry::new();

/// An open client, held by each call and handler in progress.
struct Open {
    core: Arc<Core>,
    name: CString,
    endpoint: CString,
    store_id: CString,
    reporter: Reporting,
    /// The largest ticket issued so far.
    tickets: AtomicU64,
    /// The fork generation of the process that it belongs to.
    fork: u32,
    /// The signal mask of the thread that started the client.
    signals: Mask,
}

impl Open {
    fn client(&self) -> &Client {
        &self.core.client
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.core.left();
    }
}

/// What a thread needs at most to return from a call that was ended.
const MOMENT: Duration = Duration::from_millis(200);

thread_local! {
    /// Number of handlers active on this thread.
    static HANDLERS: Cell<usize> = const { Cell::new(0) };
}

fn no_client() -> CallError {
    CallError::new(libc::EFAULT, "not a client handle, or the client was closed")
}

/// The client of a handle; it stays open as long as the result lives.
fn open(handle: *mut c_void) -> Result<Arc<Open>, CallError> {
    let open = CLIENTS.get(handle).map_err(|_| no_client())?;
    if open.fork != fork::generation() {
        return Err(CallError::new(
            libc::EFAULT,
            "the client was started before a fork and belongs to the parent process",
        ));
    }
    Ok(open)
}

/// Starts a client; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_start(options: *const c_void) -> *mut c_void {
    delivery_call(|| {
        fork::watch();
        let options = OPTIONS.get(options.cast_mut()).map_err(no_options)?;
        let builder = options.lock().builder();
        let reporter = Reporting::default();
        let hear = reporter.clone();
        let client = builder.on_error(move |error| report(&hear, &error.into())).start()?;
        let text = |text: &str| CString::new(text).unwrap_or_default();
        Ok(CLIENTS.insert(Open {
            name: text(client.name()),
            endpoint: text(client.endpoint()),
            store_id: text(&client.store_id()),
            core: Core::new(client),
            reporter,
            tickets: AtomicU64::new(0),
            fork: fork::generation(),
            signals: Mask::current(),
        }))
    })
}

/// Stops receiving, and waits until all deliveries in hand are settled and recorded, and messages in memory are
/// acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_drain(handle: *mut c_void, timeout_ms: c_long) -> c_int {
    delivery_call(|| {
        open(handle)?.client().drain(deadline(timeout_ms))?;
        Ok(0)
    })
}

/// Writes the number of deliveries in hand.
///
/// # Safety
/// `count` must be null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_in_hand(handle: *mut c_void, count: *mut u64) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        if count.is_null() {
            return Err(CallError::new(libc::EFAULT, "the pointer for the number is NULL"));
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { count.write(open.client().in_hand() as u64) };
        Ok(0)
    })
}

/// A client that is to be closed.
enum Closing {
    Open(Arc<Open>),
    /// It has been closed, and has not ended.
    Closed(Arc<Closed>),
    /// It belongs to the parent process.
    Forked,
}

fn closing(handle: *mut c_void) -> Result<Closing, CallError> {
    match CLIENTS.get(handle) {
        Err(_) => Ok(Closing::Closed(closing::of(handle).ok_or_else(no_client)?)),
        Ok(open) if open.fork != fork::generation() => {
            // The child has none of the client's threads, and its files belong to the parent.
            std::mem::forget((CLIENTS.remove(handle), open));
            Ok(Closing::Forked)
        }
        Ok(open) => Ok(Closing::Open(open)),
    }
}

/// Takes a client's handle back. Calls that wait in it return.
fn take_handle(handle: *mut c_void, open: &Open) -> Arc<Closed> {
    // In this order, so that a concurrent closer finds the client in one of the two tables.
    let closed = open.core.begin(handle);
    let _ = CLIENTS.remove(handle);
    open.client().stop();
    closed
}

fn still_used() -> CallError {
    CallError::new(libc::ETIMEDOUT, "the client has ended, but a call or a handler has not returned")
}

/// Closes a client: settled messages are recorded, and accepted messages stay stored. Calls that wait in it for
/// messages, room or acknowledgements return ECANCELED. Waits until all calls have returned, even if another thread has
/// closed the client already, but not for ever (ETIMEDOUT); does not wait if called from a handler.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_close(handle: *mut c_void) -> c_int {
    delivery_call(|| {
        // The client does not end with the last call, but in `end`, which says how that went.
        let (closed, core) = match closing(handle)? {
            Closing::Forked => return Ok(0),
            Closing::Closed(closed) => (closed, None),
            Closing::Open(open) => (take_handle(handle, &open), Some(open.core.clone())),
        };
        let until = Instant::now() + closed.linger;
        if HANDLERS.get() > 0 || closed.end(until, core) { Ok(0) } else { Err(still_used()) }
    })
}

/// Drains a client for at most `timeout_ms`, and ends it in any case.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_close_within(handle: *mut c_void, timeout_ms: c_long) -> c_int {
    delivery_call(|| {
        let until = deadline(timeout_ms);
        let (closed, drained) = match closing(handle)? {
            Closing::Forked => return Ok(0),
            Closing::Closed(closed) => (closed, Ok(())),
            Closing::Open(open) => {
                let drained = open.client().close(until);
                (take_handle(handle, &open), drained)
            }
        };
        // Calls that waited are about to return.
        let soon = Instant::now() + MOMENT;
        let until = until.map_or_else(far, |until| until.max(soon));
        match drained {
            Err(DeliveryError::TimedOut) => {
                Err(CallError::new(libc::ETIMEDOUT, "the client has ended, but not all was settled"))
            }
            Err(error) => Err(error.into()),
            Ok(()) if HANDLERS.get() > 0 || closed.end(until, None) => Ok(0),
            Ok(()) => Err(still_used()),
        }
    })
}

/// The client's name, valid until the client is closed; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_name(handle: *mut c_void) -> *const c_char {
    delivery_call(|| Ok(open(handle)?.name.as_ptr()))
}

/// The endpoint at which peers reach the client, valid until the client is closed; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_endpoint(handle: *mut c_void) -> *const c_char {
    delivery_call(|| Ok(open(handle)?.endpoint.as_ptr()))
}

/// The id of the client in its store, valid until the client is closed; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_store_id(handle: *mut c_void) -> *const c_char {
    delivery_call(|| Ok(open(handle)?.store_id.as_ptr()))
}

/// Subscribes to a further topic.
///
/// # Safety
/// `topic` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_subscribe(handle: *mut c_void, topic: *const c_char) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        open.client().subscribe(unsafe { string(topic, "the topic") }?)?;
        Ok(0)
    })
}

/// Unsubscribes from a topic.
///
/// # Safety
/// `topic` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_unsubscribe(handle: *mut c_void, topic: *const c_char) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        open.client().unsubscribe(unsafe { string(topic, "the topic") }?)?;
        Ok(0)
    })
}

/// Waits until at least `count` clients are subscribed to a topic.
///
/// # Safety
/// `topic` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_wait_listeners(
    handle: *mut c_void,
    topic: *const c_char,
    count: usize,
    timeout_ms: c_long,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let topic = unsafe { string(topic, "the topic") }?;
        open.client().wait_listeners(topic, count, deadline(timeout_ms))?;
        Ok(0)
    })
}

/// Writes the addresses of the clients subscribed to a topic, one per line, as a C string. `*size` receives its size
/// with the NUL. Returns the number of addresses.
///
/// # Safety
/// `topic` must be null or a C string, `size` be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_addresses(
    handle: *mut c_void,
    topic: *const c_char,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let addresses = open.client().addresses_of(unsafe { string(topic, "the topic") }?);
        let lines: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        // SAFETY: as above.
        unsafe { put_text(&lines, buffer, size) }?;
        Ok(c_int::try_from(addresses.len()).unwrap_or(c_int::MAX))
    })
}

/// The current error of the client's registry, for registering itself or for reading the others; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_registry_error(handle: *mut c_void) -> c_int {
    delivery_call(|| match open(handle)?.client().registry_error() {
        Some(error) => Err(CallError::new(errno::of_registry(&error), error)),
        None => Ok(0),
    })
}

/// Ends all subscriptions of a client that is gone for good.
///
/// # Safety
/// `name` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_forget(handle: *mut c_void, name: *const c_char) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        open.client().forget(unsafe { string(name, "the name") }?)?;
        Ok(0)
    })
}

/// Removes the registry entries that dead clients left for a topic. Returns how many it removed.
///
/// # Safety
/// `topic` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_clear_addresses(handle: *mut c_void, topic: *const c_char) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let cleared = open.client().clear_addresses(unsafe { string(topic, "the topic") }?)?;
        Ok(c_int::try_from(cleared).unwrap_or(c_int::MAX))
    })
}
