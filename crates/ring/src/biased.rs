//! A lock that is nearly free for the thread that uses it most.
//!
//! A thread that has come some times in a row becomes the lock's owner. Its way in is then short: it says that it is
//! inside, looks whether it still owns the lock, and is in; on its way out it takes the word back. No locked operation
//! and no fence is in that, since the other side pays for both (`pinnace_sys::barrier`). Everybody else takes the long
//! way, a mutex, and ends the ownership first. Each time that happens it takes more to become the owner again, so that
//! a lock that many threads use is an ordinary mutex. Who only has a look now and then is a visitor (`visit`), and the
//! owner stays the owner.
//!
//! Synchronisation, by name:
//! - ENTER: the owner sets its `inside`, then looks at `owner`; whoever ends the ownership clears `owner`, then looks
//!   at `inside`. A weightless barrier and one that settles it lie in between, so that at least one of them sees the
//!   other; nobody owns a lock where the kernel has none such.
//! - LEAVE: the owner clears `inside` with release, then looks at `awaited`; whoever waits for it sets `awaited`, then
//!   looks at `inside`, with acquire. Barriers as above.
//! - RETURN: a visitor ends the ownership like anybody else, and gives it back before it opens the mutex, with release;
//!   the owner looks with acquire.
//! - GRANT: a thread becomes the owner while it holds the mutex, and is inside already.
//!
//! A former owner may have been about to go in, and sets and clears its `inside` at any later time, to find that it
//! has to take the long way. So each owner has an `inside` of its own, its seat, which is free again when that thread
//! itself comes the long way, or says that it will not come again.
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

use crate::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, enter, is_lopsided, settle, weightless,
};
use crate::word::{Among, Word};

/// Owners, past ones that may still be about to go in included; a power of two.
const SEATS: usize = 4;
/// How often in a row a thread has to come until it owns the lock, how many times as often after each end, and at
/// most.
const EARN_FIRST: u32 = if cfg!(loom) { 1 } else { 16 };
const EARN_GROWS: u32 = if cfg!(loom) { 1 } else { 4 };
const EARN_MAX: u32 = 1 << 20;

/// How often it is looked whether an owner leaves, until whoever waits for that sleeps: some microseconds.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 128 };

/// No thread.
const NOBODY: usize = 0;

/// A lock around a `T`, to be taken by one thread mostly.
pub struct BiasedLock<T> {
    /// Whose way in is short: the thread, and in its lowest bits its seat.
    owner: AtomicUsize,
    /// Whether the owner is inside, by the short way; one for each seat.
    inside: [Word; SEATS],
    /// Somebody waits for the owner to leave.
    awaited: AtomicBool,
    /// Who is inside, by the long way.
    holder: AtomicUsize,
    /// The long way.
    visits: Mutex<Visits>,
    content: UnsafeCell<T>,
}

/// Who came the long way.
#[derive(Default)]
struct Visits {
    last: usize,
    /// How often in a row, and how often less one it takes.
    run: u32,
    earn: u32,
    /// Who has which seat.
    seats: [usize; SEATS],
}

// SAFETY: as a mutex: the content is reached by one thread at a time.
unsafe impl<T: Send> Send for BiasedLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BiasedLock<T> {}

/// The thread is inside already: it would wait for itself, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reentered;

impl std::fmt::Display for Reentered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this thread holds the lock already")
    }
}

impl std::error::Error for Reentered {}

/// The lock is held; it is opened when this is dropped.
pub struct BiasedGuard<'a, T>(Way<'a, T>);

/// How a guard came in.
enum Way<'a, T> {
    Short(OwnerGuard<'a, T>),
    Long(VisitorGuard<'a, T>),
}

/// The lock is held by who owns it, by the short way; it is opened when this is dropped.
pub struct OwnerGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    inside: &'a Word,
    /// It is dropped on the thread that came in.
    _stays: PhantomData<*const ()>,
}

/// The lock is held, by the long way.
struct VisitorGuard<'a, T> {
    lock: &'a BiasedLock<T>,
    _mutex: MutexGuard<'a, Visits>,
    /// Who owns the lock afterwards: a visitor gives it back.
    owner: usize,
    _stays: PhantomData<*const ()>,
}

impl<T> BiasedLock<T> {
    /// A lock that is open.
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

