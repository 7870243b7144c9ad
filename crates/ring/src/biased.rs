//! A lock that costs almost nothing for the thread that uses it most.
//!
//! A thread that takes the lock a number of times in a row becomes its owner. The owner has a fast path: it sets its
//! flag `inside`, checks that it still owns the lock, and holds it; to release it, it clears the flag. The fast path
//! has no locked instruction and no fence, since the other side pays for both (`pinnace_sys::barrier`). All other
//! threads take the slow path: they lock a mutex, then end the ownership. Each time that happens, becoming the owner
//! takes more tries, so that a lock with many users acts as an ordinary mutex. A thread that uses the lock only now
//! and then calls `visit`, after which the owner stays the owner.
//!
//! Synchronisation, by name:
//! - ENTER: the owner sets its `inside`, then loads `owner`; a thread that ends the ownership clears `owner`, then
//!   loads `inside`. A weightless barrier and the `heaviest` that pairs with it lie in between, so that at least one of
//!   them sees the other's store. Where the kernel has no such barrier, a lock has no owner.
//! - LEAVE: the owner clears `inside` with release, then loads `awaited`; a thread that waits for this sets
//!   `awaited`, then loads `inside` with acquire. Barriers as above.
//! - RETURN: a visitor ends the ownership like any other thread, and restores it with release before it unlocks the
//!   mutex; the owner loads `owner` with acquire.
//! - GRANT: a thread becomes the owner while it holds the mutex, and is inside already.
//!
//! A former owner may already be on the fast path. Then it sets and clears its `inside` at any later time, before it
//! finds that it must take the slow path. So each owner has an `inside` of its own, its seat. A seat becomes free
//! again when its thread takes the slow path, or says that it will not use the lock any more.
//!
//! ```
//! use pinnace_ring::{BiasedLock, Reentered};
//! let lock = BiasedLock::new(1);
//! *lock.lock()? += 1;
//! assert_eq!(*lock.lock()?, 2);
//! let inside = lock.lock()?;
//! assert!(lock.lock().is_err()); // It would wait for itself.
//! # drop(inside);
//! # Ok::<(), Reentered>(())
//! ```

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::futex_word::{Among, FutexWord};
use crate::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, enter, heaviest, is_asymmetric, weightless,
};

/// Threads that may have an `inside` of their own: the owner, and former owners that may still be on the fast path. A
/// power of two.
const SEATS: usize = 4;
/// How many times in a row a thread has to take the lock to become its owner: at first, the factor after each end of
/// an ownership, and the maximum.
const EARN_FIRST: u32 = if cfg!(loom) { 1 } else { 16 };
const EARN_GROWS: u32 = if cfg!(loom) { 1 } else { 4 };
const EARN_MAX: u32 = 1 << 20;

/// Spins while the owner is inside, before the waiting thread sleeps: some microseconds.
const SPINS_BEFORE_SLEEP: u32 = if cfg!(loom) { 1 } else { 128 };

/// No thread.
const NOBODY: usize = 0;

/// A lock around a `T`, for use mostly by one thread.
pub struct BiasedLock<T> {
    /// The owner: its thread id, with the seat in the lowest bits.
    owner: AtomicUsize,
    /// Set while the owner is inside by the fast path; one for each seat.
    inside: [FutexWord; SEATS],
    /// A thread sleeps, or is about to, until the owner leaves.
    awaited: AtomicBool,
    /// The thread that is inside by the slow path.
    holder: AtomicUsize,
    /// The slow path's mutex.
    visits: Mutex<Visits>,
    content: UnsafeCell<T>,
}

/// The history of the slow path.
#[derive(Default)]
struct Visits {
    last: usize,
    /// How often `last` took the slow path in a row, less one, and the number at which it becomes the owner.
    run: u32,
    earn: u32,
    /// The thread that has each seat.
    seats: [usize; SEATS],
}

// SAFETY: as for a mutex: one thread at a time reaches the content.
unsafe impl<T: Send> Send for BiasedLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

/// The thread already holds the lock: it would deadlock with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reentered;

impl std::fmt::Display for Reentered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this thread holds the lock already")
    }
}

impl std::error::Error for Reentered {}

/// The lock is held, until this is dropped.
pub struct BiasedGuard<'a, T>(Path<'a, T>);

