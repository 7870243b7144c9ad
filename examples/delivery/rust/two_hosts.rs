//! Two hosts: a shop on one of them takes orders, and billing on the other bills them. They find each other through a
//! Redis server and talk over TCP, encrypted with CURVE. docs/delivery-first-hosts.md has the steps.
//!
//! cargo run --example delivery_two_hosts -- shop REGISTRY ENDPOINT KEYS
//! cargo run --example delivery_two_hosts -- billing REGISTRY ENDPOINT KEYS
//!
//! The shop sends each line of its standard input as an order. Billing bills the orders that are numbers, until a
//! signal ends it. An order at which it has failed three times becomes a dead letter of the shop.

use std::error::Error;
use std::io::stdin;
use std::path::Path;

use pinnace::delivery::{Client, Delivery};

/// The registry's address, this client's endpoint, and the directory of the certificates.
type Place<'a> = [&'a str; 3];

fn client(own: &str, topic: &str, other: &str, place: Place<'_>) -> Result<Client, Box<dyn Error>> {
    let [registry, endpoint, keys] = place;
    let keys = Path::new(keys);
    let builder = Client::builder(own, topic)
        .registry(registry)
        .listen(endpoint)
        .cert(keys.join(format!("{own}_secret")))
        .trust_file(other, keys.join(other))
        .max_deliveries(3)
        .on_error(|error| eprintln!("{error}"));
    Ok(builder.start()?)
}

fn shop(place: Place<'_>) -> Result<(), Box<dyn Error>> {
    let shop = client("shop", "orders", "billing", place)?;
    for order in stdin().lines() {
        let order = order?;
        shop.send_to("invoices", order.as_bytes())?;
        // It is on this host's disk. It waits there until billing has handled it.
        println!("accepted {order}");
    }
    Ok(())
}

/// An error means that the order is delivered again.
fn bill(order: &Delivery) -> Result<(), Box<dyn Error>> {
    let number: u64 = str::from_utf8(order.body())?.parse()?;
    println!("billed {number}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["shop", registry, endpoint, keys] => shop([registry, endpoint, keys]),
        ["billing", registry, endpoint, keys] => {
            match client("billing", "invoices", "shop", [registry, endpoint, keys])?.run(bill)? {}
        }
        _ => Err("shop|billing REGISTRY ENDPOINT KEYS".into()),
    }
}
