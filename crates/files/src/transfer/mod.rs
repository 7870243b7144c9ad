//! What both ends of a transfer do with files: reading, writing, groups and digests, parts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `digest` | the values of groups and blocks, and the digest that they form |
//! | `outgoing` | a file on its way out: the frames of its chunks |
//! | `sent_values` | the values of files that were sent, to be sent again |
//! | `incoming` | a file on its way in: its part, and the record of its blocks |
//! | `hard_links` | further names of files |
//! | `holes` | zeros that are told and not sent |
//! | `pack`, `codec` | chunks that travel compressed |
//! | `sidecar` | the octets of that record |
//! | `comparison` | the blocks of a file that are here already |
//! | `arrivals` | the files of a request that arrive |
//! | `place` | where these go |
//! | `selection` | the rules, as they are applied: which names are left out, which files are replaced |
//! | `old_parts` | removes the parts of transfers that ended early |
//! | `mirror` | removes names that the source does not have |

pub mod arrivals;
#[cfg_attr(not(feature = "zstd"), path = "no_codec.rs")]
pub mod codec;
pub mod comparison;
pub mod digest;
pub mod hard_links;
pub mod holes;
pub mod incoming;
pub mod mirror;
mod old_parts;
pub mod outgoing;
pub mod pack;
pub mod place;
pub mod selection;
pub mod sent_values;
pub mod sidecar;
