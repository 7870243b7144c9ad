//! A pipeline: one thread hands out tasks, several threads work on them, and one collects the results.
//!
//! cargo run --example push_pull

use std::thread;

use pinnace::{Context, Error, Pull, Push};

const WORKERS: u64 = 3;
const TASKS: u64 = 100_000;

fn work(context: &Context) -> Result<(), Error> {
    let tasks = Pull::builder(context).connect("inproc://tasks")?;
    let results = Push::builder(context).connect("inproc://results")?;
    // The iterator ends when the context is shut down.
    for task in &tasks {
        let number: u64 = task?.text().and_then(|text| text.parse().ok()).unwrap_or_default();
        results.send((number * number).to_string())?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let context = Context::new()?;
    let tasks = Push::builder(&context).bind("inproc://tasks")?;
    let results = Pull::builder(&context).bind("inproc://results")?;
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let context = context.clone();
            thread::spawn(move || work(&context))
        })
        .collect();
    let sender = thread::spawn(move || (1..=TASKS).try_for_each(|task| tasks.send(task.to_string())));
    let mut sum = 0;
    for result in results.iter().take(TASKS as usize) {
        sum += result?.text().and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    }
    sender.join().expect("the sender ends")?;
    context.shutdown()?;
    for worker in workers {
        worker.join().expect("a worker ends")?;
    }
    println!("the squares of 1 to {TASKS} add up to {sum}");
    assert_eq!(sum, TASKS * (TASKS + 1) * (2 * TASKS + 1) / 6);
    Ok(())
}
