//! Many clients in one process, and how far each is when the first one ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use pinnace::files::client::{Client, Event, Transfer};

use crate::Outcome;

/// With so many clients the server may take long to answer each.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far the clients are.
struct Crowd {
    /// The bytes that each client has verified.
    bytes: Vec<AtomicU64>,
    /// `bytes` and the time, when the first client ended.
    at_first_end: OnceLock<(Vec<u64>, Instant)>,
}

impl Crowd {
    /// Follows a client's transfer to its end.
    fn follow(&self, number: usize, transfer: &Transfer) -> Result<(), String> {
        while let Some(event) = transfer.next_event() {
            match event {
                Event::Progress { bytes } => drop(self.bytes[number].fetch_add(bytes, Ordering::Relaxed)),
                Event::Ended(report) if report.failed.is_empty() => {
                    self.at_first_end.get_or_init(|| (self.now(), Instant::now()));
                    return Ok(());
                }
                Event::Ended(report) => return Err(format!("client {number}: {:?}", report.failed)),
                Event::Aborted(error) => return Err(format!("client {number}: {error}")),
                _ => {}
            }
        }
        Err(format!("client {number}: no report"))
    }

    fn now(&self) -> Vec<u64> {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect()
    }
}

pub fn main(endpoint: &str, path: &str, count: usize) -> Outcome {
    let clients = (0..count).map(|_| Client::builder(endpoint).patience(PATIENCE).connect());
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let crowd =
        Crowd { bytes: (0..count).map(|_| AtomicU64::new(0)).collect(), at_first_end: OnceLock::new() };
    let (start, began) = (Barrier::new(count), OnceLock::new());
    let follow = |number: usize, client: &Client| {
        start.wait();
        began.get_or_init(Instant::now);
        crowd.follow(number, &client.discard(path))
    };
    let ended: Vec<Result<(), String>> = thread::scope(|scope| {
        let (follow, numbered) = (&follow, clients.iter().enumerate());
        let threads = numbered.map(|(number, client)| scope.spawn(move || follow(number, client)));
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".to_owned())))
            .collect()
    });
    ended.into_iter().collect::<Result<(), String>>()?;
    let (Some(began), Some((far, first))) = (began.get(), crowd.at_first_end.get()) else {
        return Err("no client has ended".into());
    };
    let mut far = far.clone();
    far.sort_unstable();
    println!(
        "clients={count} bytes={} slowest={} median={} first_ns={} last_ns={}",
        crowd.now().iter().sum::<u64>(),
        far[0],
        far[count / 2],
        first.duration_since(*began).as_nanos(),
        began.elapsed().as_nanos()
    );
    Ok(())
}
