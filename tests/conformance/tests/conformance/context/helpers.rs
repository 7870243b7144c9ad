//! The small helpers of the ABI: Z85, counters, timers, stopwatches, threads, capabilities, and the list of
//! symbols itself.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::api::*;
use support::*;

/// No test may sleep.
const NEVER_CALLED: [&str; 1] = ["zmq_sleep"];

#[test]
fn every_symbol_is_exported() {
    let missing: Vec<_> = SYMBOLS.iter().chain(&NEVER_CALLED).filter(|name| !exports(name)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    assert_eq!(SYMBOLS.len() + NEVER_CALLED.len(), 70);
}

#[test]
fn it_is_version_four_three() {
    let (major, minor, patch) = version();
    assert!((major, minor) == (4, 3) && patch >= 4, "{major}.{minor}.{patch}");
}

#[test]
fn it_knows_what_it_has() {
    // SAFETY: C strings.
    unsafe {
        assert_eq!(zmq_has(c"ipc".as_ptr()), 1);
        assert_eq!(zmq_has(c"no such thing".as_ptr()), 0);
        if exports("pinnace_version") {
            assert_eq!(zmq_has(c"gssapi".as_ptr()), 0);
        }
        for name in [c"pgm", c"tipc", c"norm", c"curve", c"gssapi", c"draft"] {
            assert!((0..=1).contains(&zmq_has(name.as_ptr())), "{name:?}");
        }
    }
}

/// The example of RFC 32, and its refusals.
#[test]
fn z85_follows_the_rfc() {
    let data = [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B];
    let mut text = [0 as libc::c_char; 16];
    let mut back = [0u8; 8];
    // SAFETY: buffers that are large enough.
    unsafe {
        assert!(!zmq_z85_encode(text.as_mut_ptr(), data.as_ptr(), 8).is_null());
        assert_eq!(CStr::from_ptr(text.as_ptr()), c"HelloWorld");
        assert!(!zmq_z85_decode(back.as_mut_ptr(), text.as_ptr()).is_null());
        assert_eq!(back, data);
        for from in [data.as_ptr(), std::ptr::null()] {
            assert!(zmq_z85_encode(text.as_mut_ptr(), from, 7).is_null());
            assert_eq!(errno::last(), Errno(libc::EINVAL), "the length comes first");
        }
        for bad in [c"Hell", c"HelloWorl", c"####\x7f", c"\"\"\"\"\"", c"~~~~~"] {
            assert!(zmq_z85_decode(back.as_mut_ptr(), bad.as_ptr()).is_null(), "{bad:?}");
            assert_eq!(errno::last(), Errno(libc::EINVAL));
        }
    }
}

#[test]
fn counters_count_from_many_threads() {
    // SAFETY: a live counter, used from several threads as it is meant to be.
    unsafe {
        let counter = zmq_atomic_counter_new();
        assert_ne!(counter, zmq_timers_new(), "no two objects have one handle");
        assert_eq!(zmq_atomic_counter_value(counter), 0);
        assert_eq!(zmq_atomic_counter_inc(counter), 0, "the value before");
        assert_eq!(zmq_atomic_counter_dec(counter), 0, "0 when it has reached zero");
        zmq_atomic_counter_set(counter, 10);
        assert_eq!(zmq_atomic_counter_dec(counter), 1, "1 while it has not");
        zmq_atomic_counter_set(counter, 0);
        let shared = counter as usize;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        zmq_atomic_counter_inc(shared as *mut c_void);
                    }
                });
            }
        });
        assert_eq!(zmq_atomic_counter_value(counter), 40_000);
        let mut counter = counter;
        zmq_atomic_counter_destroy(&mut counter);
        assert!(counter.is_null());
    }
}

