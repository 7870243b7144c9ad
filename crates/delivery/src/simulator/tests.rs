//! Runs seeds of the simulator.

use pinnace_seeds::run_chosen;

use super::run;

/// The short run uses seeds 1 to this.
const SHORT_RUN_SEEDS: u64 = 300;
/// So many seeds are run twice and compared.
const DETERMINISM_SEEDS: u64 = 10;

/// Further seeds that once broke the promise.
const REGRESSION_SEEDS: [u64; 33] = [
    310, 335, 343, 347, 361, 381, 447, 681, 704, 733, 841, 1128, 1220, 1312, 356, 583, 3394, 4215, 4747,
    5418, 12811, 18838, 668, 1833, 2911, 7725, 10902, 11705, 12027, 15671, 914, 8590, 19931,
];

/// Runs the short run, or the seeds that the environment chooses (`pinnace_seeds`).
#[test]
fn seeds_keep_the_promise() {
    run_chosen(SHORT_RUN_SEEDS, &REGRESSION_SEEDS, |seed, log| {
        let (log, found) = run(seed, log);
        (log, found.map_err(|found| found.join("\n    ")))
    });
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 1..=DETERMINISM_SEEDS {
        assert_eq!(run(seed, true), run(seed, true), "seed {seed}");
    }
}
