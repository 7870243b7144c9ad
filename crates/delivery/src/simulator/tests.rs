//! Runs seeds of the simulator.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs SIMULATE_RUNS seeds from SIMULATE_SEED on. With SIMULATE_SEED alone, runs that seed and prints its events; with
/// neither, the short run.
/// With SIMULATE_FIRST it ends at the first finding.
#[test]
fn seeds_keep_the_promise() {
    let (seed, runs) = (number("SIMULATE_SEED"), number("SIMULATE_RUNS"));
    match (seed, runs) {
        (Some(only), None | Some(1)) => {
            let (log, found) = run(only, true);
            println!("{}", log.join("\n"));
            match found {
                Ok(summary) => println!("seed {only}: {summary:?}"),
                Err(found) => panic!("seed {only}: {}", found.join("\n")),
            }
        }
        (None, None) => run_all(&(1..=SHORT_RUN_SEEDS).chain(REGRESSION_SEEDS).collect::<Vec<u64>>()),
        (first, runs) => {
            let first = first.unwrap_or(1);
            run_all(&(first..first + runs.unwrap_or(SHORT_RUN_SEEDS)).collect::<Vec<u64>>());
        }
    }
}

/// Runs seeds on all processors, and prints what was found. Panics if a seed breaks the promise.
fn run_all(seeds: &[u64]) {
    let (began, next, failed) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let ends_at_first = std::env::var_os("SIMULATE_FIRST").is_some();
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let (_, Err(found)) = run(*seed, false) {
                println!("seed {seed}: {}", found.join("\n    "));
                failed.lock().unwrap().push(*seed);
                if ends_at_first {
                    next.store(seeds.len(), Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        (0..count).for_each(|_| drop(scope.spawn(work)));
    });
    let (count, time) = (seeds.len().min(next.into_inner()), began.elapsed().as_secs_f64());
    println!("{count} seeds in {time:.1} s, {:.0} a minute", count as f64 / time * 60.0);
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "these seeds break the promise: {failed:?}");
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 1..=DETERMINISM_SEEDS {
        assert_eq!(run(seed, true), run(seed, true), "seed {seed}");
    }
}