/// The path by which a guard was taken.
enum Path<'a, T> {
    Fast(OwnerGuard<'a, T>),
    Slow(VisitorGuard<'a, T>),
}

/// The lock is held by its owner, by the fast path, until this is dropped.
pub struct OwnerGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    inside: &'a FutexWord,
    /// Not Send: it is dropped on the thread that took the lock.
    _stays: PhantomData<*const ()>,
}

/// The lock is held, by the slow path.
struct VisitorGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    _mutex: MutexGuard<'a, Visits>,
    /// The owner after the release: a visitor restores it.
    owner: usize,
    _stays: PhantomData<*const ()>,
}

impl<T> BiasedLock<T> {
    /// An unlocked lock.
    pub fn new(content: T) -> BiasedLock<T> {
        BiasedLock {
            owner: AtomicUsize::new(NOBODY),
            inside: Default::default(),
            awaited: AtomicBool::new(false),
            holder: AtomicUsize::new(NOBODY),
            visits: Mutex::new(Visits { earn: EARN_FIRST, ..Visits::default() }),
            content: UnsafeCell::new(content),
        }
    }

    /// Waits until no other thread is inside.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn lock(&self) -> Result<BiasedGuard<'_, T>, Reentered> {
        self.lock_as(pinnace_sys::thread_id())
    }

    /// As `lock`, for the thread `me`.
    #[inline(always)]
    pub(crate) fn lock_as(&self, me: usize) -> Result<BiasedGuard<'_, T>, Reentered> {
        match self.lock_fast(me) {
            Some(guard) => Ok(BiasedGuard(Path::Fast(guard))),
            None => self.lock_slow(me),
        }
    }

    /// The lock, if the calling thread owns it. None: call `lock`, which takes it or returns the error.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn lock_owned(&self) -> Option<OwnerGuard<'_, T>> {
        self.lock_fast(pinnace_sys::thread_id())
    }

    #[inline(always)]
    fn lock_fast(&self, me: usize) -> Option<OwnerGuard<'_, T>> {
        let owner = self.owner.load(Ordering::Relaxed);
        let inside = self.inside.get(owner ^ me)?;
        if inside.load_relaxed() != 0 {
            return None;
        }
        inside.store(1, Ordering::Relaxed);
        weightless(); // ENTER
        if self.owner.load(Ordering::Acquire) != owner {
            self.leave_again(inside);
            return None;
        }
        Some(OwnerGuard { lock: self, inside, _stays: PhantomData })
    }

    #[cold]
    #[inline(never)]
    fn leave_again(&self, inside: &FutexWord) {
        self.leave(inside);
    }

    #[cfg(loom)]
    pub(crate) fn is_owned_by(&self, thread: usize) -> bool {
        self.owner.load(Ordering::Relaxed) ^ thread < SEATS
    }

    /// As `lock`, for a thread that uses the lock now and then: the owner stays the owner.
    #[cfg(not(loom))]
    pub fn visit(&self) -> Result<BiasedGuard<'_, T>, Reentered> {
        self.visit_as(pinnace_sys::thread_id())
    }

    #[cold]
    pub(crate) fn visit_as(&self, me: usize) -> Result<BiasedGuard<'_, T>, Reentered> {
        if self.owner.load(Ordering::Relaxed) ^ me < SEATS {
            return self.lock_as(me);
        }
        if self.holder.load(Ordering::Relaxed) == me {
            return Err(Reentered);
        }
        let mutex = enter(&self.visits);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY {
            self.end_ownership(owner % SEATS);
        }
        Ok(self.visitor_guard(me, mutex, owner))
    }

    /// Call before other threads take over the content. The calling thread, which must not be inside, stops owning
    /// the lock, and what it takes to become the owner is reset.
    #[cfg(not(loom))]
    pub fn leave_to_others(&self) {
        self.leave_to_others_as(pinnace_sys::thread_id());
    }

    pub(crate) fn leave_to_others_as(&self, me: usize) {
        let mut visits = enter(&self.visits);
        if self.owner.load(Ordering::Relaxed) ^ me < SEATS {
            self.owner.store(NOBODY, Ordering::Relaxed);
        }
        visits.vacate(me);
        visits.earn = EARN_FIRST;
    }

    /// The thread with this seat is the owner, and is inside from this call on.
    fn owner_guard(&self, seat: usize) -> BiasedGuard<'_, T> {
        let inside = &self.inside[seat];
        inside.store(1, Ordering::Relaxed); // GRANT
        BiasedGuard(Path::Fast(OwnerGuard { lock: self, inside, _stays: PhantomData }))
    }

    fn visitor_guard<'a>(
        &'a self,
        me: usize,
        mutex: MutexGuard<'a, Visits>,
        owner: usize,
    ) -> BiasedGuard<'a, T> {
        self.holder.store(me, Ordering::Relaxed);
        BiasedGuard(Path::Slow(VisitorGuard { lock: self, _mutex: mutex, owner, _stays: PhantomData }))
    }

    #[inline(always)]
    fn leave(&self, inside: &FutexWord) {
        inside.store(0, Ordering::Release);
        weightless(); // LEAVE
        if self.awaited.load(Ordering::Relaxed) {
            self.let_in(inside);
        }
    }

    /// Wakes the thread that waits for the owner to release the lock.
    #[cold]
    #[inline(never)]
    fn let_in(&self, inside: &FutexWord) {
        inside.wake_all(Among::Threads);
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, me: usize) -> Result<BiasedGuard<'_, T>, Reentered> {
        let seat = self.owner.load(Ordering::Relaxed) ^ me;
        let is_inside = seat < SEATS && self.inside[seat].load_relaxed() != 0;
        if is_inside || self.holder.load(Ordering::Relaxed) == me {
            return Err(Reentered);
        }
        let mut visits = enter(&self.visits);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner ^ me < SEATS {
            // A visitor held the lock meanwhile, and has restored the ownership.
            return Ok(self.owner_guard(owner ^ me));
        }
        if owner != NOBODY {
            self.end_ownership(owner % SEATS);
            visits.earn = visits.earn.saturating_mul(EARN_GROWS).min(EARN_MAX);
        }
        if let Some(seat) = visits.count(me).filter(|_| is_asymmetric()) {
            let guard = self.owner_guard(seat);
            self.owner.store(me ^ seat, Ordering::Relaxed);
            return Ok(guard);
        }
        Ok(self.visitor_guard(me, visits, NOBODY))
    }

    /// Ends the ownership, so that the owner takes the slow path; waits until it has left. The mutex is held.
    fn end_ownership(&self, seat: usize) {
        let inside = &self.inside[seat];
        self.owner.store(NOBODY, Ordering::Relaxed);
        heaviest(); // ENTER
        // Mostly the owner is about to leave: spin first, so that nothing has to be woken.
        for _ in 0..SPINS_BEFORE_SLEEP {
            if inside.load_acquire() == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        self.awaited.store(true, Ordering::Relaxed);
        heaviest(); // LEAVE
        while inside.load_acquire() != 0 {
            let _ = inside.wait(1, None, Among::Threads);
        }
        self.awaited.store(false, Ordering::Relaxed);
    }
}

