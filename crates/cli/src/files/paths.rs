//! The paths of a transfer: where a path of the server is on this host, and which paths are the transfer as a whole.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinnace::files::error::FileError;

/// A transfer's source and target.
pub struct Paths {
    /// The virtual path, without a slash at its end.
    path: String,
    local: Local,
}

/// This host's side.
enum Local {
    None,
    /// Files come here. `own`: the name by which a folder goes into `to`.
    Target {
        to: PathBuf,
        own: Option<String>,
    },
    /// Files go to the server. `own`: the name by which a folder goes into the virtual path.
    Source {
        from: PathBuf,
        own: Option<String>,
    },
}

impl Paths {
    /// Of a transfer that has no path on this host.
    pub fn of(path: &str) -> Paths {
        Paths { path: trimmed(path).to_owned(), local: Local::None }
    }

    pub fn to(path: &str, to: &Path) -> Paths {
        let own = path.rsplit('/').next().filter(|own| !own.is_empty()).map(str::to_owned);
        Paths { local: Local::Target { to: to.to_owned(), own }, ..Paths::of(path) }
    }

    pub fn from(from: &Path, path: &str) -> Paths {
        let is_content = from.as_os_str().as_bytes().ends_with(b"/");
        let own = from.file_name().filter(|_| !is_content).map(|own| own.to_string_lossy().into_owned());
        Paths { local: Local::Source { from: from.to_owned(), own }, ..Paths::of(path) }
    }

    pub fn is_upload(&self) -> bool {
        matches!(self.local, Local::Source { .. })
    }

    /// The path on this host of a virtual path. None: the transfer has no target here.
    pub fn local(&self, virtual_path: &str) -> Option<PathBuf> {
        let Local::Target { to, own } = &self.local else { return None };
        let below = virtual_path.strip_prefix(&self.path).unwrap_or(virtual_path).trim_start_matches('/');
        let is_directory = !below.is_empty() || to.is_dir() || to.as_os_str().as_bytes().ends_with(b"/");
        let own = own.iter().filter(|_| is_directory).map(Path::new);
        let names = own.chain((!below.is_empty()).then_some(Path::new(below)));
        Some(names.fold(to.clone(), |path, name| path.join(name)))
    }

    /// A virtual path by its name on this host, if the transfer has a target here.
    pub fn here(&self, virtual_path: &str) -> String {
        self.local(virtual_path).map_or_else(|| virtual_path.to_owned(), |local| local.display().to_string())
    }

    /// What failed, by its name on the host where it did. Files of an upload that failed here are told so already.
    pub fn name_of_failed(&self, path: &str, error: &FileError) -> String {
        if error.here { self.here(path) } else { path.to_owned() }
    }

    /// The virtual path of a file or folder that failed. `path`: as the event has it.
    pub fn virtual_path_of_failed(&self, path: &str, error: &FileError) -> String {
        let Local::Source { from, own } = &self.local else { return path.to_owned() };
        let below = Path::new(path).strip_prefix(from).ok().filter(|_| error.here);
        let Some(below) = below.map(Path::to_string_lossy) else { return path.to_owned() };
        let own = own.as_deref().filter(|_| from.is_dir());
        let names = own.into_iter().chain((!below.is_empty()).then_some(&*below));
        names.fold(self.path.clone(), |path, name| format!("{path}/{name}"))
    }

    /// Returns true if a path that failed is the transfer as a whole, and not a file of a folder.
    pub fn is_whole(&self, path: &str, error: &FileError) -> bool {
        let path = trimmed(path);
        match &self.local {
            Local::Source { from, .. } if error.here => Path::new(path) == from,
            Local::Source { own: Some(own), .. } => {
                path.strip_prefix(&self.path).is_some_and(|below| below.trim_start_matches('/') == own)
                    || path == self.path
            }
            _ => path == self.path,
        }
    }
}

fn trimmed(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}
