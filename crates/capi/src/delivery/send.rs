//! Sending, and waits for the disk and for acknowledgements.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::Ordering;
use std::time::Duration;

use pinnace_delivery::{Durability, Options, Pending, Ticket};

use super::call_error::{CallError, delivery_call};
use super::options::string;
use super::properties::{HeaderEntry, read_headers};
use super::{c_text, open};
use crate::arguments::bytes;
use crate::pinnace::deadline;

const SYNC: c_int = 0;
const INTERVAL: c_int = 1;
const MEMORY: c_int = 2;

/// pinnace_send_options_t. Later versions append members, with 0 as their default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendOptions {
    size: usize,
    timeout_ms: i64,
    ttl_ms: i64,
    all: c_int,
    durability: c_int,
    id: *const c_char,
    content_type: *const c_char,
    traceparent: *const c_char,
    tracestate: *const c_char,
    headers: *const HeaderEntry,
    header_count: usize,
    ordering_key: *const c_char,
}

/// The size of the first version, up to `durability`.
const FIRST_SIZE: usize = std::mem::offset_of!(SendOptions, id);

/// Upper bound for the size of any version.
const SIZE_MAX: usize = 4096;

fn invalid(text: impl std::fmt::Display) -> CallError {
    CallError::new(libc::EINVAL, text)
}

/// The options of a message, whose headers are in a list of their own.
#[derive(Default)]
pub(super) struct GivenOptions<'a> {
    options: Options<'a>,
    headers: Vec<(&'a str, &'a [u8])>,
}

impl GivenOptions<'_> {
    pub(super) fn options(&self) -> Options<'_> {
        Options { headers: &self.headers, ..self.options }
    }
}

/// A text that may be absent.
///
/// # Safety
/// `from` must be null or a C string that lives as long as the result is used.
unsafe fn optional<'a>(from: *const c_char, what: &str) -> Result<Option<&'a str>, CallError> {
    // SAFETY: the caller's promise.
    if from.is_null() { Ok(None) } else { unsafe { string(from, what) }.map(Some) }
}

/// Null: the defaults, as for `pinnace_client_send_to`.
///
/// # Safety
/// `from` must be null, or point to a size and be valid for reads of that many bytes; what its members point to must
/// live as long as the result is used.
pub(super) unsafe fn read_options<'a>(from: *const SendOptions) -> Result<GivenOptions<'a>, CallError> {
    if from.is_null() {
        return Ok(GivenOptions::default());
    }
    // SAFETY: the caller's promise.
    let size = unsafe { from.cast::<usize>().read() };
    // The members of later versions than the first are of one word each.
    let is_of_members = size >= size_of::<SendOptions>() || size.is_multiple_of(size_of::<usize>());
    if !(FIRST_SIZE..=SIZE_MAX).contains(&size) || !is_of_members {
        return Err(invalid(format_args!(
            "invalid size of the send options: {size}; set it to the size of the structure"
        )));
    }
    // SAFETY: as above.
    let given = unsafe { bytes(from.cast(), size) }?;
    let (known, beyond) = given.split_at(size.min(size_of::<SendOptions>()));
    if beyond.iter().any(|byte| *byte != 0) {
        return Err(CallError::new(
            libc::E2BIG,
            "the send options set a member that this version does not have",
        ));
    }
    // Members that the caller's version does not have are 0.
    let mut given = std::mem::MaybeUninit::<SendOptions>::zeroed();
    // SAFETY: `known` has at most the bytes of the options, for which zeros are valid.
    let given = unsafe {
        std::ptr::copy_nonoverlapping(known.as_ptr(), given.as_mut_ptr().cast::<u8>(), known.len());
        given.assume_init()
    };
    let durability = match given.durability {
        SYNC => Durability::Sync,
        INTERVAL => Durability::Interval,
        MEMORY => Durability::Memory,
        other => return Err(invalid(format_args!("unknown durability {other}"))),
    };
    let ttl = match u32::try_from(given.ttl_ms) {
        Ok(0) => None,
        Ok(ms) => Some(Duration::from_millis(ms.into())),
        Err(_) => {
            return Err(invalid(format_args!("ttl_ms must be 0 to {}, not {}", u32::MAX, given.ttl_ms)));
        }
    };
    // SAFETY: the caller's promise.
    let (id, content_type, traceparent, tracestate, ordering_key, headers) = unsafe {
        (
            optional(given.id, "the id")?,
            optional(given.content_type, "the content type")?,
            optional(given.traceparent, "traceparent")?,
            optional(given.tracestate, "tracestate")?,
            optional(given.ordering_key, "the ordering key")?,
            read_headers(given.headers, given.header_count)?,
        )
    };
    let (all, deadline) = (given.all != 0, deadline(given.timeout_ms));
    let without_headers = Options {
        all,
        durability,
        ttl,
        deadline,
        id,
        content_type,
        traceparent,
        tracestate,
        ordering_key,
        headers: &[],
    };
    Ok(GivenOptions { options: without_headers, headers })
}

/// Sends a message with options. Returns the number of receivers if it is sent to all, else 0.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or valid for reads of `size` bytes.
unsafe fn send(
    handle: *mut c_void,
    topic: *const c_char,
    (data, size): (*const c_void, usize),
    given: Result<GivenOptions<'_>, CallError>,
) -> Result<c_int, CallError> {
    let open = open(handle)?;
    // SAFETY: the caller's promise.
    let (topic, body) = unsafe { (string(topic, "the topic")?, body(data, size)?) };
    let given = given?;
    let options = given.options();
    let ticket = open.client().send_and_wait(topic, body, &options)?;
    Ok(receivers(&options, &ticket))
}

