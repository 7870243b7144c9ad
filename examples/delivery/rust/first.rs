//! A first program: two clients, and ten messages from one to the other.
//!
//! cargo run --example delivery_first

use std::ops::ControlFlow;
use std::thread;

use pinnace::delivery::{Client, Error};

const MESSAGES: usize = 10;

fn main() -> Result<(), Error> {
    let client1 = Client::builder("client1", "topic_client1").start()?;
    let client2 = Client::builder("client2", "topic_client2").start()?;

    let received = thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut received = 0;
            client2.run(|delivery| {
                println!("receive_from {}", delivery.from());
                received += 1;
                if received < MESSAGES { ControlFlow::Continue(()) } else { ControlFlow::Break(received) }
            })
        });
        let array = [0; 100];
        for _ in 0..MESSAGES {
            client1.send_to("topic_client2", &array)?;
            println!("send_to client2");
        }
        receiving.join().expect("the receiver ends")
    })?;
    client1.wait_pending(0, None)?;
    println!("result messages={received} expected={MESSAGES}");
    Ok(())
}
