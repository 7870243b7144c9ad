//! How long 10,000 messages of 1 KiB take from one client to another, in several cycles.
//!
//! cargo run --release --example delivery_throughput -- [CYCLES] [MESSAGES]
//!
//! `send_to` is the time until all messages of a cycle are on the disk, `receive_from` the time from then until the
//! last is handled.

use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use pinnace::delivery::{Client, Error, Options};

const SIZE: usize = 1024;

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let (cycles, messages): (usize, usize) = (words.next().unwrap_or(10), words.next().unwrap_or(10_000));
    let client1 = Client::builder("client1", "topic_client1").start()?;
    let client2 = Client::builder("client2", "topic_client2").start()?;
    let (tell, told) = channel();

    let received = thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut received = 0;
            client2.run(|delivery| {
                assert_eq!(delivery.body().len(), SIZE);
                received += 1;
                if received % messages == 0 {
                    // Fails only if the sending thread has returned with an error.
                    let _ = tell.send(Instant::now());
                }
                if received < cycles * messages {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(received)
                }
            })
        });
        let array = [0; SIZE];
        for _ in 0..cycles {
            let (begin, mut last) = (Instant::now(), None);
            for _ in 0..messages {
                last = Some(client1.send_async("topic_client2", &array, &Options::default())?);
            }
            last.map_or(Ok(()), |ticket| client1.wait(ticket, None))?;
            let end = Instant::now();
            println!("send_to {} ms", (end - begin).as_millis());
            let handled = told.recv().expect("the receiver tells");
            println!("receive_from {} ms", handled.saturating_duration_since(end).as_millis());
        }
        receiving.join().expect("the receiver ends")
    })?;
    client1.wait_pending(0, None)?;
    println!("result messages={received} expected={}", cycles * messages);
    Ok(())
}