    /// Waits until nobody else is inside.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn lock(&self) -> Result<BiasedGuard<'_, T>, Reentered> {
        self.lock_as(pinnace_sys::thread_id())
    }

    /// As `lock`, for the thread `me`.
    #[inline(always)]
    pub(crate) fn lock_as(&self, me: usize) -> Result<BiasedGuard<'_, T>, Reentered> {
        match self.lock_short(me) {
            Some(guard) => Ok(BiasedGuard(Way::Short(guard))),
            None => self.lock_long(me),
        }
    }

    /// The lock, for who owns it; None: `lock` is the way in, or would say why there is none.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn lock_owned(&self) -> Option<OwnerGuard<'_, T>> {
        self.lock_short(pinnace_sys::thread_id())
    }

    #[inline(always)]
    fn lock_short(&self, me: usize) -> Option<OwnerGuard<'_, T>> {
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
    fn leave_again(&self, inside: &Word) {
        self.leave(inside);
    }

    #[cfg(loom)]
    pub(crate) fn is_owned_by(&self, thread: usize) -> bool {
        self.owner.load(Ordering::Relaxed) ^ thread < SEATS
    }

    /// As `lock`, for a thread that comes now and then, to look: whoever owns the lock goes on to own it.
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

    /// What the lock guards is going to be another's: this thread, which must not be inside, owns it no more, and
    /// what it takes to own it is forgotten.
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

    /// Whoever has this seat owns the lock, and is inside from here on.
    fn owner_guard(&self, seat: usize) -> BiasedGuard<'_, T> {
        let inside = &self.inside[seat];
        inside.store(1, Ordering::Relaxed); // GRANT
        BiasedGuard(Way::Short(OwnerGuard { lock: self, inside, _stays: PhantomData }))
    }

    fn visitor_guard<'a>(
        &'a self,
        me: usize,
        mutex: MutexGuard<'a, Visits>,
        owner: usize,
    ) -> BiasedGuard<'a, T> {
        self.holder.store(me, Ordering::Relaxed);
        BiasedGuard(Way::Long(VisitorGuard { lock: self, _mutex: mutex, owner, _stays: PhantomData }))
    }

    #[inline(always)]
    fn leave(&self, inside: &Word) {
        inside.store(0, Ordering::Release);
        weightless(); // LEAVE
        if self.awaited.load(Ordering::Relaxed) {
            self.let_in(inside);
        }
    }

    /// Wakes who waits for the owner to leave.
    #[cold]
    #[inline(never)]
    fn let_in(&self, inside: &Word) {
        inside.wake_all(Among::Threads);
    }

    #[cold]
    #[inline(never)]
    fn lock_long(&self, me: usize) -> Result<BiasedGuard<'_, T>, Reentered> {
        let seat = self.owner.load(Ordering::Relaxed) ^ me;
        let is_inside = seat < SEATS && self.inside[seat].load_relaxed() != 0;
        if is_inside || self.holder.load(Ordering::Relaxed) == me {
            return Err(Reentered);
        }
        let mut visits = enter(&self.visits);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner ^ me < SEATS {
            // A visitor was here, and has given it back.
            return Ok(self.owner_guard(owner ^ me));
        }
        if owner != NOBODY {
            self.end_ownership(owner % SEATS);
            visits.earn = visits.earn.saturating_mul(EARN_GROWS).min(EARN_MAX);
        }
        if let Some(seat) = visits.count(me).filter(|_| is_lopsided()) {
            let guard = self.owner_guard(seat);
            self.owner.store(me ^ seat, Ordering::Relaxed);
            return Ok(guard);
        }
        Ok(self.visitor_guard(me, visits, NOBODY))
    }

    /// From here on the owner comes the long way; waits until it has left. The mutex is held.
    fn end_ownership(&self, seat: usize) {
        let inside = &self.inside[seat];
        self.owner.store(NOBODY, Ordering::Relaxed);
        settle(); // ENTER
        // Mostly it is about to leave: that is waited for here before anybody has to be woken.
        for _ in 0..PATIENCE {
            if inside.load_acquire() == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        self.awaited.store(true, Ordering::Relaxed);
        settle(); // LEAVE
        while inside.load_acquire() != 0 {
            let _ = inside.wait(1, None, Among::Threads);
        }
        self.awaited.store(false, Ordering::Relaxed);
    }
}

impl Visits {
    /// Counts a visit of `me`; the seat from which it owns the lock, if it has earned that and there is one.
    fn count(&mut self, me: usize) -> Option<usize> {
        self.vacate(me);
        self.run = if self.last == me { self.run + 1 } else { 0 };
        self.last = me;
        if self.run < self.earn {
            return None;
        }
        self.run = 0;
        if !me.is_multiple_of(SEATS) {
            return None; // Threads are told apart by addresses, whose lowest bits are free; this one's are not.
        }
        let seat = self.seats.iter().position(|&thread| thread == NOBODY)?;
        self.seats[seat] = me;
        Some(seat)
    }

    /// The thread is not on its short way in, and nobody else can be on its behalf.
    fn vacate(&mut self, me: usize) {
        self.seats.iter_mut().filter(|thread| **thread == me).for_each(|thread| *thread = NOBODY);
    }
}

impl<T> BiasedGuard<'_, T> {
    #[inline(always)]
    fn lock(&self) -> &BiasedLock<T> {
        match &self.0 {
            Way::Short(guard) => guard.lock,
            Way::Long(guard) => guard.lock,
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
