//! A simulation of clients, disks, network and registry, in virtual time and on one thread, decided by a seed.
//!
//! The clients are those of production: store, log, peer loop, inbox, registry watch and the calls of their users. Only
//! what they stand on is replaced: time and randomness (`environment`), the disk (`log::tests::faulty`), the network
//! (`network`), the registry (`registry`), and the threads, whose steps the simulation takes itself. `promise` states
//! what must hold. A seed always gives the same run, so a finding can be looked at as often as needed:
//!
//! ```text
//! make simulate RUNS=20000            # seeds 1 to 20000
//! make simulate SEED=4711             # one run, with all that happens in it
//! ```

mod acts;
mod network;
mod node;
mod promise;
mod registry;
mod tests;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Summary, World};

use crate::environment::simulated::Simulation;

/// Runs one seed. Returns what happened, if `log` is set, and what was found.
fn run(seed: u64, log: bool) -> (Vec<String>, Result<Summary, Vec<String>>) {
    let _simulation = Simulation::begin(seed);
    let mut world = World::new(seed, log);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let found = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(vec![format!("panic: {}", text.unwrap_or_else(|| "of another type".to_owned()))])
    });
    (world.take_log(), found)
}
