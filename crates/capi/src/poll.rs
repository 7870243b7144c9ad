//! Waiting for several things: zmq_poll(3).

use std::ffi::{c_int, c_long, c_short, c_void};
use std::time::Duration;

use pinnace_engine::{Error, PollItem, Source, poll};
use smallvec::SmallVec;

use crate::error::errno;
use crate::guard::guard;
use crate::handle::socket;

/// zmq_pollitem_t.
#[repr(C)]
pub struct Item {
    socket: *mut c_void,
    fd: c_int,
    events: c_short,
    revents: c_short,
}

/// Items that are waited for without an allocation.
const FEW: usize = 16;

/// Waits until something asked for is there, or `timeout` milliseconds; -1 is for ever. Returns how many items have something.
///
/// # Safety
/// `items` must be null or point to `count` items.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_poll(items: *mut Item, count: c_int, timeout: c_long) -> c_int {
    guard(|| {
        let count = usize::try_from(count).map_err(|_| Error::Invalid)?;
        if count == 0 {
            return sleep(timeout);
        }
        if items.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: the caller's promise.
        let items = unsafe { std::slice::from_raw_parts_mut(items, count) };
        let mut asked: SmallVec<[PollItem; FEW]> = SmallVec::new();
        asked.try_reserve(count).map_err(|_| Error::NoMemory)?;
        for item in &mut *items {
            let source = match item.socket.is_null() {
                true => Source::Fd(item.fd),
                false => Source::Socket(socket(item.socket)?),
            };
            asked.push(PollItem { source, events: item.events, revents: 0 });
        }
        let ready = poll(&mut asked, limit(timeout))?;
        for (item, answer) in items.iter_mut().zip(&asked) {
            item.revents = answer.revents;
        }
        Ok(ready as c_int)
    })
}

fn limit(timeout: c_long) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// Waits for nothing but the time, or a signal.
fn sleep(timeout: c_long) -> Result<c_int, Error> {
    let timeout = timeout.clamp(-1, c_int::MAX.into()) as c_int;
    // SAFETY: no descriptors.
    match unsafe { libc::poll(std::ptr::null_mut(), 0, timeout) } {
        0 => Ok(0),
        _ => Err(Error::System(errno())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;
    use std::time::Instant;

    #[test]
    fn nothing_to_wait_for_is_a_sleep() {
        let start = Instant::now();
        // SAFETY: no items.
        assert_eq!(unsafe { zmq_poll(null_mut(), 0, 20) }, 0);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let mut item = Item { socket: 8 as *mut c_void, fd: 0, events: 1, revents: 0 };
        // SAFETY: no items, or one.
        unsafe {
            assert_eq!((zmq_poll(null_mut(), 1, 0), errno()), (-1, libc::EFAULT));
            assert_eq!((zmq_poll(&mut item, -1, 0), errno()), (-1, libc::EINVAL));
            assert_eq!((zmq_poll(&mut item, 1, 0), errno()), (-1, libc::ENOTSOCK));
        }
    }
}
