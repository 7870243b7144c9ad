//! Cycles of messages with a pause after each, as in liner's benchmark, from one process to another.

use std::time::Duration;

use pinnace::delivery::Options;

use crate::Outcome;
use crate::peer::{Peer, client};
use crate::pipeline::Pipeline;
use crate::words::{join, mode, now_ns, number, text};

/// `cycles_ns`: from before the first send of a cycle until every ticket is resolved and the last handler has run;
/// `accepted_ns`: until every ticket is resolved.
pub fn main() -> Outcome {
    let (dir, size, count) = (text("dir")?, number("size")?, number("count")?);
    let pause = Duration::from_millis(number("pause_ms")?);
    let mut receiver = Peer::receiver(&dir, size, count)?;
    let sender = client(&dir, "sender")?;
    let mut pipeline = Pipeline::new(&sender, size, Options { durability: mode()?, ..Options::default() });
    let (mut took, mut accepted) = (Vec::new(), Vec::new());
    for cycle in 0..number("cycles")? {
        let begin = now_ns();
        pipeline.send(cycle * count + 1..=(cycle + 1) * count)?;
        pipeline.resolve()?;
        let resolved = now_ns();
        accepted.push(resolved - begin);
        if cycle == 0 {
            // The receiver also reports its first message: skip that time.
            receiver.time()?;
        }
        took.push(receiver.time()?.max(resolved) - begin);
        std::thread::sleep(pause);
    }
    sender.wait_pending(0, None)?;
    println!("cycles_ns={} accepted_ns={}", join(&took), join(&accepted));
    Ok(())
}
