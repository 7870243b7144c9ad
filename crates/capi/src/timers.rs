//! Timers: zmq_timers(3).
//!
//! Timers fire in `zmq_timers_execute`, on the calling thread, with no lock held. A handler may change or cancel
//! timers, including its own, and may destroy them all.

use std::ffi::{c_int, c_long, c_void};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinnace_engine::{Error, Invalid};

use crate::guard::guard;
use crate::registry::Registry;

/// It may unwind, by thread cancellation or a C++ exception.
type TimerHandler = unsafe extern "C-unwind" fn(timer: c_int, argument: *mut c_void);

static TIMERS: Registry<Timers> = Registry::new();

struct Timers {
    start: Instant,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    last_id: c_int,
    last_round: u64,
    timers: Vec<Timer>,
}

#[derive(Clone, Copy)]
struct Timer {
    id: c_int,
    interval: Duration,
    /// Relative to `Timers::start`.
    due: Duration,
    /// The last round in which it fired.
    fired: u64,
    handler: TimerHandler,
    argument: *mut c_void,
}

// SAFETY: the argument is only passed back to the handler, by a thread on which C calls `zmq_timers_execute`.
unsafe impl Send for Timer {}

impl Timers {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Changes a timer and restarts its interval.
    fn restart(&self, id: c_int, change: impl FnOnce(&mut Timer)) -> Result<(), Error> {
        let mut list = self.list.lock();
        let timer =
            list.timers.iter_mut().find(|timer| timer.id == id).ok_or(Error::Invalid(Invalid::Timer))?;
        change(timer);
        timer.due = self.now().saturating_add(timer.interval);
        Ok(())
    }

    fn begin_round(&self) -> Round {
        let mut list = self.list.lock();
        list.last_round += 1;
        Round { number: list.last_round, at: self.now() }
    }

    /// The next timer to fire in this round: the one with the earliest due time. Restarts its interval.
    fn take_due(&self, round: Round) -> Option<Timer> {
        let mut list = self.list.lock();
        let due = list.timers.iter_mut().filter(|timer| timer.due <= round.at && timer.fired != round.number);
        let timer = due.min_by_key(|timer| timer.due)?;
        timer.due = self.now().saturating_add(timer.interval);
        timer.fired = round.number;
        Some(*timer)
    }
}

/// One call of `zmq_timers_execute`.
#[derive(Clone, Copy)]
struct Round {
    number: u64,
    /// Timers due at this time fire in the round.
    at: Duration,
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_timers_new() -> *mut c_void {
    guard(|| Ok(TIMERS.insert(Timers { start: Instant::now(), list: Mutex::default() })))
}

/// Destroys the timers and sets the caller's pointer to NULL.
///
/// # Safety
/// `handle` must be null or valid for reads and writes of a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_timers_destroy(handle: *mut *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_mut() }.ok_or(Error::Fault)?;
        TIMERS.remove(*handle)?.list.lock().timers.clear();
        *handle = std::ptr::null_mut();
        Ok(0)
    })
}

/// Adds a timer that fires every `interval` milliseconds; returns its id.
///
/// # Safety
/// `handler` must be null or a function that can be called with `argument` as long as the timer exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_timers_add(
    handle: *mut c_void,
    interval: usize,
    handler: Option<TimerHandler>,
    argument: *mut c_void,
) -> c_int {
    guard(|| {
        let timers = TIMERS.get(handle)?;
        let handler = handler.ok_or(Error::Fault)?;
        let interval = Duration::from_millis(interval as u64);
        let due = timers.now().saturating_add(interval);
        let mut list = timers.list.lock();
        let id = list.last_id.checked_add(1).ok_or(Error::NoMemory)?;
        list.timers.try_reserve(1).map_err(|_| Error::NoMemory)?;
        list.last_id = id;
        list.timers.push(Timer { id, interval, due, fired: 0, handler, argument });
        Ok(id)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_timers_cancel(handle: *mut c_void, timer: c_int) -> c_int {
    guard(|| {
        let timers = TIMERS.get(handle)?;
        let mut list = timers.list.lock();
        let at = list.timers.iter().position(|one| one.id == timer).ok_or(Error::Invalid(Invalid::Timer))?;
        list.timers.remove(at);
        Ok(0)
    })
}

/// Changes the interval in milliseconds, and restarts it.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_timers_set_interval(handle: *mut c_void, timer: c_int, interval: usize) -> c_int {
    guard(|| {
        let interval = Duration::from_millis(interval as u64);
        TIMERS.get(handle)?.restart(timer, |timer| timer.interval = interval)?;
        Ok(0)
    })
}

/// Restarts the timer's interval.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_timers_reset(handle: *mut c_void, timer: c_int) -> c_int {
    guard(|| TIMERS.get(handle)?.restart(timer, |_| ()).map(|()| 0))
}

/// Milliseconds until the next timer is due, rounded up; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_timers_timeout(handle: *mut c_void) -> c_long {
    guard(|| {
        let timers = TIMERS.get(handle)?;
        let next = timers.list.lock().timers.iter().map(|timer| timer.due).min();
        let Some(due) = next else { return Ok(-1) };
        let left = due.saturating_sub(timers.now()).as_nanos().div_ceil(1_000_000);
        Ok(c_long::try_from(left).unwrap_or(c_long::MAX))
    })
}

