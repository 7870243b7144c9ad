//! Who this process is.

/// Its effective user id (credentials(7)).
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How many processors the system has that are online, whichever of them this process may use.
pub fn processors() -> usize {
    // SAFETY: it reads and writes nothing of ours. It fails for unknown names alone.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}
