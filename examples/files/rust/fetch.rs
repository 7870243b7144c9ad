//! Fetches a file or a folder, and prints how far it is.
//!
//! cargo run -p pinnace --example files_fetch -- tcp://127.0.0.1:5670 /photos/ copy

use std::error::Error;
use std::path::Path;

use pinnace::files::client::{Client, Event};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, endpoint, path, to] = &words[..] else { return Err("fetch ENDPOINT PATH TO".into()) };
    let client = Client::connect(endpoint)?;
    // With a slash at the end of the path, what is in the folder goes to `to`; without, the folder itself.
    let transfer = client.get(path, Path::new(to));
    let mut bytes = 0;
    for event in &transfer {
        match event {
            Event::Progress { bytes: more } => {
                bytes += more;
                eprint!("\r{bytes} bytes");
            }
            Event::Finished { path, .. } => println!("{path}"),
            // The others go on.
            Event::Failed { path, error } => println!("{path}: {error}"),
            Event::Ended(report) => {
                println!("result files={} failed={}", report.files, report.failed.len());
                if !report.failed.is_empty() {
                    return Err("some files failed".into());
                }
            }
            // What has arrived stays, and the next transfer goes on from there.
            Event::Aborted(error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
