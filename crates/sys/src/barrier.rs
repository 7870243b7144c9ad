//! Memory barriers in pairs: one that costs nothing, and one that pays for both (membarrier(2)).
//!
//! Where two threads each write one thing and then read the other's, both need a full barrier in between, or both
//! may read what was there before. If one of them does this for every message and the other seldom, the first calls
//! [`light`], which only keeps the compiler from changing the order, and the second [`heavy`], which has the kernel
//! put a barrier into every thread of this process that runs just now.
//!
//! ```
//! use pinnace_sys::barrier;
//! barrier::prepare();
//! barrier::light(); // Between the write and the read of whoever is in a hurry ...
//! barrier::heavy(); // ... and between those of the other.
//! ```
//! Where the kernel has no such call, `light` is a full barrier too.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

/// From membarrier(2); `libc` has them for other systems only.
const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

/// Nobody has asked the kernel yet: both barriers are full ones.
const UNKNOWN: u32 = 0;
/// The kernel puts barriers into other threads.
const LOPSIDED: u32 = 1;
/// It does not: both barriers are full ones.
const EVEN: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Longer than any processor keeps a write to itself.
const SETTLED: Duration = Duration::from_millis(5);

fn membarrier(command: libc::c_long) -> bool {
    // SAFETY: the call takes no pointers (membarrier(2)).
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Asks the kernel, once. It answers at once while the process has one thread, else within some milliseconds.
pub fn prepare() {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let state = if membarrier(REGISTER_PRIVATE_EXPEDITED) { LOPSIDED } else { EVEN };
        // Another thread may have been told EVEN for good.
        let _ = STATE.compare_exchange(UNKNOWN, state, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Whether `light` costs nothing.
#[inline(always)]
pub fn is_lopsided() -> bool {
    STATE.load(Ordering::Relaxed) == LOPSIDED
}

/// The barrier of the side that is in a hurry.
#[inline(always)]
pub fn light() {
    compiler_fence(Ordering::SeqCst);
    if !is_lopsided() {
        light_after_all();
    }
}

#[cold]
#[inline(never)]
fn light_after_all() {
    fence(Ordering::SeqCst);
}

/// As `light`, for who knows that the kernel has had the call (`is_lopsided`), and is met by `settle`: it is not looked
/// whether it has it still.
#[inline(always)]
pub fn weightless() {
    compiler_fence(Ordering::SeqCst);
}

/// As `heavy`, for the other side of `weightless`: some milliseconds each time where the call was forbidden since.
pub fn settle() {
    fence(Ordering::SeqCst);
    if membarrier(PRIVATE_EXPEDITED)
        || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    {
        return;
    }
    STATE.store(EVEN, Ordering::SeqCst);
    std::thread::sleep(SETTLED);
    fence(Ordering::SeqCst);
}

/// The barrier of the other side: some 100 ns, and up to a microsecond for each thread that it interrupts.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if STATE.load(Ordering::SeqCst) == EVEN || membarrier(PRIVATE_EXPEDITED) {
        return;
    }
    heavy_after_all();
}

/// The call failed: this process has not asked for it yet, or is a child that has to ask again, or was forbidden it
/// since.
#[cold]
fn heavy_after_all() {
    if membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED) {
        return;
    }
    if STATE.swap(EVEN, Ordering::SeqCst) == LOPSIDED {
        // Others may have come by their light barrier just before.
        std::thread::sleep(SETTLED);
    }
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each side writes its own and reads the other's; never may both miss the other's write.
    #[test]
    fn one_side_sees_the_other() {
        one_sees(light, heavy);
        if is_lopsided() {
            one_sees(weightless, settle);
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
