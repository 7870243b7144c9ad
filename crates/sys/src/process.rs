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

/// Whether any signal has a handler in this process (sigaction(2)), but for those that a thread causes itself.
pub fn handles_signals() -> bool {
    const OWN: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGXFSZ];
    (1..=libc::SIGRTMAX()).filter(|signal| !OWN.contains(signal)).any(|signal| {
        // SAFETY: an action of zeros is one, which the call writes over; none is set.
        let (known, action) = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            (libc::sigaction(signal, std::ptr::null(), &mut action) == 0, action.sa_sigaction)
        };
        known && action != libc::SIG_DFL && action != libc::SIG_IGN
    })
}
