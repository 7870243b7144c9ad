//! Options of guaranteed delivery and of file transfer, set by name as text: for interfaces that cannot have a method
//! for each, the C ABI and the port.
//!
//! | module | what it is |
//! | --- | --- |
//! | `values` | a table of options with the types of their values |
//! | `delivery` | a client of guaranteed delivery |
//! | `files`, `rules` | servers and clients of file transfer; the rules of a transfer |

#![forbid(unsafe_code)]

mod delivery;
mod files;
mod rules;
mod values;

pub use delivery::{DeliveryOptions, KnownPeer};
pub use files::{ClientOptions, Folder, ServerOptions};
pub use rules::TransferRules;
pub use values::Unset;
