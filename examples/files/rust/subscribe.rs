//! Subscribes to a folder: fetches it, and then whatever changes in it, until the program is stopped.
//!
//! cargo run -p pinnace --example files_subscribe -- tcp://127.0.0.1:5670 /photos/ copy

use std::error::Error;
use std::path::Path;

use futures::StreamExt;
use pinnace::files::client::{Client, Event};
use pinnace::files::rules::Rules;

async fn subscribe(endpoint: &str, path: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(endpoint)?;
    // A mirror: what the server removes is removed here too.
    let mut transfer = client.follow(path, to, Rules::mirror());
    // Any executor will do; no thread waits for the events.
    while let Some(event) = transfer.next().await {
        match event {
            Event::Current => println!("current"),
            Event::Finished { path, .. } => println!("changed {path}"),
            Event::Removed { path, .. } => println!("removed {path}"),
            Event::Moved { from, to, .. } => println!("moved {from} to {to}"),
            Event::Failed { path, error } => println!("{path}: {error}"),
            Event::Aborted(error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, endpoint, path, to] = &words[..] else { return Err("subscribe ENDPOINT PATH TO".into()) };
    pollster::block_on(subscribe(endpoint, path, Path::new(to)))
}
