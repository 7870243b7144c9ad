//! The library's threads, and scheduling: processors, policy and priority of a thread.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use rustix::io::Errno;

use crate::signals::Mask;

/// Exclusive upper limit of processor numbers.
pub const PROCESSORS: usize = libc::CPU_SETSIZE as usize;

/// Starts a thread of the library, with the application's signals blocked ([`Mask::library`]). If `name` is empty, it
/// has the name of the thread that starts it.
pub fn start<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    start_by(name, |builder| builder.spawn(run))
}

/// As [`start`], in a scope.
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    start_by(name, |builder| builder.spawn_scoped(scope, run))
}

/// Starts a thread while the calling thread has the library's mask. The new thread inherits it from its first
/// instruction on.
fn start_by<T>(name: &str, spawn: impl FnOnce(Builder) -> io::Result<T>) -> io::Result<T> {
    let builder = match name {
        "" => Builder::new(),
        name => Builder::new().name(name.to_owned()),
    };
    Mask::library().during(|| spawn(builder))
}

/// A C function for a thread to run. It may unwind: a thread that is cancelled or calls pthread_exit(3) does.
pub type Routine = unsafe extern "C-unwind" fn(argument: *mut c_void);

/// A thread that runs a [`Routine`].
pub struct RoutineThread(libc::pthread_t);

/// The argument of such a thread.
struct Start {
    run: Routine,
    argument: *mut c_void,
}

/// As [`start`], for a C function. std's threads catch an unwinding, and abort the process if it is not a panic.
///
/// # Safety
/// It must be sound to call `run` with `argument` on another thread.
pub unsafe fn start_routine(run: Routine, argument: *mut c_void) -> Result<RoutineThread, Errno> {
    let start = Box::into_raw(Box::new(Start { run, argument }));
    let mut thread = 0;
    // SAFETY: a variable for the thread's id, the default attributes, and an argument that `enter` takes ownership
    // of.
    let outcome =
        Mask::library().during(|| unsafe { pthread_create(&mut thread, ptr::null(), enter, start.cast()) });
    if outcome != 0 {
        // SAFETY: no thread has taken ownership of it.
        drop(unsafe { Box::from_raw(start) });
        return Err(Errno::from_raw_os_error(outcome));
    }
    Ok(RoutineThread(thread))
}

/// The thread's first frame. It has nothing to drop while the function runs.
unsafe extern "C-unwind" fn enter(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start_routine` has given up its ownership.
    let Start { run, argument } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: the promise of the caller of `start_routine`.
    unsafe { run(argument) };
    ptr::null_mut()
}

unsafe extern "C" {
    // As libc declares it, except that the routine may unwind.
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}

impl RoutineThread {
    /// Waits until the thread has ended: by return, pthread_exit(3) or cancellation.
    pub fn join(self) -> Result<(), Errno> {
        // SAFETY: a thread that was started, and is joined only here.
        match unsafe { libc::pthread_join(self.0, ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(Errno::from_raw_os_error(error)),
        }
    }
}

/// Restricts the calling thread to these processors (sched_setaffinity(2)).
pub fn run_on(processors: &[usize]) -> Result<(), Errno> {
    // SAFETY: a processor set is plain bits, and all zeros is the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &processor in processors.iter().filter(|&&processor| processor < PROCESSORS) {
        // SAFETY: within the set, as filtered above.
        unsafe { libc::CPU_SET(processor, &mut set) };
    }
    // SAFETY: the calling thread, and a set of the size given.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(crate::last_error()),
    }
}

/// Sets policy and priority of the calling thread (sched(7)); None leaves the value as it is. For a policy without
/// priorities, a priority above 0 sets the lowest nice value.
pub fn schedule(policy: Option<i32>, priority: Option<i32>) -> Result<(), Errno> {
    let (mut kind, mut parameters) = (0, libc::sched_param { sched_priority: 0 });
    // SAFETY: the calling thread, and two variables to write to.
    let outcome = unsafe { libc::pthread_getschedparam(libc::pthread_self(), &mut kind, &mut parameters) };
    if outcome != 0 {
        return Err(Errno::from_raw_os_error(outcome));
    }
    let kind = policy.unwrap_or(kind);
    let has_priority = matches!(kind, libc::SCHED_FIFO | libc::SCHED_RR);
    if let Some(priority) = priority {
        parameters.sched_priority = if has_priority { priority } else { 0 };
    }
    // SAFETY: the calling thread, and parameters.
    let outcome = unsafe { libc::pthread_setschedparam(libc::pthread_self(), kind, &parameters) };
    if outcome != 0 {
        return Err(Errno::from_raw_os_error(outcome));
    }
    if !has_priority && priority.is_some_and(|priority| priority > 0) {
        const MOST_URGENT: i32 = -20;
        // SAFETY: 0 is the calling thread (setpriority(2), on Linux).
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST_URGENT) } != 0 {
            return Err(crate::last_error());
        }
    }
    Ok(())
}
