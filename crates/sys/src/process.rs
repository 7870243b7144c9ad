//! Who this process is.

/// Its effective user id (credentials(7)).
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