impl Visits {
    /// Counts a visit of `me`. Returns the seat from which it owns the lock, if it has earned that and one is free.
    fn count(&mut self, me: usize) -> Option<usize> {
        self.vacate(me);
        self.run = if self.last == me { self.run + 1 } else { 0 };
        self.last = me;
        if self.run < self.earn {
            return None;
        }
        self.run = 0;
        if !me.is_multiple_of(SEATS) {
            return None; // The seat needs the lowest bits of the id, which is not aligned.
        }
        let seat = self.seats.iter().position(|&thread| thread == NOBODY)?;
        self.seats[seat] = me;
        Some(seat)
    }

    /// The thread is not on the fast path, and no other thread acts for it: free its seat.
    fn vacate(&mut self, me: usize) {
        self.seats.iter_mut().filter(|thread| **thread == me).for_each(|thread| *thread = NOBODY);
    }
}

impl<T> BiasedGuard<'_, T> {
    #[inline(always)]
    fn lock(&self) -> &BiasedLock<T> {
        match &self.0 {
            Path::Fast(guard) => guard.lock,
            Path::Slow(guard) => guard.lock,
        }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock().content.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and there is one guard at a time.
        unsafe { &mut *self.lock().content.get() }
    }
}

impl<T> Deref for OwnerGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.content.get() }
    }
}

impl<T> DerefMut for OwnerGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and there is one guard at a time.
        unsafe { &mut *self.lock.content.get() }
    }
}

impl<T> Drop for OwnerGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.leave(self.inside);
    }
}

impl<T> Drop for VisitorGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.holder.store(NOBODY, Ordering::Relaxed);
        self.lock.owner.store(self.owner, Ordering::Release); // RETURN
    }
}
