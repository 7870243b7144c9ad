//! The dialogue of two sides, without a socket. Each side may provide files and request them: a client fetches by
//! requests to the server, and uploads by letting the server fetch from it.
//!
//! | module | what it is |
//! | --- | --- |
//! | `provider` | the requests that are served, as far as there is credit |
//! | `mounts`, `job`, `walk` | the folders behind virtual paths; one request; one listing |
//! | `details` | what a listing tells besides attributes; files of several names |
//! | `files`, `values` | the files of a request; the values of a file's blocks |
//! | `changes`, `follow` | what changes in a folder, and its subscribers; a request that tells changes |
//! | `push`, `pushed_file` | what subscribers get that do not know the extensions; one file for them |
//! | `cache` | the digests by which a subscriber tells what it has |
//! | `requester` | own requests, and the credit that is granted |
//! | `operation` | what requests belong to; `fetch`, `listing`, `upload`, `stream`: the kinds |
//! | `names`, `in_use` | names that a fetch asks for later; files that another transfer writes |
//! | `plain`, `plain_follow` | towards a server without the extensions: subscriptions; one followed path |
//! | `packed` | compressed chunks, and what they cost |
//! | `window`, `events` | how much credit; what is told of an operation |

mod cache;
pub mod changes;
mod details;
pub mod events;
pub mod fetch;
mod files;
mod follow;
mod in_use;
mod job;
pub mod listing;
pub mod mounts;
mod names;
pub mod operation;
mod packed;
pub mod plain;
mod plain_follow;
pub mod provider;
mod push;
mod pushed_file;
pub mod requester;
pub mod stream;
pub mod upload;
mod values;
mod walk;
mod window;

use crate::error::FileError;
use crate::transfer::digest::Digest;
use listing::Listed;

/// What happens during a transfer. A path is a virtual one; of an upload, that at the server, or the path of this host
/// if the source failed; of [`Event::Listed`], a name below the transfer's path.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A name, in a listing.
    Listed(Listed),
    /// A file begins that is not a small one: those go many to a chunk.
    Begun { path: String, size: u64 },
    /// Further octets were written, or of an upload were sent.
    Progress { bytes: u64 },
    /// A file is whole and in its place.
    Finished { path: String, size: u64, digest: Digest },
    /// The source no longer has a path. `here`: it was removed here too.
    Removed { path: String, here: bool },
    /// The source has moved a path. `here`: it was moved here too.
    Moved { from: String, to: String, here: bool },
    /// A file that is here has another name too.
    Linked { path: String, first: String },
    /// Of a dry run: the path would be made, replaced or removed.
    Planned { path: String, removal: bool },
    /// Of a path that is followed: everything in its last listing is here.
    Current,
    /// Of a path that is followed: the server does not answer any more, for this reason. It is tried again until the
    /// transfer is cancelled; `Current` follows when it has answered.
    Lost(crate::error::Error),
    /// A file failed; the others go on.
    Failed { path: String, error: FileError },
    /// The transfer is complete.
    Ended(Report),
    /// The transfer has ended before it was complete.
    Aborted(crate::error::Error),
}

impl Event {
    /// It changes what a program does next, so nobody is kept waiting for it.
    fn is_urgent(&self) -> bool {
        matches!(
            self,
            Event::Current | Event::Lost(_) | Event::Failed { .. } | Event::Ended(_) | Event::Aborted(_)
        )
    }
}

/// What a transfer has come to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Files that were transferred, and their octets.
    pub files: u64,
    pub bytes: u64,
    /// Files that failed, and why.
    pub failed: Vec<(String, FileError)>,
}

/// A path as text; octets that are no UTF-8 are replaced.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
