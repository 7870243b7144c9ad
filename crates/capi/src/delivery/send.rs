//! Sending, and waiting for the disk and for acknowledgements.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pinnace_delivery::{Durability, Options, Pending, Ticket};

use super::open;
use super::options::string;
use super::receive::c_text;
use super::trouble::{Trouble, attempt};
use crate::arguments::bytes;
use crate::pinnace::timeout;

const SYNC: c_int = 0;
const INTERVAL: c_int = 1;
const MEMORY: c_int = 2;

/// pinnace_send_options_t. Later versions have more members at its end, whose default is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendOptions {
    size: usize,
    timeout_ms: i64,
    ttl_ms: i64,
    all: c_int,
    durability: c_int,
}

/// More than any version will have.
const SIZE_MAX: usize = 4096;

/// When a wait is over; None: never.
pub(super) fn deadline(ms: i64) -> Option<Instant> {
    timeout(ms).and_then(|time| Instant::now().checked_add(time))
}

fn wrong(words: impl std::fmt::Display) -> Trouble {
    Trouble::new(libc::EINVAL, words)
}

/// Null: as `pinnace_client_send_to` does it.
///
/// # Safety
/// `from` must be null, or point to a size and be good for reading so many bytes.
unsafe fn read_options(from: *const SendOptions) -> Result<Options, Trouble> {
    if from.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: the caller's promise.
    let size = unsafe { from.cast::<usize>().read() };
    if !(size_of::<SendOptions>()..=SIZE_MAX).contains(&size) {
        return Err(wrong(format_args!("send options do not have {size} bytes: is their size set?")));
    }
    let beyond = size - size_of::<SendOptions>();
    // SAFETY: as above.
    if unsafe { bytes(from.add(1).cast(), beyond) }?.iter().any(|byte| *byte != 0) {
        return Err(Trouble::new(libc::E2BIG, "send options that this version does not know are set"));
    }
    // SAFETY: as above; it is large enough.
    let given = unsafe { from.read() };
    let durability = match given.durability {
        SYNC => Durability::Sync,
        INTERVAL => Durability::Interval,
        MEMORY => Durability::Memory,
        other => return Err(wrong(format_args!("there is no durability {other}"))),
    };
    let ttl = match u32::try_from(given.ttl_ms) {
        Ok(0) => None,
        Ok(ms) => Some(Duration::from_millis(ms.into())),
        Err(_) => return Err(wrong(format_args!("a ttl is 0 to {} ms, not {}", u32::MAX, given.ttl_ms))),
    };
    Ok(Options { all: given.all != 0, durability, ttl, deadline: deadline(given.timeout_ms) })
}

/// Sends a message with options.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or good for reading `size` bytes.
unsafe fn send(
    handle: *mut c_void,
    topic: *const c_char,
    (data, size): (*const c_void, usize),
    options: Result<Options, Trouble>,
) -> Result<c_int, Trouble> {
    let open = open(handle)?;
    // SAFETY: the caller's promise.
    let (topic, body) = unsafe { (string(topic, "the topic")?, body(data, size)?) };
    open.client.send(topic, body, &options?)?;
    Ok(0)
}

/// # Safety
/// `data` must be null or good for reading `size` bytes, for as long as the result is used.
unsafe fn body<'a>(data: *const c_void, size: usize) -> Result<&'a [u8], Trouble> {
    // SAFETY: the caller's promise.
    unsafe { bytes(data, size) }
        .map_err(|error| Trouble::new(error.errno(), "the body is NULL, or too large"))
}

/// Sends to one of those that listen on a topic, in turn. 0: it is on this machine's disk, and will be delivered.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or good for reading `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send_to(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    attempt(|| unsafe { send(handle, topic, (data, size), Ok(Options::default())) })
}

/// Sends to each of those that listen on a topic.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or good for reading `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send_all(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
) -> c_int {
    let options = Options { all: true, ..Options::default() };
    // SAFETY: the caller's promise.
    attempt(|| unsafe { send(handle, topic, (data, size), Ok(options)) })
}

