//! Receiving. A delivery belongs to C until it is settled.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use parking_lot::Mutex;
use pinnace_delivery::{CURSOR_SCHEMA, Dead, Delivery, Error as DeliveryError, Verdict};
use pinnace_sys::fork;

use super::call_error::{CallError, delivery_call};
use super::properties::Texts;
use super::{Open, c_text, open};
use crate::guard::Returned;
use crate::pinnace::{deadline, timeout};
use crate::registry::Registry;

static DELIVERIES: Registry<Held> = Registry::new();

/// A delivery held by C.
pub(super) struct Held {
    /// None while another thread is settling it.
    delivery: Mutex<Option<Delivery>>,
    /// The fork generation of the process that received it.
    fork: u32,
    from: OnceLock<CString>,
    topic: OnceLock<CString>,
    dead: OnceLock<(CString, CString)>,
    pub(super) texts: Texts,
}

/// pinnace_cursor_t.
#[repr(C)]
pub struct Cursor {
    sender: [c_char; SENDER_TEXT],
    stream: u64,
    number: u64,
    settled: u64,
}

/// 32 hexadecimal digits and a NUL.
const SENDER_TEXT: usize = 33;

/// Passes a delivery to C.
pub(super) fn publish(delivery: Delivery, of: &Arc<Open>) -> *mut c_void {
    DELIVERIES.insert(Held {
        delivery: Mutex::new(Some(delivery)),
        fork: of.fork,
        from: OnceLock::new(),
        topic: OnceLock::new(),
        dead: OnceLock::new(),
        texts: Texts::default(),
    })
}

fn none() -> CallError {
    CallError::new(libc::EFAULT, "not a delivery, or it is already settled")
}

/// Takes a delivery back to settle it. None: its client was closed and started again, and the message will be
/// redelivered.
fn take(handle: *mut c_void) -> Result<Option<Delivery>, CallError> {
    let held = DELIVERIES.remove(handle).map_err(|_| none())?;
    let delivery = held.delivery.lock().take().ok_or_else(none)?;
    if held.fork != fork::generation() {
        // The delivery belongs to the parent process, which settles it.
        std::mem::forget(delivery);
        return Err(none());
    }
    Ok(Some(delivery).filter(|delivery| !delivery.is_void()))
}

impl Held {
    /// Puts a borrowed delivery back.
    pub(super) fn put_back(&self, delivery: Delivery) {
        *self.delivery.lock() = Some(delivery);
    }
}

/// Takes a delivery out of its handle, which stays valid until `forget`, or for after `Held::put_back`.
pub(super) fn borrow(handle: *mut c_void) -> Result<(Arc<Held>, Delivery), CallError> {
    let held = DELIVERIES.get(handle).map_err(|_| none())?;
    if held.fork != fork::generation() {
        return Err(none());
    }
    let delivery = held.delivery.lock().take().ok_or_else(none)?;
    Ok((held, delivery))
}

/// Ends the handle of a delivery that is settled. It may have ended in a concurrent call.
pub(super) fn forget(handle: *mut c_void) {
    drop(DELIVERIES.remove(handle));
}

/// As `take`, for a delivery that a handler may have settled.
pub(super) fn take_back(handle: *mut c_void) -> Option<Delivery> {
    take(handle).ok().flatten()
}

/// Sets the thread whose handler has a delivery; no effect on one that is settled.
pub(super) fn set_handler(handle: *mut c_void, handler: Option<ThreadId>) {
    let Ok(held) = DELIVERIES.get(handle) else { return };
    // In a forked child, the parent may have held the lock of its client.
    if held.fork == fork::generation()
        && let Some(delivery) = &mut *held.delivery.lock()
    {
        delivery.set_handler(handler);
    }
}

fn settle(handle: *mut c_void, how: impl FnOnce(Delivery)) -> c_int {
    delivery_call(|| {
        how(take(handle)?.ok_or(DeliveryError::Closed)?);
        Ok(0)
    })
}

pub(super) fn look<R: Returned>(
    handle: *mut c_void,
    see: impl FnOnce(&Held, &Delivery) -> Result<R, CallError>,
) -> R {
    delivery_call(|| {
        let held = DELIVERIES.get(handle).map_err(|_| none())?;
        let delivery = held.delivery.lock();
        see(&held, delivery.as_ref().ok_or_else(none)?)
    })
}

/// A C string that stays valid as long as `at`.
fn kept(at: &OnceLock<CString>, text: &str) -> *const c_char {
    at.get_or_init(|| c_text(text)).as_ptr()
}

/// Returns the next message; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_recv(handle: *mut c_void, timeout_ms: c_long) -> *mut c_void {
    delivery_call(|| {
        let open = open(handle)?;
        let delivery = open.client().recv(deadline(timeout_ms))?;
        Ok(publish(delivery, &open))
    })
}

/// The descriptor that is readable while a message may be ready; it belongs to the client.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_fd(handle: *mut c_void) -> c_int {
    delivery_call(|| Ok(open(handle)?.client().readiness()?.as_raw_fd()))
}