/// Calls the handlers of all due timers once each. It calls them from this frame, which has nothing to drop, and
/// outside `guard`, because a handler may unwind.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn zmq_timers_execute(handle: *mut c_void) -> c_int {
    let mut round = None;
    loop {
        let mut next = None;
        let outcome = guard(|| {
            let timers = match TIMERS.get(handle) {
                Err(_) if round.is_some() => return Ok(0), // A handler has destroyed the timers.
                timers => timers?,
            };
            next = timers.take_due(*round.get_or_insert_with(|| timers.begin_round()));
            Ok(0)
        });
        let Some(timer) = next else { return outcome };
        // SAFETY: the caller of zmq_timers_add promised that it can be called.
        unsafe { (timer.handler)(timer.id, timer.argument) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
    use std::cell::RefCell;
    use std::ptr::null_mut;

    /// The timers of a test, and the ids that its handlers recorded.
    struct Seen {
        timers: *mut c_void,
        fired: RefCell<Vec<c_int>>,
    }

    impl Seen {
        fn new() -> Seen {
            Seen { timers: zmq_timers_new(), fired: RefCell::default() }
        }

        fn add(&self, interval: usize, handler: TimerHandler) -> c_int {
            let argument = (&raw const *self).cast_mut().cast();
            // SAFETY: the handlers below read a `Seen`, which outlives its timers.
            unsafe { zmq_timers_add(self.timers, interval, Some(handler), argument) }
        }

        fn fired(&self) -> Vec<c_int> {
            self.fired.take()
        }
    }

    impl Drop for Seen {
        fn drop(&mut self) {
            // SAFETY: a pointer of ours; the timers may have been destroyed already.
            unsafe { zmq_timers_destroy(&mut self.timers) };
        }
    }

    fn seen<'a>(argument: *mut c_void) -> &'a Seen {
        // SAFETY: each test passes one that outlives its timers.
        unsafe { &*argument.cast::<Seen>() }
    }

    unsafe extern "C-unwind" fn note(timer: c_int, argument: *mut c_void) {
        seen(argument).fired.borrow_mut().push(timer);
    }

    unsafe extern "C-unwind" fn cancel_itself(timer: c_int, argument: *mut c_void) {
        assert_eq!(zmq_timers_cancel(seen(argument).timers, timer), 0);
        seen(argument).fired.borrow_mut().push(timer);
    }

    unsafe extern "C-unwind" fn destroy_all(timer: c_int, argument: *mut c_void) {
        let mut handle = seen(argument).timers;
        // SAFETY: a pointer of ours.
        assert_eq!(unsafe { zmq_timers_destroy(&mut handle) }, 0);
        seen(argument).fired.borrow_mut().push(timer);
    }

    #[test]
    fn a_timer_fires_when_it_is_due_and_again() {
        let seen = Seen::new();
        assert_eq!(zmq_timers_timeout(seen.timers), -1);
        let id = seen.add(10, note);
        let left = zmq_timers_timeout(seen.timers);
        assert!((1..=10).contains(&left), "{left} ms");
        assert_eq!((zmq_timers_execute(seen.timers), seen.fired()), (0, vec![]));
        for _ in 0..2 {
            let deadline = Instant::now() + Duration::from_secs(10);
            while zmq_timers_timeout(seen.timers) > 0 && Instant::now() < deadline {
                std::thread::yield_now();
            }
            assert_eq!((zmq_timers_execute(seen.timers), seen.fired()), (0, vec![id]));
        }
    }

    #[test]
    fn changed_timers_begin_anew() {
        let seen = Seen::new();
        let id = seen.add(0, note);
        assert_eq!(zmq_timers_set_interval(seen.timers, id, 3_600_000), 0);
        zmq_timers_execute(seen.timers);
        assert!(seen.fired().is_empty() && zmq_timers_timeout(seen.timers) > 3_500_000);
        assert_eq!(zmq_timers_reset(seen.timers, id), 0);
        assert_eq!(zmq_timers_cancel(seen.timers, id), 0);
        assert_eq!(zmq_timers_timeout(seen.timers), -1);
        seen.add(usize::MAX, note);
        assert!(zmq_timers_timeout(seen.timers) > 3_600_000);
    }

    #[test]
    fn handlers_may_do_what_they_like() {
        let seen = Seen::new();
        let (first, second) = (seen.add(0, cancel_itself), seen.add(0, note));
        zmq_timers_execute(seen.timers);
        assert_eq!(seen.fired(), [first, second]);
        zmq_timers_execute(seen.timers);
        assert_eq!(seen.fired(), [second]);
        let last = seen.add(0, destroy_all);
        assert_eq!(zmq_timers_cancel(seen.timers, second), 0);
        seen.add(0, note);
        zmq_timers_execute(seen.timers);
        assert_eq!(seen.fired(), [last], "what was destroyed fires no more");
        assert_eq!((zmq_timers_execute(seen.timers), errno()), (-1, libc::EFAULT));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let seen = Seen::new();
        assert_eq!((zmq_timers_cancel(seen.timers, 1), errno()), (-1, libc::EINVAL));
        assert_eq!((zmq_timers_reset(seen.timers, 1), errno()), (-1, libc::EINVAL));
        assert_eq!((zmq_timers_set_interval(seen.timers, 1, 1), errno()), (-1, libc::EINVAL));
        for handle in [null_mut(), 8 as *mut c_void] {
            assert_eq!((zmq_timers_execute(handle), errno()), (-1, libc::EFAULT));
            assert_eq!((zmq_timers_timeout(handle), errno()), (-1, libc::EFAULT));
        }
        // SAFETY: no function, and no pointer.
        unsafe {
            assert_eq!(zmq_timers_add(seen.timers, 1, None, null_mut()), -1);
            assert_eq!(errno(), libc::EFAULT);
            assert_eq!(zmq_timers_destroy(null_mut()), -1);
            assert_eq!(errno(), libc::EFAULT);
        }
    }
}
