//! A simulation of a client, a server, their disks and the network, in virtual time and on one thread, decided by a
//! seed.
//!
//! Client and server are those of production: dialogue, credit, listing, parts, digests, mirroring. Only what they
//! stand on is replaced: the time (`clock`), the disks (`disk`), the network (`network`), and the threads, whose steps
//! the simulation takes itself. `promise` states what must hold. A seed always gives the same run, so a finding can be
//! looked at as often as needed:
//!
//! ```text
//! make simulate-files RUNS=10000      # seeds 1 to 10000
//! make simulate-files SEED=4711       # one run, with all that happens in it
//! ```

mod acts;
mod contents;
mod disk;
mod network;
mod node;
mod promise;
mod random;
mod tests;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Summary, World};

/// Runs one seed. Returns what happened, if `log` is set, and what was found.
fn run(seed: u64, log: bool) -> (Vec<String>, Result<Summary, String>) {
    let mut world = World::new(seed, log);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let found = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_else(|| "of another type".to_owned())))
    });
    (world.take_log(), found)
}
