//! Reads the content of a store without changing it, even while another process has it open.
//!
//! It reads the store's files, which may be a tenth of a second behind. Messages held in memory only are not in them.
//!
//! ```
//! use pinnace_delivery::{Client, peek};
//! # let dir = tempfile::tempdir()?;
//! let shop = Client::builder("shop", "orders").data_dir(dir.path()).registry("none").start()?;
//! shop.send_to("invoices", b"3 pinnaces")?;
//! let senders = peek(dir.path())?;
//! assert_eq!((senders[0].name.as_str(), senders[0].pending[0].messages), ("shop", 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;

use crate::store::{State, view};
use crate::{Error, Pending};

/// A client of a store, and its pending messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub name: String,
    /// By receiver and topic, including those with no pending messages.
    pub pending: Vec<Pending>,
}

/// The clients of the store in a directory. Errors: Io, there is no store or it cannot be read; Damaged, also if for
/// 10 s another process uses its files again faster than they are read.
pub fn peek(store: &Path) -> Result<Vec<Sender>, Error> {
    Ok(view(store, |state, _| Ok(state.clients.iter().map(|client| sender(state, client)).collect()))?)
}

fn sender(state: &State, client: &crate::store::records::ClientRecord) -> Sender {
    let own = state.outbox.iter().filter(|stream| stream.record.client == client.number);
    Sender { name: client.name.clone(), pending: own.map(Pending::of).collect() }
}
