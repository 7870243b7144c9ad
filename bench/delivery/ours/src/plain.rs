//! PUSH and PULL, without any guarantee, in the same cycles.

use std::time::Duration;

use pinnace::{Context, Pull, Push};

use crate::Outcome;
use crate::peer::{Check, Peer};
use crate::words::{join, now_ns, number};

/// `cycles_ns`: from before the first send of a cycle until the other process has received its last message.
pub fn main() -> Outcome {
    let (size, count) = (number("size")?, number("count")?);
    let pause = Duration::from_millis(number("pause_ms")?);
    let mut puller = Peer::start("puller", &[format!("size={size}"), format!("every={count}")])?;
    let context = Context::new()?;
    let push = Push::builder(&context).connect(&puller.line()?)?;
    let (mut body, mut sent, mut took) = (vec![b'.'; size as usize], 0_u64, Vec::new());
    for _ in 0..number("cycles")? {
        let begin = now_ns();
        for _ in 0..count {
            sent += 1;
            body[..8].copy_from_slice(&sent.to_le_bytes());
            push.send_bytes(&body)?;
        }
        took.push(puller.time()? - begin);
        std::thread::sleep(pause);
    }
    println!("cycles_ns={}", join(&took));
    Ok(())
}

/// The role `puller size=N every=N`.
pub fn puller() -> Outcome {
    let (every, mut check) = (number("every")?, Check::new(number("size")?));
    let context = Context::new()?;
    let pull = Pull::builder(&context).bind("tcp://127.0.0.1:*")?;
    println!("ready\n{}", pull.last_endpoint()?);
    loop {
        let mut count = 0;
        pull.recv_with(|body| count = check.count(body))?;
        if count % every == 0 {
            println!("{}", now_ns());
        }
    }
}
