//! What both ends of a transfer do with files: reading, writing, groups and digests, parts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `digest` | the values of groups and blocks, and the digest that they form |
//! | `outgoing` | a file on its way out: the frames of its chunks |
//! | `incoming` | a file on its way in: its part, and the record of its blocks |
//! | `sidecar` | the octets of that record |
//! | `comparison` | the blocks of a file that are here already |
//! | `arrivals` | the files of a request that arrive |
//! | `place` | where these go |
//! | `filter` | which names are left out |
//! | `mirror` | what is removed because the source does not have it |

pub mod arrivals;
pub mod comparison;
pub mod digest;
pub mod filter;
pub mod incoming;
pub mod mirror;
pub mod outgoing;
pub mod place;
pub mod sidecar;
