//! Runs seeds of the simulator.

use pinnace_seeds::run_chosen;

use super::run;

/// The short run uses seeds 1 to this.
const SHORT_RUN_SEEDS: u64 = 300;
/// So many seeds are run twice and compared.
const DETERMINISM_SEEDS: u64 = 10;

/// Runs the short run, or the seeds that the environment chooses (`pinnace_seeds`).
#[test]
fn seeds_keep_the_promise() {
    run_chosen(SHORT_RUN_SEEDS, &[], run);
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 1..=DETERMINISM_SEEDS {
        assert_eq!(run(seed, true), run(seed, true), "seed {seed}");
    }
}