unsafe extern "C" fn count(_: libc::c_int, arg: *mut c_void) {
    // SAFETY: the argument is the counter of the test.
    unsafe { &*(arg as *const AtomicUsize) }.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn timers_fire_when_due() {
    let fired = AtomicUsize::new(0);
    let arg = &fired as *const AtomicUsize as *mut c_void;
    // SAFETY: a live set of timers and a counter that outlives it.
    unsafe {
        let mut timers = zmq_timers_new();
        assert_eq!(zmq_timers_timeout(timers), -1, "no timer, no limit");
        let timer = zmq_timers_add(timers, 60, Some(count), arg);
        assert!(timer >= 0);
        assert!((1..=60).contains(&zmq_timers_timeout(timers)));
        assert_eq!((zmq_timers_execute(timers), fired.load(Ordering::SeqCst)), (0, 0), "not due");
        let start = Instant::now();
        until("due", || zmq_timers_timeout(timers) == 0);
        assert!(start.elapsed() >= Duration::from_millis(50));
        assert_eq!((zmq_timers_execute(timers), fired.load(Ordering::SeqCst)), (0, 1));
        assert_eq!(zmq_timers_set_interval(timers, timer, 10_000), 0);
        assert!(zmq_timers_timeout(timers) > 5_000);
        assert_eq!(zmq_timers_reset(timers, timer), 0);
        assert_eq!(zmq_timers_cancel(timers, timer), 0);
        assert_eq!(zmq_timers_timeout(timers), -1);
        for rc in [
            zmq_timers_cancel(timers, timer),
            zmq_timers_reset(timers, 999),
            zmq_timers_set_interval(timers, 999, 1),
        ] {
            assert_eq!((rc, errno::last()), (-1, Errno(libc::EINVAL)));
        }
        assert_eq!(zmq_timers_add(timers, 1, None, std::ptr::null_mut()), -1);
        assert_eq!(errno::last(), Errno(libc::EFAULT));
        assert_eq!(zmq_timers_destroy(&mut timers), 0);
        assert!(timers.is_null());
    }
}

#[test]
fn stopwatches_measure_microseconds() {
    // SAFETY: a live watch.
    unsafe {
        let watch = zmq_stopwatch_start();
        deadline::pass(Duration::from_millis(30));
        let middle = zmq_stopwatch_intermediate(watch);
        let end = zmq_stopwatch_stop(watch);
        assert!((29_000..10_000_000).contains(&middle), "{middle}");
        assert!(end >= middle);
    }
}

#[test]
fn threads_run_and_are_awaited() {
    unsafe extern "C" fn work(arg: *mut c_void) {
        // SAFETY: the argument is the counter of the test.
        unsafe { &*(arg as *const AtomicUsize) }.fetch_add(1, Ordering::SeqCst);
    }
    let done = AtomicUsize::new(0);
    // SAFETY: the counter outlives the threads, which are awaited.
    unsafe {
        let start = || zmq_threadstart(Some(work), &done as *const AtomicUsize as *mut c_void);
        let threads = [start(), start(), start()];
        threads.iter().for_each(|thread| zmq_threadclose(*thread));
    }
    assert_eq!(done.load(Ordering::SeqCst), 3);
}

/// Keys where there is CURVE, ENOTSUP where there is none.
#[test]
fn curve_keys_or_enotsup() {
    let (mut public, mut secret, mut again) = ([0; 41], [0; 41], [0; 41]);
    // SAFETY: buffers of the size that the man page requires.
    unsafe {
        if zmq_has(c"curve".as_ptr()) == 0 {
            assert_eq!(zmq_curve_keypair(public.as_mut_ptr(), secret.as_mut_ptr()), -1);
            assert_eq!(errno::last(), Errno(libc::ENOTSUP));
            return;
        }
        assert_eq!(zmq_curve_keypair(public.as_mut_ptr(), secret.as_mut_ptr()), 0);
        assert_eq!(CStr::from_ptr(public.as_ptr()).count_bytes(), 40);
        assert_eq!(CStr::from_ptr(secret.as_ptr()).count_bytes(), 40);
        assert_eq!(zmq_curve_public(again.as_mut_ptr(), secret.as_ptr()), 0);
        assert_eq!(again, public);
    }
}
