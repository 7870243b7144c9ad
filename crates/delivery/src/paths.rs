//! The default paths of this user's stores and registry.

use std::path::PathBuf;

use crate::registry::file_name;

/// The directory that holds each client's store ([`Builder::data_dir`](crate::Builder::data_dir)).
pub fn stores() -> PathBuf {
    state_dir().join("delivery")
}

/// The store of the client of this name.
pub fn store_of(name: &str) -> PathBuf {
    stores().join(file_name(name))
}

/// The address of the registry that this user's clients share.
pub fn registry() -> String {
    format!("dir://{}", state_dir().join("registry").display())
}

/// XDG Base Directory Specification.
fn state_dir() -> PathBuf {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("pinnace")
}
