//! Producers and consumers: each job goes to the first worker that is free, and is done by one.
//!
//! cargo run --example delivery_producer_consumer

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use pinnace::delivery::{Client, Error};

const JOBS_OF_EACH: u64 = 150;

/// Works until the client is closed.
fn work(worker: &Client, done: &Mutex<Vec<String>>) -> Result<(), Error> {
    let ended = worker.run(|job| -> ControlFlow<()> {
        let text = format!("{} from {}", String::from_utf8_lossy(job.body()), job.from());
        done.lock().expect("nobody panics").push(text);
        ControlFlow::Continue(())
    });
    match ended {
        Err(Error::Closed) => Ok(()),
        ended => ended,
    }
}

fn main() -> Result<(), Error> {
    let start = |name: &&str| Client::builder(name, "jobs").start();
    let workers: Vec<Client> = ["Ann", "Ben", "Cat"].iter().map(start).collect::<Result<_, _>>()?;
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let working: Vec<_> = workers.iter().map(|worker| scope.spawn(|| work(worker, &done))).collect();
        let producing = ["mill", "forge"].map(|name| {
            scope.spawn(move || {
                let producer = Client::builder(name, &format!("{name}'s")).start()?;
                let numbers = 1..=JOBS_OF_EACH;
                numbers
                    .into_iter()
                    .try_for_each(|job| producer.send_to("jobs", job.to_string().as_bytes()))?;
                producer.wait_pending(0, None)
            })
        });
        let produced: Result<(), Error> =
            producing.into_iter().try_for_each(|thread| thread.join().expect("nobody panics"));
        let soon = Some(Instant::now() + Duration::from_secs(5));
        let closed: Result<(), Error> = workers.iter().try_for_each(|worker| worker.close(soon));
        let worked: Result<(), Error> =
            working.into_iter().try_for_each(|thread| thread.join().expect("nobody panics"));
        produced.and(closed).and(worked)
    })?;
    let mut done = done.into_inner().expect("nobody panics");
    done.sort();
    done.dedup();
    println!("result messages={} expected={}", done.len(), 2 * JOBS_OF_EACH);
    Ok(())
}
