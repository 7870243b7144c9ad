//! Runs the seeds of a simulation on all processors, as the environment chooses them:
//!
//! | variable | what it means |
//! | --- | --- |
//! | `SIMULATE_RUNS`, `SIMULATE_SEED` | so many seeds, from 1 or this one on |
//! | `SIMULATE_SEED` alone | this seed; all that happens in it is printed |
//! | `SIMULATE_FIRST` | it ends at the first finding |

#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What a run of a seed gives: the course of events, if it was asked for, and what was done or found.
pub type Outcome<S> = (Vec<String>, Result<S, String>);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs the seeds that the environment chooses, else 1 to `short` and `further` ones. `run` gets a seed, and whether to
/// keep the course of events. Panics if something was found.
pub fn run_chosen<S: Debug>(short: u64, further: &[u64], run: impl Fn(u64, bool) -> Outcome<S> + Sync) {
    match (number("SIMULATE_SEED"), number("SIMULATE_RUNS")) {
        (Some(only), None | Some(1)) => {
            let (log, found) = run(only, true);
            println!("{}", log.join("\n"));
            match found {
                Ok(summary) => println!("seed {only}: {summary:?}"),
                Err(found) => panic!("seed {only}: {found}"),
            }
        }
        (None, None) => run_all(&(1..=short).chain(further.iter().copied()).collect::<Vec<u64>>(), run),
        (first, runs) => {
            let first = first.unwrap_or(1);
            run_all(&(first..first + runs.unwrap_or(short)).collect::<Vec<u64>>(), run);
        }
    }
}

fn run_all<S>(seeds: &[u64], run: impl Fn(u64, bool) -> Outcome<S> + Sync) {
    let (began, next, failed) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let ends_at_first = std::env::var_os("SIMULATE_FIRST").is_some();
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let (_, Err(found)) = run(*seed, false) {
                println!("seed {seed}: {found}");
                failed.lock().expect("no run panics here").push(*seed);
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
    let failed = failed.into_inner().expect("no run panics here");
    assert!(failed.is_empty(), "these seeds break the promise: {failed:?}");
}
