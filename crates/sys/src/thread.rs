//! Threads of the library, and how one is scheduled: on which processors, by which policy, how urgently.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use rustix::io::Errno;

use crate::signals::Mask;

/// Processors that can be told apart: 0 to this, less one.
pub const PROCESSORS: usize = libc::CPU_SETSIZE as usize;

/// Starts a thread of the library, with the application's signals blocked ([`Mask::library`]). Without a name it has
/// that of the thread that starts it.
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

/// A thread inherits its mask: it has never run with another.
fn start_by<T>(name: &str, spawn: impl FnOnce(Builder) -> io::Result<T>) -> io::Result<T> {
    let builder = match name {
        "" => Builder::new(),
        name => Builder::new().name(name.to_owned()),
    };
    Mask::library().during(|| spawn(builder))
}

/// Has the thread run on these processors only (sched_setaffinity(2)).
pub fn run_on(processors: &[usize]) -> Result<(), Errno> {
    // SAFETY: a processor set is plain bits, and zeros are the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &processor in processors.iter().filter(|&&processor| processor < PROCESSORS) {
        // SAFETY: inside the set, as looked at above.
        unsafe { libc::CPU_SET(processor, &mut set) };
    }
    // SAFETY: the calling thread, and a set of the size given.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(crate::last_error()),
    }
}

/// Sets policy and priority of the thread (sched(7)); what is None stays. The policies without a priority of their
/// own take one as "more urgent than others": the lowest nice value that there is.
pub fn schedule(policy: Option<i32>, priority: Option<i32>) -> Result<(), Errno> {
    let (mut kind, mut parameters) = (0, libc::sched_param { sched_priority: 0 });
    // SAFETY: the calling thread, and two places to write to.
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
