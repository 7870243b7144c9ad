//! Utilities: zmq_atomic_counter_new(3) and its family, stopwatches, sleep, threads.

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pinnace_engine::Error;
use pinnace_sys::thread::{Routine, RoutineThread, start_routine};

use crate::guard::{guard, guard_uncancelled};
use crate::registry::Registry;

static COUNTERS: Registry<AtomicI32> = Registry::new();

/// Creates a counter with value 0.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_atomic_counter_new() -> *mut c_void {
    guard(|| Ok(COUNTERS.insert(AtomicI32::new(0))))
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_atomic_counter_set(counter: *mut c_void, value: c_int) {
    guard(|| COUNTERS.get(counter).map(|counter| counter.store(value, Ordering::SeqCst)))
}

/// Adds one; returns the old value.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_atomic_counter_inc(counter: *mut c_void) -> c_int {
    guard(|| COUNTERS.get(counter).map(|counter| counter.fetch_add(1, Ordering::SeqCst)))
}

/// Subtracts one; returns 0 if the result is 0, else 1.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_atomic_counter_dec(counter: *mut c_void) -> c_int {
    guard(|| COUNTERS.get(counter).map(|counter| c_int::from(counter.fetch_sub(1, Ordering::SeqCst) != 1)))
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_atomic_counter_value(counter: *mut c_void) -> c_int {
    guard(|| COUNTERS.get(counter).map(|counter| counter.load(Ordering::SeqCst)))
}

/// Destroys the counter and sets the caller's pointer to NULL. A pointer that is NULL already is ignored.
///
/// # Safety
/// `handle` must be null or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_atomic_counter_destroy(handle: *mut *mut c_void) {
    guard(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_mut() }.ok_or(Error::Fault)?;
        let counter = std::mem::replace(handle, std::ptr::null_mut());
        if counter.is_null() { Ok(()) } else { COUNTERS.remove(counter).map(drop) }
    })
}

static STOPWATCHES: Registry<Instant> = Registry::new();

#[unsafe(no_mangle)]
pub extern "C" fn zmq_stopwatch_start() -> *mut c_void {
    guard(|| Ok(STOPWATCHES.insert(Instant::now())))
}

/// Microseconds since the start.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_stopwatch_intermediate(watch: *mut c_void) -> c_ulong {
    guard(|| STOPWATCHES.get(watch).map(|start| start.elapsed().as_micros() as c_ulong))
}

/// Microseconds since the start; destroys the stopwatch.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_stopwatch_stop(watch: *mut c_void) -> c_ulong {
    guard(|| STOPWATCHES.remove(watch).map(|start| start.elapsed().as_micros() as c_ulong))
}

/// A cancellation point; interrupted by a handled signal, as in libzmq.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn zmq_sleep(seconds: c_int) {
    // SAFETY: any number of seconds is allowed. It may unwind, and this frame has nothing to drop.
    unsafe { sleep(seconds.max(0).cast_unsigned()) };
}

unsafe extern "C-unwind" {
    fn sleep(seconds: c_uint) -> c_uint;
}

static THREADS: Registry<Mutex<Option<RoutineThread>>> = Registry::new();

/// Starts a thread that runs `run`; NULL on an error. As in libzmq, the thread blocks signals like the library's own
/// threads. Unlike in libzmq, it does not block the signals for its own faults.
///
/// # Safety
/// `run` must be null or a function that can be called with `argument` on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_threadstart(run: Option<Routine>, argument: *mut c_void) -> *mut c_void {
    guard(|| {
        let run = run.ok_or(Error::Fault)?;
        // SAFETY: the caller's promise.
        let thread = unsafe { start_routine(run, argument) }?;
        Ok(THREADS.insert(Mutex::new(Some(thread))))
    })
}

/// Waits until the thread ends, by return of its function, cancellation or pthread_exit(3).
#[unsafe(no_mangle)]
pub extern "C" fn zmq_threadclose(handle: *mut c_void) {
    guard_uncancelled(|| {
        let thread = THREADS.remove(handle)?.lock().take().ok_or(Error::Fault)?;
        Ok(thread.join()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
    use std::ptr::null_mut;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn counters_count() {
        let mut handle = zmq_atomic_counter_new();
        assert_eq!(zmq_atomic_counter_inc(handle), 0);
        assert_eq!(zmq_atomic_counter_inc(handle), 1);
        assert_eq!(zmq_atomic_counter_value(handle), 2);
        assert_eq!(zmq_atomic_counter_dec(handle), 1);
        assert_eq!(zmq_atomic_counter_dec(handle), 0);
        zmq_atomic_counter_set(handle, 40);
        assert_eq!(zmq_atomic_counter_value(handle), 40);
        let mut again = handle;
        // SAFETY: pointers to pointers of ours, and null.
        unsafe {
            zmq_atomic_counter_destroy(&mut handle);
            assert!(handle.is_null());
            zmq_atomic_counter_destroy(&mut handle);
            zmq_atomic_counter_destroy(null_mut());
            for gone in [again, null_mut()] {
                zmq_atomic_counter_set(gone, 1);
                assert_eq!((zmq_atomic_counter_inc(gone), errno()), (-1, libc::EFAULT));
            }
            zmq_atomic_counter_destroy(&mut again);
            assert_eq!(errno(), libc::EFAULT);
        }
    }

    #[test]
    fn counters_count_from_many_threads() {
        let mut handle = zmq_atomic_counter_new();
        let address = handle.addr();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..1000 {
                        zmq_atomic_counter_inc(std::ptr::without_provenance_mut(address));
                    }
                });
            }
        });
        assert_eq!(zmq_atomic_counter_value(handle), 4000);
        // SAFETY: a pointer to a pointer of ours.
        unsafe { zmq_atomic_counter_destroy(&mut handle) };
    }

    #[test]
    fn stopwatches_stop_once() {
        let watch = zmq_stopwatch_start();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(2) {
            thread::yield_now();
        }
        let so_far = zmq_stopwatch_intermediate(watch);
        let in_all = zmq_stopwatch_stop(watch);
        assert!(2000 <= so_far && so_far <= in_all);
        assert_eq!((zmq_stopwatch_stop(watch), errno()), (0, libc::EFAULT));
    }

    unsafe extern "C-unwind" fn add(argument: *mut c_void) {
        zmq_atomic_counter_inc(argument);
    }

    #[test]
    fn a_thread_runs_and_ends() {
        let mut handle = zmq_atomic_counter_new();
        // SAFETY: a counter that outlives the thread.
        unsafe {
            let thread = zmq_threadstart(Some(add), handle);
            assert!(!thread.is_null());
            zmq_threadclose(thread);
            assert_eq!(zmq_atomic_counter_value(handle), 1);
            zmq_threadclose(thread);
            assert_eq!(errno(), libc::EFAULT);
            assert!(zmq_threadstart(None, null_mut()).is_null());
            zmq_atomic_counter_destroy(&mut handle);
        }
    }
}
