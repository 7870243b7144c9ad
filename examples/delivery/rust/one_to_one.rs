//! One to one: a shop sends its orders to the billing department.
//!
//! cargo run --example delivery_one_to_one

use pinnace::delivery::{Client, Error};

const ORDERS: u64 = 100;

fn main() -> Result<(), Error> {
    // A client has a unique name, and a topic of its own that it listens on.
    let shop = Client::builder("shop", "orders").start()?;
    for number in 1..=ORDERS {
        // The message is on the disk when this returns. It waits there until a receiver starts.
        shop.send_to("invoices", number.to_string().as_bytes())?;
    }
    let billing = Client::builder("billing", "invoices").start()?;
    let mut billed = 0;
    while billed < ORDERS {
        let order = billing.recv(None)?;
        billed += 1;
        assert_eq!(order.body(), billed.to_string().as_bytes(), "they come in order");
        // Without it, the message is redelivered.
        order.ack();
    }
    shop.wait_pending(0, None)?;
    println!("result messages={billed} expected={ORDERS}");
    Ok(())
}
