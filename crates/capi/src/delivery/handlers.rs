//! Handlers: C functions called with each message, and with errors that no call can return.

use std::ffi::{c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::current;
use std::time::Instant;

use parking_lot::Mutex;
use pinnace_delivery::{Delivery, Error as DeliveryError};
use pinnace_sys::sleep::Uncancelled;
use pinnace_sys::thread;

use super::call_error::{CallError, caught, delivery_call};
use super::receive::{publish, set_handler, take_back};
use super::{HANDLERS, Open, open};

type HandlerFn = unsafe extern "C" fn(delivery: *mut c_void, argument: *mut c_void) -> c_int;
type ReporterFn = unsafe extern "C" fn(error: c_int, text: *const c_char, argument: *mut c_void);

/// Return values of a handler: one of these, with or without STOP.
const ACK: c_int = 0;
const NACK: c_int = 2;
const TERMINATE: c_int = 3;
/// The handler keeps the delivery and settles it later.
const KEEP: c_int = 4;
const STOP: c_int = 16;

/// A handler of messages.
struct Handler {
    call: HandlerFn,
    argument: *mut c_void,
}

// SAFETY: the argument is only passed back to the handler. The C caller promises that the handler may run on another
// thread.
unsafe impl Send for Handler {}

/// A handler of errors.
#[derive(Clone, Copy)]
pub(super) struct Reporter {
    call: ReporterFn,
    argument: *mut c_void,
}

// SAFETY: as for Handler.
unsafe impl Send for Reporter {}

/// Counts the handlers active on this thread. Cancellation is disabled in them: the Rust frames that call them have
/// destructors.
struct Inside {
    _uncancelled: Uncancelled,
}

impl Inside {
    fn enter() -> Inside {
        HANDLERS.set(HANDLERS.get() + 1);
        Inside { _uncancelled: Uncancelled::begin() }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        HANDLERS.set(HANDLERS.get() - 1);
    }
}

impl Handler {
    fn new(call: Option<HandlerFn>, argument: *mut c_void) -> Result<Handler, CallError> {
        let call = call.ok_or_else(|| CallError::new(libc::EFAULT, "the handler is NULL"))?;
        Ok(Handler { call, argument })
    }

    /// Handles messages, one after the other, until the handler returns STOP or the client is closed.
    fn run(&self, open: &Arc<Open>) -> Result<(), DeliveryError> {
        let own = Some(current().id());
        while self.handle(open.client().recv_for(own, None)?, open).is_continue() {}
        Ok(())
    }

    /// As `run`, on a thread of the library. While it handles messages, it uses the signal mask of the thread that
    /// started the client.
    fn listen(&self, open: &Arc<Open>) -> Result<(), DeliveryError> {
        let (no_wait, own) = (Some(Instant::now()), Some(current().id()));
        loop {
            let first = open.client().recv_for(own, None)?;
            // Set the mask once per batch of available messages: two system calls per message would halve the rate.
            let flow = open.signals.during(|| {
                let mut next = Ok(first);
                while let Ok(delivery) = next {
                    self.handle(delivery, open)?;
                    next = open.client().recv_for(own, no_wait);
                }
                ControlFlow::Continue(())
            });
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// Handles one message. Break: the handler returned STOP.
    fn handle(&self, delivery: Delivery, open: &Arc<Open>) -> ControlFlow<()> {
        let delivery = publish(delivery, open);
        let inside = Inside::enter();
        // SAFETY: the promise made when the handler was registered.
        let said = unsafe { (self.call)(delivery, self.argument) };
        drop(inside);
        // None: the handler has settled the delivery itself.
        if said & !STOP == KEEP {
            set_handler(delivery, None);
        } else if let Some(delivery) = take_back(delivery) {
            settle(delivery, said & !STOP);
        }
        if said >= 0 && said & STOP != 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn settle(delivery: Delivery, said: c_int) {
    match said {
        ACK => delivery.ack(),
        NACK => delivery.nack(None),
        TERMINATE => delivery.terminate(),
        // Dropping the delivery fails it.
        _ => {}
    }
}

/// A client's error handler, if set.
pub(super) type Reporting = Arc<Mutex<Option<Reporter>>>;

pub(super) fn report(to: &Reporting, error: &CallError) {
    let Some(reporter) = *to.lock() else { return };
    let text = error.text();
    let _inside = Inside::enter();
    // SAFETY: the promise made when the handler was registered.
    unsafe { (reporter.call)(error.number, text.as_ptr(), reporter.argument) };
}

/// Handles messages on this thread, one after the other, until the handler returns PINNACE_STOP.
///
/// # Safety
/// `handler` must be null or a function that can be called with a delivery and `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_run(
    handle: *mut c_void,
    handler: Option<HandlerFn>,
    argument: *mut c_void,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        Handler::new(handler, argument)?.run(&open)?;
        Ok(0)
    })
}

/// Handles messages on a thread of their own, until the handler returns PINNACE_STOP or the client is closed.
///
/// # Safety
/// `handler` must be null or a function that can be called with a delivery and `argument`, on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_listen(
    handle: *mut c_void,
    handler: Option<HandlerFn>,
    argument: *mut c_void,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        let handler = Handler::new(handler, argument)?;
        let listen = move || {
            let report = |error: &CallError| open.signals.during(|| report(&open.reporter, error));
            match caught(|| Ok(handler.listen(&open))) {
                Ok(Ok(()) | Err(DeliveryError::Closed)) => {}
                Ok(Err(error)) => report(&error.into()),
                Err(error) => report(&error),
            }
        };
        thread::start("pinnace handler", listen)
            .map_err(|error| CallError::new(error.raw_os_error().unwrap_or(libc::EAGAIN), error))?;
        Ok(0)
    })
}

/// For bindings that call handlers themselves: a handler on this thread has the delivery.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_handler_enter(delivery: *mut c_void) -> c_int {
    HANDLERS.set(HANDLERS.get() + 1);
    set_handler(delivery, Some(current().id()));
    0
}

/// The handler of `pinnace_handler_enter` has returned. The delivery may be settled.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_handler_leave(delivery: *mut c_void) -> c_int {
    HANDLERS.set(HANDLERS.get().saturating_sub(1));
    set_handler(delivery, None);
    0
}

/// Sets the function called with errors that no call can return; NULL removes it.
///
/// # Safety
/// `reporter` must be null or a function that can be called with a number, a C string and `argument`, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_on_error(
    handle: *mut c_void,
    reporter: Option<ReporterFn>,
    argument: *mut c_void,
) -> c_int {
    delivery_call(|| {
        let open = open(handle)?;
        *open.reporter.lock() = reporter.map(|call| Reporter { call, argument });
        Ok(0)
    })
}
