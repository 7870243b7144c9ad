//! Uploads a file or a folder to a server that was started with a writable folder.
//!
//! cargo run -p pinnace --example files_upload -- tcp://127.0.0.1:5670 new/ /photos/new

use std::error::Error;
use std::path::Path;

use pinnace::files::client::Client;
use pinnace::files::rules::{Pattern, Rules};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, endpoint, from, path] = &words[..] else { return Err("upload ENDPOINT FROM PATH".into()) };
    let client = Client::connect(endpoint)?;
    // Temporary files stay here.
    let rules = Rules { filter: vec![Pattern::exclude("*.tmp")], ..Rules::default() };
    let report = client.put_by(Path::new(from), path, rules).wait()?;
    for (name, error) in &report.failed {
        println!("{name}: {error}");
    }
    println!("result files={} failed={}", report.files, report.failed.len());
    if report.failed.is_empty() { Ok(()) } else { Err("some files failed".into()) }
}