/// The number of receivers of a message to all; 0 for a message to one.
fn receivers(options: &Options<'_>, ticket: &Ticket) -> c_int {
    if options.all { c_int::try_from(ticket.receivers()).unwrap_or(c_int::MAX) } else { 0 }
}

/// # Safety
/// `data` must be null or valid for reads of `size` bytes, for as long as the result is used.
pub(super) unsafe fn body<'a>(data: *const c_void, size: usize) -> Result<&'a [u8], CallError> {
    // SAFETY: the caller's promise.
    unsafe { bytes(data, size) }
        .map_err(|error| CallError::new(error.errno(), "the body is NULL or too large"))
}

/// Sends to one of the clients that listen on a topic. Returns 0 once the message is on this machine's disk
/// and will be delivered.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or valid for reads of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send_to(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    delivery_call(|| unsafe { send(handle, topic, (data, size), Ok(GivenOptions::default())) })
}

/// Sends to every client that listens on a topic. Returns the number of receivers.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or valid for reads of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send_all(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
) -> c_int {
    let options = Options { all: true, ..Options::default() };
    // SAFETY: the caller's promise.
    delivery_call(|| unsafe {
        send(handle, topic, (data, size), Ok(GivenOptions { options, headers: Vec::new() }))
    })
}

/// Sends with options; NULL: as `pinnace_client_send_to`.
///
/// # Safety
/// `topic` must be null or a C string, `data` null or valid for reads of `size` bytes, `options` null or point to as
/// many bytes as its first member specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
    options: *const SendOptions,
) -> c_int {
    // SAFETY: the caller's promise.
    delivery_call(|| unsafe { send(handle, topic, (data, size), read_options(options)) })
}

/// As `pinnace_client_send`, but does not wait for the disk. Writes a ticket for `pinnace_client_wait` to `ticket`.
///
/// # Safety
/// As `pinnace_client_send`, and `ticket` must be null or valid for writes of a u64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_send_async(
    handle: *mut c_void,
    topic: *const c_char,
    data: *const c_void,
    size: usize,
    options: *const SendOptions,
    ticket: *mut u64,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let (topic, body) = unsafe { (string(topic, "the topic")?, body(data, size)?) };
        // SAFETY: as above.
        let given = unsafe { read_options(options) }?;
        let options = given.options();
        if ticket.is_null() {
            return Err(CallError::new(libc::EFAULT, "the ticket pointer is NULL"));
        }
        let sent = open.client().send_async(topic, body, &options)?;
        let given = u64::from(sent);
        open.tickets.fetch_max(given, Ordering::Relaxed);
        // SAFETY: as above; it is not null.
        unsafe { ticket.write(given) };
        Ok(receivers(&options, &sent))
    })
}

/// Waits until a message is on the disk.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_wait(handle: *mut c_void, ticket: u64, timeout_ms: c_long) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        if ticket > open.tickets.load(Ordering::Relaxed) {
            return Err(invalid("unknown ticket: this client did not issue it"));
        }
        open.client().wait(Ticket::from(ticket), deadline(timeout_ms))?;
        Ok(0)
    })
}

/// Writes how many messages no receiver has acknowledged yet.
///
/// # Safety
/// `pending` must be null or valid for writes of a u64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_pending(handle: *mut c_void, pending: *mut u64) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        if pending.is_null() {
            return Err(CallError::new(libc::EFAULT, "the pointer for the number is NULL"));
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { pending.write(open.client().pending()) };
        Ok(0)
    })
}

type PendingFn =
    unsafe extern "C" fn(receiver: *const c_char, topic: *const c_char, messages: u64, argument: *mut c_void);

/// Calls `each` with every receiver and topic that has pending messages, and the number of its pending messages and
/// parts. Returns the number of calls.
///
/// # Safety
/// `each` must be null or a function that may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_pending_by_peer(
    handle: *mut c_void,
    each: Option<PendingFn>,
    argument: *mut c_void,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        let each = each.ok_or_else(|| CallError::new(libc::EFAULT, "the function is NULL"))?;
        let pending = open.client().pending_by_peer();
        for Pending { receiver, topic, messages, .. } in &pending {
            let (receiver, topic) = (receiver.as_deref().map(c_text), c_text(topic));
            let receiver = receiver.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
            // SAFETY: the caller's promise.
            unsafe { each(receiver, topic.as_ptr(), *messages, argument) };
        }
        Ok(c_int::try_from(pending.len()).unwrap_or(c_int::MAX))
    })
}

/// Discards the pending messages of a topic. Writes how many messages it discarded to `cleared`, unless it
/// is null.
///
/// # Safety
/// `topic` must be null or a C string, `cleared` null or valid for writes of a u64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_clear_pending(
    handle: *mut c_void,
    topic: *const c_char,
    cleared: *mut u64,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        // SAFETY: the caller's promise.
        let number = open.client().clear_pending(unsafe { string(topic, "the topic") }?)?;
        if !cleared.is_null() {
            // SAFETY: as above.
            unsafe { cleared.write(number) };
        }
        Ok(0)
    })
}

/// Waits until at most `most` messages are pending.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_wait_pending(handle: *mut c_void, most: u64, timeout_ms: c_long) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        open.client().wait_pending(most, deadline(timeout_ms))?;
        Ok(0)
    })
}
