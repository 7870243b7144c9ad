//! Waits for several sockets and descriptors: zmq_poll(3), zmq_ppoll(3).

use std::ffi::{c_int, c_long, c_short, c_void};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use pinnace_engine::pending_sleep::Turn;
use pinnace_engine::{Error, Invalid, PollItem, PollSource, SignalMask, poll};
use smallvec::SmallVec;

use crate::guard::guard_waiting;
use crate::handle::socket;

/// zmq_pollitem_t.
#[repr(C)]
pub struct Item {
    socket: *mut c_void,
    fd: c_int,
    events: c_short,
    revents: c_short,
}

/// Up to this many items are polled without an allocation.
const FEW: usize = 16;

/// Waits up to `timeout` milliseconds (-1: no limit) until an item is ready. Returns the number of ready items.
///
/// # Safety
/// `items` must be null or point to `count` items.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_poll(items: *mut Item, count: c_int, timeout: c_long) -> c_int {
    // SAFETY: the caller's promise.
    guard_waiting(move |turn| unsafe { wait_for(items, count, timeout, None, turn) })
}

/// As `zmq_poll`, with `mask` as the signal mask during the wait; NULL leaves the mask unchanged.
///
/// # Safety
/// `items` must be null or point to `count` items, `mask` be null or point to a signal set.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_ppoll(
    items: *mut Item,
    count: c_int,
    timeout: c_long,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let mask = unsafe { mask.as_ref() }.map(SignalMask::new);
    // SAFETY: the caller's promise.
    guard_waiting(move |turn| unsafe { wait_for(items, count, timeout, mask, turn) })
}

/// # Safety
/// `items` must be null or point to `count` items.
unsafe fn wait_for(
    items: *mut Item,
    count: c_int,
    timeout: c_long,
    mask: Option<SignalMask>,
    turn: Turn,
) -> Result<c_int, Error> {
    let count = usize::try_from(count).map_err(|_| Error::Invalid(Invalid::Count))?;
    if count == 0 {
        return sleep(timeout, mask, turn);
    }
    if items.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: the caller's promise.
    let items = unsafe { std::slice::from_raw_parts_mut(items, count) };
    let mut asked: SmallVec<[PollItem<'_>; FEW]> = SmallVec::new();
    asked.try_reserve(count).map_err(|_| Error::NoMemory)?;
    for item in &mut *items {
        if let Some(source) = item.source()? {
            asked.push(PollItem { source, events: item.events, revents: 0 });
        }
        // Reset now, because programs read revents even after EINTR.
        item.revents = 0;
    }
    let ready = match asked.is_empty() {
        true => sleep(timeout, mask, turn)?,
        false => poll(&mut asked, limit(timeout), mask.as_ref(), Some(turn))? as c_int,
    };
    let mut answers = asked.iter();
    for item in items {
        let answer = if item.is_nothing() { None } else { answers.next() };
        item.revents = answer.map_or(0, |answer| answer.revents);
    }
    Ok(ready)
}

impl Item {
    /// Neither a socket nor a descriptor: skipped, as poll(2) does.
    fn is_nothing(&self) -> bool {
        self.socket.is_null() && self.fd < 0
    }

    fn source(&self) -> Result<Option<PollSource<'static>>, Error> {
        if self.is_nothing() {
            return Ok(None);
        }
        if !self.socket.is_null() {
            return socket(self.socket).map(|socket| Some(PollSource::Socket(socket)));
        }
        // SAFETY: not negative. Whether it is open is checked by the kernel, and it is used only to poll it.
        Ok(Some(PollSource::Fd(unsafe { BorrowedFd::borrow_raw(self.fd) })))
    }
}

/// Converts milliseconds; a negative value means no limit.
pub(crate) fn limit(timeout: c_long) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// Waits for the timeout or a signal only.
fn sleep(timeout: c_long, mask: Option<SignalMask>, turn: Turn) -> Result<c_int, Error> {
    poll(&mut [], limit(timeout), mask.as_ref(), Some(turn)).map(|_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
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
    fn descriptors_and_nothings_go_together() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let item = |fd| Item { socket: null_mut(), fd, events: 1, revents: 9 };
        let mut items = [item(-1), item(std::os::fd::AsRawFd::as_raw_fd(&reader)), item(-1)];
        let mut poll = |timeout| {
            // SAFETY: three items.
            let ready = unsafe { zmq_poll(items.as_mut_ptr(), 3, timeout) };
            (ready, items.each_ref().map(|item| item.revents))
        };
        assert_eq!(poll(10), (0, [0; 3]));
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        assert_eq!(poll(-1), (1, [0, 1, 0]));
        let mut nothing = [item(-1)];
        // SAFETY: one item.
        assert_eq!(unsafe { zmq_poll(nothing.as_mut_ptr(), 1, 1) }, 0);
        assert_eq!(nothing[0].revents, 0);
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
