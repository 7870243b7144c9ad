//! Recovery: messages queued for an absent receiver are delivered after the sender was killed and restarted.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use pinnace::delivery::Options;
use rustix::fs::{Advice, fadvise};

use crate::Outcome;
use crate::peer::{Peer, client};
use crate::pipeline::Pipeline;
use crate::words::{now_ns, number, text, yes};

/// Times from before the restart of the sender's process, while the receiver is running: `open_ns` until the sender's
/// store is open, `first_ns` until the first message is handled, `last_ns` until the last is. With `cold` the store is
/// dropped from the page cache before.
pub fn main() -> Outcome {
    let (dir, size, count) = (text("dir")?, number("size")?, number("count")?);
    let of = |words: &[String]| [&[format!("dir={dir}"), format!("size={size}")], words].concat();
    // The child is ready when every message is accepted. Dropping it kills it (SIGKILL).
    drop(Peer::start("fill", &of(&[format!("count={count}")]))?);
    if yes("cold") {
        forget(&Path::new(&dir).join("sender"))?;
    }
    let mut receiver = Peer::receiver(&dir, size, count)?;
    let begin = now_ns();
    let mut sender = Peer::start("reopen", &of(&[]))?;
    let (open, first, last) = (sender.time()?, receiver.time()?, receiver.time()?);
    println!("open_ns={} first_ns={} last_ns={}", open - begin, first - begin, last - begin);
    Ok(())
}

/// Drops the files of a directory from the page cache.
fn forget(dir: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(dir)? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// The role `fill dir=D size=N count=N`: queues the messages, and is killed.
pub fn fill() -> Outcome {
    let sender = client(&text("dir")?, "sender")?;
    let mut pipeline = Pipeline::new(&sender, number("size")?, Options::default());
    pipeline.send(1..=number("count")?)?;
    pipeline.resolve()?;
    println!("ready");
    wait_for_the_end()
}

/// The role `reopen dir=D`: opens the store again and sends.
pub fn reopen() -> Outcome {
    let _sender = client(&text("dir")?, "sender")?;
    println!("ready\n{}", now_ns());
    wait_for_the_end()
}

fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}
