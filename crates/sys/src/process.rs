//! Identity of this process.

/// Its effective user id (credentials(7)).
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The number of processors that are online, including those that this process may not use.
pub fn processors() -> usize {
    // SAFETY: the call accesses no memory of ours. It fails only for unknown names.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}
