//! Many messages without pauses.

use pinnace::delivery::Options;

use crate::Outcome;
use crate::peer::{Peer, client};
use crate::pipeline::Pipeline;
use crate::words::{join, mode, now_ns, number, text};

/// Times from before the first send: `took_ns` until every ticket is resolved and the last message is handled,
/// `first_ns` until the first message is handled, `tenths_ns` until each tenth of the messages is handled,
/// `accepted_ns` until every ticket is resolved.
pub fn main() -> Outcome {
    let (dir, size, count) = (text("dir")?, number("size")?, number("count")?);
    let mut receiver = Peer::receiver(&dir, size, count / 10)?;
    let sender = client(&dir, "sender")?;
    let mut pipeline = Pipeline::new(&sender, size, Options { durability: mode()?, ..Options::default() });
    let begin = now_ns();
    pipeline.send(1..=count)?;
    pipeline.resolve()?;
    let accepted = now_ns() - begin;
    let (first, mut tenths) = (receiver.time()? - begin, Vec::new());
    for _ in 0..10 {
        tenths.push(receiver.time()? - begin);
    }
    let took = accepted.max(tenths[9]);
    sender.wait_pending(0, None)?;
    println!("took_ns={took} first_ns={first} accepted_ns={accepted} tenths_ns={}", join(&tenths));
    Ok(())
}
