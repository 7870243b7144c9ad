//! Many messages to one, which several workers share.

use pinnace::delivery::Options;

use crate::Outcome;
use crate::peer::{Peer, TOPIC, client};
use crate::pipeline::Pipeline;
use crate::words::{mode, now_ns, number, text};

/// `took_ns`: from before the first send until all messages are acknowledged.
pub fn main() -> Outcome {
    let (dir, size, count, workers) = (text("dir")?, number("size")?, number("count")?, number("workers")?);
    let started = |worker| Peer::start("worker", &[format!("dir={dir}"), format!("name=worker{worker}")]);
    let running = (0..workers).map(started).collect::<Result<Vec<Peer>, _>>()?;
    let sender = client(&dir, "sender")?;
    sender.wait_listeners(TOPIC, running.len(), None)?;
    let mut pipeline = Pipeline::new(&sender, size, Options { durability: mode()?, ..Options::default() });
    let begin = now_ns();
    pipeline.send(1..=count)?;
    pipeline.resolve()?;
    sender.wait_pending(0, None)?;
    println!("took_ns={}", now_ns() - begin);
    Ok(())
}

/// The role `worker dir=D name=N`.
pub fn worker() -> Outcome {
    let client = client(&text("dir")?, &text("name")?)?;
    client.subscribe(TOPIC)?;
    println!("ready");
    loop {
        client.recv(None)?.ack();
    }
}
