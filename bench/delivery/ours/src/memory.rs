//! The sender's memory while all messages are pending for a receiver that is stopped (SIGSTOP).

use std::error::Error;
use std::fs;

use pinnace::delivery::Options;
use rustix::process::{Signal, kill_process};

use crate::Outcome;
use crate::peer::{Peer, client};
use crate::pipeline::Pipeline;
use crate::words::{now_ns, number, text};

/// Number of memory readings while messages are queued.
const LOOKS: u64 = 100;

/// Prints private resident memory: `base_kib` after the first message was handled, `most_kib` the maximum while the
/// others were queued, `last_kib` when all were queued; and `disk_bytes` of the store.
pub fn main() -> Outcome {
    let (dir, size, count) = (text("dir")?, number("size")?, number("count")?);
    let mut receiver = Peer::receiver(&dir, size, count + 1)?;
    let sender = client(&dir, "sender")?;
    let mut pipeline = Pipeline::new(&sender, size, Options::default());
    pipeline.send(1..=1)?;
    pipeline.resolve()?;
    receiver.time()?;
    sender.wait_pending(0, None)?;
    let (base, mut most) = (private_kib()?, 0);
    kill_process(receiver.id(), Signal::STOP)?;
    let (begin, mut sent) = (now_ns(), 1);
    for look in 1..=LOOKS {
        let upto = 1 + count * look / LOOKS;
        pipeline.send(sent + 1..=upto)?;
        sent = upto;
        most = most.max(private_kib()?);
    }
    pipeline.resolve()?;
    let took = now_ns() - begin;
    let last = private_kib()?;
    println!(
        "base_kib={base} most_kib={} last_kib={last} pending={} disk_bytes={} accepted_ns={took}",
        most.max(last),
        sender.pending(),
        bytes_of(&format!("{dir}/sender"))?,
    );
    Ok(())
}

/// Private resident memory of this process (smaps_rollup in proc(5)), in KiB.
fn private_kib() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let of = |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    Ok(text.lines().filter(|line| line.starts_with("Private_")).filter_map(of).sum())
}

fn bytes_of(dir: &str) -> Result<u64, Box<dyn Error>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
