//! One sender that waits for each message, in turns with bare writes to the disk.

use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::disk::Disk;
use crate::peer::{Peer, TOPIC, client};
use crate::words::{cpu_ns, join, now_ns, number, text, yes};

/// Bytes of one message in the log (docs/delivery-formats.md): the headers of the batch, the record and the message
/// with one destination, and the body, rounded up to a multiple of 8.
fn log_bytes(size: usize) -> usize {
    const BATCH: usize = 32;
    const RECORD: usize = 8;
    const MESSAGE: usize = 16 + 12;
    BATCH + (RECORD + MESSAGE + size).next_multiple_of(8)
}

/// Pause between two turns, so that background work of one turn does not fall into the next.
const REST: Duration = Duration::from_millis(50);

/// Prints `ours_ns` and `disk_ns`, the times of each turn of `block` messages, and `ours_cpu_ns` and `disk_cpu_ns`, the
/// CPU time of all turns.
pub fn main() -> Outcome {
    let (dir, size, block) = (text("dir")?, number("size")? as usize, number("block")?);
    let receiver = match yes("receiver") {
        true => Some(Peer::receiver(&dir, size as u64, block)?),
        false => None,
    };
    let sender = client(&dir, "sender")?;
    let mut disk = Disk::new(Path::new(&dir))?;
    let (mut body, bytes, mut sent) = (vec![b'.'; size], vec![b'.'; log_bytes(size)], 0_u64);
    let (mut took, mut cpu) = ([Vec::new(), Vec::new()], [0, 0]);
    for turn in 0..2 * (number("blocks")? + 1) {
        // In the order ours, disk, disk, ours, so that neither is always first.
        let is_disk = matches!(turn % 4, 1 | 2);
        let (begin, cpu_begin) = (now_ns(), cpu_ns());
        for _ in 0..block {
            if is_disk {
                disk.append(&bytes)?;
            } else {
                sent += 1;
                body[..8].copy_from_slice(&sent.to_le_bytes());
                sender.send_to(TOPIC, &body)?;
            }
        }
        let (end, cpu_end) = (now_ns(), cpu_ns());
        // The first pair warms up.
        if turn > 1 {
            took[usize::from(is_disk)].push(end - begin);
            cpu[usize::from(is_disk)] += cpu_end - cpu_begin;
        }
        std::thread::sleep(REST);
    }
    let ([ours, disk], [ours_cpu, disk_cpu]) = (took, cpu);
    println!("ours_ns={} disk_ns={} ours_cpu_ns={ours_cpu} disk_cpu_ns={disk_cpu}", join(&ours), join(&disk));
    drop(receiver);
    Ok(())
}
