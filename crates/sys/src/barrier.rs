//! Asymmetric memory barriers: one side's costs nothing, the other side's pays for both (membarrier(2)).
//!
//! Two threads that each write one location and then read the other's both need a full barrier in between. Else both
//! may read the old values. If one thread does this for every message and the other seldom, the first calls
//! [`light`], which only stops the compiler from reordering. The second calls [`heavy`], which has the kernel run a
//! barrier on every thread of this process that is running.
//!
//! ```
//! use pinnace_sys::barrier;
//! barrier::prepare();
//! barrier::light(); // Between the write and the read of the frequent side ...
//! barrier::heavy(); // ... and between those of the rare side.
//! ```
//! Where the kernel has no such call, `light` is a full barrier too.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

/// From membarrier(2); `libc` defines them for other systems only.
const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

/// The kernel has not been asked yet: both barriers are full ones.
const UNKNOWN: u32 = 0;
/// The kernel runs barriers on other threads.
const ASYMMETRIC: u32 = 1;
/// The kernel does not: both barriers are full ones.
const SYMMETRIC: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Longer than any processor holds back a store.
const STORE_DELAY: Duration = Duration::from_millis(5);

fn membarrier(command: libc::c_long) -> bool {
    // SAFETY: the call takes no pointers (membarrier(2)).
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Asks the kernel, once. Returns immediately while the process has one thread, else within some milliseconds.
pub fn prepare() {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let state = if membarrier(REGISTER_PRIVATE_EXPEDITED) { ASYMMETRIC } else { SYMMETRIC };
        // Other threads may have seen SYMMETRIC, which is final.
        let _ = STATE.compare_exchange(UNKNOWN, state, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Returns true if `light` costs nothing.
#[inline(always)]
pub fn is_asymmetric() -> bool {
    STATE.load(Ordering::Relaxed) == ASYMMETRIC
}

/// The barrier of the frequent side.
#[inline(always)]
pub fn light() {
    compiler_fence(Ordering::SeqCst);
    if !is_asymmetric() {
        light_slow();
    }
}

#[cold]
#[inline(never)]
fn light_slow() {
    fence(Ordering::SeqCst);
}

/// As `light`, where the caller has seen `is_asymmetric` and the other side calls `heaviest`. It does not check whether
/// the kernel still allows the call.
#[inline(always)]
pub fn weightless() {
    compiler_fence(Ordering::SeqCst);
}

/// As `heavy`, for the other side of `weightless`. If a seccomp filter has forbidden membarrier(2) since, each call
/// takes some milliseconds.
pub fn heaviest() {
    fence(Ordering::SeqCst);
    if membarrier(PRIVATE_EXPEDITED)
        || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    {
        return;
    }
    STATE.store(SYMMETRIC, Ordering::SeqCst);
    std::thread::sleep(STORE_DELAY);
    fence(Ordering::SeqCst);
}

/// The barrier of the rare side: some 100 ns, and up to a microsecond for each thread that it interrupts.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if STATE.load(Ordering::SeqCst) == SYMMETRIC || membarrier(PRIVATE_EXPEDITED) {
        return;
    }
    heavy_slow();
}

/// The call failed: this process has not registered yet, or is a forked child that has to register again, or the call
/// has been forbidden since.
#[cold]
fn heavy_slow() {
    if membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED) {
        return;
    }
    if STATE.swap(SYMMETRIC, Ordering::SeqCst) == ASYMMETRIC {
        // Other threads may have used a light barrier just before.
        std::thread::sleep(STORE_DELAY);
    }
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each side writes its own word and reads the other's: the two must never both miss the other's write.
    #[test]
    fn one_side_sees_the_other() {
        one_sees(light, heavy);
        if is_asymmetric() {
            one_sees(weightless, heaviest);
        }
    }

    fn one_sees(near: fn(), far: fn()) {
        const ROUNDS: u32 = 20_000;
        static SAID: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
        static MISSED: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
        static MET: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
        prepare();
        for words in [&SAID, &MISSED, &MET] {
            words.iter().for_each(|word| word.store(0, Ordering::SeqCst));
        }
        let meet = |me: usize| {
            let times = MET[me].fetch_add(1, Ordering::SeqCst) + 1;
            while MET[1 - me].load(Ordering::SeqCst) < times {
                std::thread::yield_now();
            }
        };
        let side = |me: usize, barrier: fn()| {
            (1..=ROUNDS).all(|round| {
                meet(me);
                SAID[me].store(round, Ordering::Relaxed);
                barrier();
                if SAID[1 - me].load(Ordering::Relaxed) < round {
                    MISSED[me].store(round, Ordering::Relaxed);
                }
                meet(me);
                MISSED.iter().any(|missed| missed.load(Ordering::SeqCst) < round)
            })
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| side(0, near));
            assert!(side(1, far) & other.join().unwrap());
        });
    }
}
