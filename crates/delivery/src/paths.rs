//! The default paths of this user's stores and registry.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::registry::{file_name, path_of};

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

/// The address of a registry, independent of the current directory.
pub(crate) fn absolute_registry(url: &str) -> String {
    let scheme = url.split_once("://").map_or("dir", |(scheme, _)| scheme);
    match path_of(url).and_then(|path| std::path::absolute(path).ok()) {
        Some(path) => format!("{scheme}://{}", path.display()),
        None => url.to_owned(),
    }
}

/// Where the state of this user's programs lies, by the XDG Base Directory Specification; without a home directory,
/// that of the system. Never below `/tmp`, where another user may have put something first.
fn state_dir() -> PathBuf {
    state_dir_of(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")).join("pinnace")
}

fn state_dir_of(state: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute(home).map(|home| home.join(".local/state"));
    absolute(state).or_else(home).unwrap_or_else(|| PathBuf::from("/var/lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_home_the_state_is_the_systems() {
        let given = |state: Option<&str>, home: Option<&str>| {
            state_dir_of(state.map(OsString::from), home.map(OsString::from))
        };
        assert_eq!(given(Some("/state"), Some("/users/me")), PathBuf::from("/state"));
        assert_eq!(given(Some("relative"), Some("/users/me")), PathBuf::from("/users/me/.local/state"));
        for home in [None, Some(""), Some("relative")] {
            assert_eq!(given(None, home), PathBuf::from("/var/lib"), "{home:?}");
        }
    }
}
