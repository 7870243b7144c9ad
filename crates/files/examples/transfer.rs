//! Serves a folder, or fetches from it: `transfer serve ENDPOINT DIR`, `transfer get ENDPOINT PATH [TO]`.

use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_files::client::Client;
use pinnace_files::server::Server;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = given.iter().map(String::as_str).collect();
    match words[1..] {
        ["serve", endpoint, folder] => {
            let server = Server::builder().folder("/data", Path::new(folder))?.bind(endpoint).start()?;
            println!("{}", server.endpoints().join(" "));
            std::io::stdin().read_line(&mut String::new())?;
        }
        ["get", endpoint, path, ref to @ ..] => {
            let client = Client::connect(endpoint, Duration::from_secs(5))?;
            let began = Instant::now();
            let transfer = match to {
                [to] => client.get(path, Path::new(to)),
                _ => client.discard(path),
            };
            let report = transfer.wait()?;
            let seconds = began.elapsed().as_secs_f64();
            let rate = report.bytes as f64 / seconds / 1e9;
            println!("{} files, {} bytes, {seconds:.3} s, {rate:.3} GB/s", report.files, report.bytes);
            for (path, error) in &report.failed {
                println!("{path}: {error}");
            }
        }
        _ => eprintln!("transfer serve ENDPOINT DIR | transfer get ENDPOINT PATH [TO]"),
    }
    Ok(())
}
