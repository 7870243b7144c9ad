//! Consuming and producing in one step: an acknowledgement together with messages.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use pinnace_delivery::{Delivery, NewMessage, NotAcked};

use super::call_error::{CallError, delivery_call};
use super::options::string;
use super::send::{GivenOptions, SendOptions, body, read_options};
use super::{Open, open, receive};

/// pinnace_message_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MessageEntry {
    pub(super) topic: *const c_char,
    pub(super) data: *const c_void,
    pub(super) size: usize,
    pub(super) options: *const SendOptions,
}

/// A message whose options have a list of headers of their own.
struct GivenMessage<'a> {
    topic: &'a str,
    body: &'a [u8],
    options: GivenOptions<'a>,
}

impl GivenMessage<'_> {
    fn message(&self) -> NewMessage<'_> {
        NewMessage { topic: self.topic, body: self.body, options: self.options.options() }
    }
}

/// # Safety
/// `from` must be null or point to `count` messages with a topic that is null or a C string, data that are null or
/// valid for reads of their size, and options as in `read_options`, for as long as the result is used.
unsafe fn read_messages<'a>(
    from: *const MessageEntry,
    count: usize,
) -> Result<Vec<GivenMessage<'a>>, CallError> {
    if from.is_null() && count > 0 {
        return Err(CallError::new(libc::EFAULT, "the messages are NULL"));
    }
    let mut messages = Vec::new();
    for at in 0..count {
        // SAFETY: the caller's promise.
        let MessageEntry { topic, data, size, options } = unsafe { *from.add(at) };
        // SAFETY: as above.
        let (topic, body, options) =
            unsafe { (string(topic, "the topic")?, body(data, size)?, read_options(options)?) };
        messages.push(GivenMessage { topic, body, options });
    }
    Ok(messages)
}

/// Acknowledges a delivery together with messages. It stays the caller's unless this is accepted.
///
/// # Safety
/// As `read_messages`.
unsafe fn ack_and_send<R>(
    client: *mut c_void,
    delivery: *mut c_void,
    (messages, count): (*const MessageEntry, usize),
    call: impl FnOnce(&Open, Delivery, &[NewMessage<'_>]) -> Result<R, NotAcked>,
) -> Result<R, CallError> {
    let open = open(client)?;
    // SAFETY: the caller's promise.
    let given = unsafe { read_messages(messages, count) }?;
    let messages: Vec<NewMessage<'_>> = given.iter().map(GivenMessage::message).collect();
    let (held, taken) = receive::borrow(delivery)?;
    match call(&open, taken, &messages) {
        Ok(done) => {
            receive::forget(delivery);
            Ok(done)
        }
        Err(NotAcked { delivery: Some(back), error }) => {
            held.put_back(*back);
            Err(error.into())
        }
        Err(NotAcked { delivery: None, error }) => {
            receive::forget(delivery);
            let words = format!("all of it is accepted, and not known to be on the disk: {error}");
            Err(CallError::new(libc::EINPROGRESS, words))
        }
    }
}

/// Acknowledges a delivery and sends messages in one step: a crash leaves all of it or nothing.
///
/// # Safety
/// `messages` must be null or point to `count` messages, whose pointers are null or valid for what they stand for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_ack_and_send(
    client: *mut c_void,
    delivery: *mut c_void,
    messages: *const MessageEntry,
    count: usize,
) -> c_int {
    let call = |open: &Open, taken, list: &[NewMessage<'_>]| open.client().ack_and_send(taken, list);
    // SAFETY: the caller's promise.
    delivery_call(|| unsafe { ack_and_send(client, delivery, (messages, count), call) }.map(|()| 0))
}

/// As `pinnace_client_ack_and_send`, but does not wait for the disk. Writes a ticket for `pinnace_client_wait` to
/// `ticket`.
///
/// # Safety
/// As `pinnace_client_ack_and_send`, and `ticket` must be null or valid for writes of a u64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_ack_and_send_async(
    client: *mut c_void,
    delivery: *mut c_void,
    messages: *const MessageEntry,
    count: usize,
    ticket: *mut u64,
) -> c_int {
    delivery_call(|| {
        if ticket.is_null() {
            return Err(CallError::new(libc::EFAULT, "the ticket pointer is NULL"));
        }
        let call = |open: &Open, taken, list: &[NewMessage<'_>]| {
            let number = u64::from(open.client().ack_and_send_async(taken, list)?);
            open.tickets.fetch_max(number, Ordering::Relaxed);
            Ok(number)
        };
        // SAFETY: the caller's promise.
        let number = unsafe { ack_and_send(client, delivery, (messages, count), call) }?;
        // SAFETY: as above; it is not null.
        unsafe { ticket.write(number) };
        Ok(0)
    })
}
