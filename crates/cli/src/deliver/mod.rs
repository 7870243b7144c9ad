//! `pinnace deliver`: guaranteed delivery for shells and scripts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `send`, `recv`, `peek`, `clear`, `status`, `registry`, `forget` | a command each |
//! | `run` | the agent that drains the stores of processes that are gone |
//! | `exec` | the commands of `recv --exec` |
//! | `live` | `status` of a running client |
//! | `letters` | the commands `dead-letters` and `requeue` |
//! | `client` | the delivery client of a command: its start, its waits, its failures in words |
//! | `stores` | the stores of the user |
//! | `holder` | the process that has a store open |
//! | `columns` | rows of words as columns |

mod clear;
mod client;
mod columns;
mod exec;
mod forget;
mod holder;
mod letters;
mod live;
mod peek;
mod recv;
mod registry;
mod run;
mod send;
mod status;
mod stores;

use crate::outcome::Outcome;
use crate::table::deliver::Deliver;

pub fn run(command: &Deliver) -> Outcome {
    match command {
        Deliver::Send(given) => send::run(given),
        Deliver::Recv(given) => recv::run(given),
        Deliver::Status(given) => status::run(given),
        Deliver::DeadLetters(given) => letters::list(given),
        Deliver::Peek(given) => peek::run(given),
        Deliver::Clear(given) => clear::run(given),
        Deliver::Requeue(given) => letters::requeue(given),
        Deliver::Run(given) => run::run(given),
        Deliver::Registry(given) => registry::run(given),
        Deliver::Forget(given) => forget::run(given),
    }
}
