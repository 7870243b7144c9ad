//! One to many: an agency sends its news to all newspapers that listen.
//!
//! cargo run --example delivery_one_to_many

use pinnace::delivery::{Client, Error, Options};

const NEWS: u64 = 100;
const PAPERS: [&str; 3] = ["Morning Post", "Evening Star", "Gazette"];

fn main() -> Result<(), Error> {
    let start = |paper: &&str| Client::builder(paper, "news").start();
    let papers: Vec<Client> = PAPERS.iter().map(start).collect::<Result<_, _>>()?;
    let agency = Client::builder("agency", "tips").start()?;
    // Clients discover each other a moment after their start.
    agency.wait_listeners("news", papers.len(), None)?;
    let (to_all, mut last) = (Options { all: true, ..Options::default() }, None);
    for number in 1..=NEWS {
        // Wait for the disk only with the last message: once it is on the disk, all are.
        last = Some(agency.send_async("news", number.to_string().as_bytes(), &to_all)?);
    }
    last.map_or(Ok(()), |ticket| agency.wait(ticket, None))?;
    let mut printed = 0;
    for paper in &papers {
        for number in 1..=NEWS {
            let news = paper.recv(None)?;
            assert_eq!(news.body(), number.to_string().as_bytes(), "{} has all in order", paper.name());
            news.ack();
            printed += 1;
        }
    }
    agency.wait_pending(0, None)?;
    println!("result messages={printed} expected={}", NEWS * PAPERS.len() as u64);
    Ok(())
}
