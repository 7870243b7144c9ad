//! What interfaces to other languages have in common, the C ABI and the port: options of guaranteed delivery and of
//! file transfer by name as text, because they cannot have a function for each; and errors as numbers.
//!
//! | module | what it is |
//! | --- | --- |
//! | `values` | a table of options with the types of their values |
//! | `delivery` | a client of guaranteed delivery |
//! | `errno` | the number of an error of delivery, of file transfer or of a certificate |
//! | `files`, `rules` | servers and clients of file transfer; the rules of a transfer |

#![forbid(unsafe_code)]

mod delivery;
pub mod errno;
mod files;
mod rules;
mod values;

pub use delivery::{DeliveryOptions, KnownPeer};
pub use files::{ClientOptions, Folder, ServerOptions};
pub use rules::TransferRules;
pub use values::Unset;
