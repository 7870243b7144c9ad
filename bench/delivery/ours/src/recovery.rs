//! What was queued for a receiver that was not there, after the sender was killed.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use pinnace::delivery::Options;
use rustix::fs::{Advice, fadvise};

use crate::Outcome;
use crate::peer::{Peer, client};
use crate::pipeline::Pipeline;
use crate::words::{now_ns, number, text, yes};

/// From before the sender's process is started anew, while the receiver is up and waits: `open_ns` until its store is
/// open, `first_ns` until the first message is handled, `last_ns` until the last is. With `cold` nothing of the store
/// is in the kernel's cache then.
pub fn main() -> Outcome {
    let (dir, size, count) = (text("dir")?, number("size")?, number("count")?);
    let of = |words: &[String]| [&[format!("dir={dir}"), format!("size={size}")], words].concat();
    // It says that it is ready when every message is accepted; letting go of it kills it (SIGKILL).
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

/// Takes the files of a directory out of the kernel's cache.
fn forget(dir: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(dir)? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// `fill dir=D size=N count=N`: the role that queues, and is killed.
pub fn fill() -> Outcome {
    let sender = client(&text("dir")?, "sender")?;
    let mut pipeline = Pipeline::new(&sender, number("size")?, Options::default());
    pipeline.send(1..=number("count")?)?;
    pipeline.resolve()?;
    println!("ready");
    wait_for_the_end()
}

/// `reopen dir=D`: the role that goes on.
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