/// Sends as the options say; NULL: as `pinnace_client_send_to`.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or good for reading `size` bytes, `options` null or point to as many
/// bytes as its first member says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
    options: *const SendOptions,
) -> c_int {
    // SAFETY: the caller's promise.
    attempt(|| unsafe { send(handle, topic, (data, size), read_options(options)) })
}

/// As `pinnace_client_send`, without waiting for the disk. Writes to `ticket` what to wait for.
///
/// # Safety
/// As `pinnace_client_send`, and `ticket` must be null or good for writing a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send_async(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
    options: *const SendOptions,
    ticket: *mut u64,
) -> c_int {
    attempt(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let (topic, body) = unsafe { (string(topic, "the topic")?, body(data, size)?) };
        // SAFETY: as above.
        let options = unsafe { read_options(options) }?;
        if ticket.is_null() {
            return Err(Trouble::new(libc::EFAULT, "there is no place for the ticket"));
        }
        let given = u64::from(open.client.send_async(topic, body, &options)?);
        open.tickets.fetch_max(given, Ordering::Relaxed);
        // SAFETY: as above; it is not null.
        unsafe { ticket.write(given) };
        Ok(0)
    })
}

/// Waits until a message is on the disk.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_wait(handle: *mut c_void, ticket: u64, timeout_ms: c_long) -> c_int {
    attempt(|| {
        let open = open(handle)?;
        if ticket > open.tickets.load(Ordering::Relaxed) {
            return Err(wrong("this client gave no such ticket"));
        }
        open.client.wait(Ticket::from(ticket), deadline(timeout_ms))?;
        Ok(0)
    })
}

/// Writes how many messages, and parts of such, nobody has yet said to have.
///
/// # Safety
/// `pending` must be null or good for writing a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_pending(handle: *mut c_void, pending: *mut u64) -> c_int {
    attempt(|| {
        let open = open(handle)?;
        if pending.is_null() {
            return Err(Trouble::new(libc::EFAULT, "there is no place for the number"));
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { pending.write(open.client.pending()) };
        Ok(0)
    })
}

type PendingFn =
    unsafe extern "C" fn(receiver: *const c_char, topic: *const c_char, messages: u64, argument: *mut c_void);

/// Calls a function with each receiver and topic, and how many messages, and parts of such, wait for it. Returns how
/// many those are.
///
/// # Safety
/// `each` must be null or a function that may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_pending_by_peer(
    handle: *mut c_void,
    each: Option<PendingFn>,
    argument: *mut c_void,
) -> c_int {
    attempt(|| {
        let open = open(handle)?;
        let each = each.ok_or_else(|| Trouble::new(libc::EFAULT, "the function is NULL"))?;
        let pending = open.client.pending_by_peer();
        for Pending { receiver, topic, messages } in &pending {
            let (receiver, topic) = (receiver.as_deref().map(c_text), c_text(topic));
            let receiver = receiver.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
            // SAFETY: the caller's promise.
            unsafe { each(receiver, topic.as_ptr(), *messages, argument) };
        }
        Ok(c_int::try_from(pending.len()).unwrap_or(c_int::MAX))
    })
}

/// Forgets what waits on a topic: it is not sent any more. Writes how many messages, and parts of such, that were,
/// where `cleared` is not null.
///
/// # Safety
/// `topic` must be null or a C string, `cleared` null or good for writing a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_clear_pending(
    handle: *mut c_void,
    topic: *const c_char,
    cleared: *mut u64,
) -> c_int {
    attempt(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let number = open.client.clear_pending(unsafe { string(topic, "the topic") }?)?;
        if !cleared.is_null() {
            // SAFETY: as above.
            unsafe { cleared.write(number) };
        }
        Ok(0)
    })
}

/// Waits until so many, or fewer, are pending.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_wait_pending(handle: *mut c_void, most: u64, timeout_ms: c_long) -> c_int {
    attempt(|| {
        let open = open(handle)?;
        open.client.wait_pending(most, deadline(timeout_ms))?;
        Ok(0)
    })
}