/// The address of the first byte of the body; never NULL for a valid delivery, even if the body is empty.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_body(handle: *mut c_void) -> *const c_void {
    look(handle, |_, delivery| Ok(delivery.body().as_ptr().cast()))
}

/// The size of the body in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_size(handle: *mut c_void) -> usize {
    look(handle, |_, delivery| Ok(delivery.body().len()))
}

/// The name of the sender.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_from(handle: *mut c_void) -> *const c_char {
    look(handle, |held, delivery| Ok(kept(&held.from, delivery.from())))
}

/// The topic that the message was sent to; for a dead letter, the topic of dead letters.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_topic(handle: *mut c_void) -> *const c_char {
    look(handle, |held, delivery| Ok(kept(&held.topic, delivery.topic())))
}

/// When the message was accepted, in milliseconds since 1970, by the sender's clock.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_accepted_ms(handle: *mut c_void) -> u64 {
    look(handle, |_, delivery| Ok(delivery.accepted_ms()))
}

/// How often the message was delivered since the client was started, this time included.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_deliveries(handle: *mut c_void) -> u64 {
    look(handle, |_, delivery| Ok(delivery.deliveries().into()))
}

/// Writes the identity of the message, to be stored together with its effect.
///
/// # Safety
/// `cursor` must be null or valid for writes of a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_delivery_cursor(handle: *mut c_void, cursor: *mut Cursor) -> c_int {
    look(handle, |_, delivery| {
        if cursor.is_null() {
            return Err(CallError::new(libc::EFAULT, "the cursor pointer is NULL"));
        }
        let found = delivery.cursor();
        let (mut sender, digits) = ([0; SENDER_TEXT], found.sender_text());
        sender.iter_mut().zip(digits.bytes()).for_each(|(to, digit)| *to = digit as c_char);
        let pinnace_delivery::Cursor { stream, number, settled, .. } = found;
        // SAFETY: not null, and the caller's promise.
        unsafe { cursor.write(Cursor { sender, stream, number, settled }) };
        Ok(0)
    })
}

/// The SQL schema of a table for cursors.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_cursor_schema() -> *const c_char {
    static SCHEMA: OnceLock<CString> = OnceLock::new();
    kept(&SCHEMA, CURSOR_SCHEMA)
}

/// Reads why the message is a dead letter; ENOENT if it is none.
fn look_dead<R: Returned>(handle: *mut c_void, see: impl FnOnce(&Held, &Dead) -> R) -> R {
    look(handle, |held, delivery| match delivery.dead() {
        Some(dead) => Ok(see(held, dead)),
        None => Err(CallError::new(libc::ENOENT, "the delivery is not a dead letter")),
    })
}

fn dead_texts<'a>(held: &'a Held, dead: &Dead) -> &'a (CString, CString) {
    held.dead.get_or_init(|| (c_text(&dead.topic), c_text(&dead.receiver)))
}

/// The topic that a dead letter was sent to originally; NULL if it is no dead letter.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_dead_topic(handle: *mut c_void) -> *const c_char {
    look_dead(handle, |held, dead| dead_texts(held, dead).0.as_ptr())
}

/// The name of the receiver that gave up on a dead letter; NULL if it is no dead letter.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_dead_receiver(handle: *mut c_void) -> *const c_char {
    look_dead(handle, |held, dead| dead_texts(held, dead).1.as_ptr())
}

/// How often a dead letter was delivered; 0 if it is no dead letter.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_dead_deliveries(handle: *mut c_void) -> u64 {
    look_dead(handle, |_, dead| dead.deliveries)
}

/// Why a dead letter was given up: PINNACE_TERMINATED and following; -1 if it is no dead letter.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_dead_reason(handle: *mut c_void) -> c_int {
    look_dead(handle, |_, dead| match dead.reason {
        Verdict::Terminated => 0,
        Verdict::Deliveries => 1,
        Verdict::TooLarge => 2,
        Verdict::Unreadable => 3,
        Verdict::Expired => 4,
    })
}

/// Reports that the message is still being handled: restarts its acknowledgement timeout, if there is one.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_in_progress(handle: *mut c_void) -> c_int {
    look(handle, |_, delivery| {
        delivery.in_progress();
        Ok(0)
    })
}

/// Acknowledges the message.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_ack(handle: *mut c_void) -> c_int {
    settle(handle, Delivery::ack)
}

/// Requests redelivery after `delay_ms` (below 0: after a growing delay). Other messages of its stream go first.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_nack(handle: *mut c_void, delay_ms: c_long) -> c_int {
    settle(handle, |delivery| delivery.nack(timeout(delay_ms)))
}

/// Returns the message unhandled: the delivery does not count.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_give_back(handle: *mut c_void) -> c_int {
    settle(handle, Delivery::give_back)
}

/// Gives up on the message: its sender keeps it as a dead letter.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_terminate(handle: *mut c_void) -> c_int {
    settle(handle, Delivery::terminate)
}

/// Fails the message: it is redelivered after a delay, before later messages of its stream.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_fail(handle: *mut c_void) -> c_int {
    settle(handle, drop)
}
