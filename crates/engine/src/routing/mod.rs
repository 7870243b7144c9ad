//! The parts that patterns are built from: each selects pipes for messages, or keeps what peers have asked for.
//!
//! | part | what it does | used by |
//! | --- | --- | --- |
//! | `balance` | sends each message to the next pipe with room | PUSH, DEALER, REQ |
//! | `fair` | receives round robin, one whole message from each pipe | all that receive |
//! | `spread` | sends each message to several pipes | PUB, XPUB, XSUB, RADIO |
//! | `names`, `numbers` | find a pipe by routing id, or by number | ROUTER; SERVER, PEER |
//! | `subscriptions`, `radix` | topics or groups of each pipe, matched by prefix or exactly | PUB, XPUB, RADIO, SUB |
//! | `announced` | tells peers the socket's topics or groups, and each change | SUB, XSUB, DISH |
//! | `intake`, `upstream` | a publisher's input: subscriptions, and messages for the application | PUB, XPUB |
//! | `kept` | a frame popped before the application receives it | SUB, XPUB |

mod announced;
mod balance;
mod fair;
mod intake;
mod kept;
mod names;
mod numbers;
mod radix;
mod spread;
mod subscriptions;
mod upstream;

pub(crate) use announced::Announced;
pub(crate) use balance::Balance;
pub(crate) use fair::{Fair, drop_malformed, is_single};
pub(crate) use intake::UpstreamIntake;
pub(crate) use kept::Kept;
pub(crate) use names::{RoutingTable, Standing};
pub(crate) use numbers::Numbers;
pub(crate) use radix::{Radix, Value};
pub(crate) use spread::Spread;
pub(crate) use subscriptions::{Added, Subscriptions};
