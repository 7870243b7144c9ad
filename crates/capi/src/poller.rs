//! Poll sets for repeated waits: zmq_poller(3).

use std::collections::HashMap;
use std::ffi::{c_int, c_long, c_short, c_void};
use std::ptr;

use parking_lot::Mutex;
use pinnace_engine::pending_sleep::Turn;
use pinnace_engine::{Error, Invalid, PollTarget, Poller, PollerEvent, Socket};

use crate::arguments::int_size;
use crate::guard::{guard, guard_waiting};
use crate::handle;
use crate::poll::limit;
use crate::registry::Registry;

/// zmq_poller_event_t.
#[repr(C)]
pub struct Event {
    socket: *mut c_void,
    fd: c_int,
    user_data: *mut c_void,
    events: c_short,
}

const _: () = assert!(size_of::<Event>() == 32);

/// No descriptor.
const NONE: c_int = -1;

/// The pointers that the caller registered, returned with each event.
#[derive(Clone, Copy)]
struct Given {
    socket: *mut c_void,
    user_data: *mut c_void,
}

// SAFETY: the pointers are only handed back, never dereferenced.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

struct PollerHandle {
    poller: Poller<Given>,
    /// The sockets by pointer: a closed socket must still be found, to be removed.
    sockets: Mutex<HashMap<usize, Socket>>,
}

static POLLERS: Registry<PollerHandle> = Registry::new();

impl PollerHandle {
    fn registered(&self, socket: *mut c_void) -> Result<PollTarget, Error> {
        match self.sockets.lock().get(&socket.addr()) {
            Some(&registered) => Ok(PollTarget::Socket(registered)),
            None => handle::socket(socket)?.is_open().and(Err(Error::Invalid(Invalid::NotRegistered))),
        }
    }

    /// Waits, and writes ready items to the start of `events`; returns their number.
    fn wait(&self, events: &mut [Event], timeout: c_long, turn: Turn) -> Result<usize, Error> {
        let ready = self.poller.wait(events.len(), limit(timeout), Some(turn))?;
        for (event, ready) in events.iter_mut().zip(&ready) {
            event.write(ready);
        }
        Ok(ready.len())
    }
}

impl Event {
    fn write(&mut self, ready: &PollerEvent<Given>) {
        let Given { socket, user_data } = ready.data;
        self.fd = match ready.what {
            PollTarget::Fd(fd) => fd,
            PollTarget::Socket(_) => NONE,
        };
        (self.socket, self.user_data, self.events) = (socket, user_data, ready.events);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_new() -> *mut c_void {
    guard(|| Ok(POLLERS.insert(PollerHandle { poller: Poller::new()?, sockets: Mutex::default() })))
}

/// Destroys the poller and sets the caller's pointer to NULL. Calls that wait in it return EFAULT.
///
/// # Safety
/// `poller` must be null or valid for reads and writes of a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_poller_destroy(poller: *mut *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { poller.as_mut() }.ok_or(Error::Fault)?;
        POLLERS.remove(*handle)?.poller.end();
        *handle = ptr::null_mut();
        Ok(0)
    })
}

/// The number of registered sockets and descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_size(poller: *mut c_void) -> c_int {
    guard(|| Ok(int_size(POLLERS.get(poller)?.poller.len())))
}

/// Registers a socket. EINVAL if it is registered already.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_add(
    poller: *mut c_void,
    socket: *mut c_void,
    user_data: *mut c_void,
    events: c_short,
) -> c_int {
    guard(|| {
        let held = POLLERS.get(poller)?;
        let own = handle::socket(socket)?;
        held.poller.add(PollTarget::Socket(own), events, Given { socket, user_data })?;
        held.sockets.lock().insert(socket.addr(), own);
        Ok(0)
    })
}

/// Changes the events that the poller waits for on a socket. EINVAL if it is not registered.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_modify(poller: *mut c_void, socket: *mut c_void, events: c_short) -> c_int {
    guard(|| {
        let held = POLLERS.get(poller)?;
        held.poller.modify(held.registered(socket)?, events).map(|()| 0)
    })
}

/// Removes a socket, even a closed one. EINVAL if it is not registered.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_remove(poller: *mut c_void, socket: *mut c_void) -> c_int {
    guard(|| {
        let held = POLLERS.get(poller)?;
        held.poller.remove(held.registered(socket)?)?;
        held.sockets.lock().remove(&socket.addr());
        Ok(0)
    })
}

/// Registers a descriptor. EINVAL if it is registered already.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_add_fd(
    poller: *mut c_void,
    fd: c_int,
    user_data: *mut c_void,
    events: c_short,
) -> c_int {
    guard(|| {
        let held = POLLERS.get(poller)?;
        held.poller.add(descriptor(fd)?, events, Given { socket: ptr::null_mut(), user_data }).map(|()| 0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_modify_fd(poller: *mut c_void, fd: c_int, events: c_short) -> c_int {
    guard(|| POLLERS.get(poller)?.poller.modify(descriptor(fd)?, events).map(|()| 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_poller_remove_fd(poller: *mut c_void, fd: c_int) -> c_int {
    guard(|| POLLERS.get(poller)?.poller.remove(descriptor(fd)?).map(|()| 0))
}

fn descriptor(fd: c_int) -> Result<PollTarget, Error> {
    if fd < 0 { Err(Error::System(libc::EBADF)) } else { Ok(PollTarget::Fd(fd)) }
}

/// Waits up to `timeout` milliseconds (-1: no limit) for an event, else fails with EAGAIN. Returns 0.
///
/// # Safety
/// `event` must be null or valid for writes of an event.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_poller_wait(
    poller: *mut c_void,
    event: *mut Event,
    timeout: c_long,
) -> c_int {
    let outcome = guard_waiting(move |turn| {
        let held = POLLERS.get(poller)?;
        // SAFETY: the caller's promise.
        let event = unsafe { event.as_mut() }.ok_or(Error::Fault)?;
        held.wait(std::slice::from_mut(event), timeout, turn).map(|_| 0)
    });
    // SAFETY: the caller's promise.
    if let (-1, Some(event)) = (outcome, unsafe { event.as_mut() }) {
        *event = Event { socket: ptr::null_mut(), fd: NONE, user_data: ptr::null_mut(), events: 0 };
    }
    outcome
}

/// As `zmq_poller_wait`, for at most `count` events at once; returns the number of events.
///
/// # Safety
/// `events` must be null or valid for writes of `count` events.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_poller_wait_all(
    poller: *mut c_void,
    events: *mut Event,
    count: c_int,
    timeout: c_long,
) -> c_int {
    guard_waiting(move |turn| {
        let held = POLLERS.get(poller)?;
        if events.is_null() {
            return Err(Error::Fault);
        }
        let count = usize::try_from(count).map_err(|_| Error::Invalid(Invalid::Count))?;
        // SAFETY: the caller's promise.
        let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
        held.wait(events, timeout, turn).map(int_size)
    })
}

/// A descriptor that is readable while there may be an event. EINVAL if no thread-safe socket is registered.
///
/// # Safety
/// `fd` must be null or valid for writes of a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_poller_fd(poller: *mut c_void, fd: *mut c_int) -> c_int {
    guard(|| {
        let descriptor = POLLERS.get(poller)?.poller.descriptor()?;
        // SAFETY: the caller's promise.
        *unsafe { fd.as_mut() }.ok_or(Error::Fault)? = descriptor;
        Ok(0)
    })
}
