//! One to one: a shop sends its orders to whoever bills them.
//!
//! cargo run --example delivery_one_to_one

use pinnace::delivery::{Client, Error};

const ORDERS: u64 = 100;

fn main() -> Result<(), Error> {
    // A client has a name, which nobody else has, and a topic of its own, which it listens on.
    let shop = Client::builder("shop", "orders").start()?;
    for number in 1..=ORDERS {
        // On the disk when this returns. Nobody is there yet to receive it: it waits.
        shop.send_to("invoices", number.to_string().as_bytes())?;
    }
    let billing = Client::builder("billing", "invoices").start()?;
    let mut billed = 0;
    while billed < ORDERS {
        let order = billing.recv(None)?;
        billed += 1;
        assert_eq!(order.body(), billed.to_string().as_bytes(), "they come in order");
        // What is not acknowledged comes again.
        order.ack();
    }
    shop.wait_pending(0, None)?;
    println!("result messages={billed} expected={ORDERS}");
    Ok(())
}
