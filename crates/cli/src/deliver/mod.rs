//! `pinnace deliver`: guaranteed delivery for shells and scripts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `send`, `recv`, `registry` | a command each |
//! | `client` | the client of a command: its start, its waits, its failures in words |
//! | `holder` | which process has a store |
//! | `columns` | rows of words as columns |

mod client;
mod columns;
mod holder;
mod recv;
mod registry;
mod send;

use crate::outcome::Outcome;
use crate::table::deliver::Deliver;

pub fn run(command: &Deliver) -> Outcome {
    match command {
        Deliver::Send(given) => send::run(given),
        Deliver::Recv(given) => recv::run(given),
        Deliver::Registry(given) => registry::run(given),
    }
}
