//! Many to many: everyone in a room receives everyone else's messages.
//!
//! cargo run --example delivery_many_to_many

use std::ops::ControlFlow;
use std::thread;

use pinnace::delivery::{Client, Error};

const PEOPLE: [&str; 4] = ["Ada", "Bo", "Cy", "Di"];
const SAID_BY_EACH: usize = 25;
const HEARD_BY_EACH: usize = SAID_BY_EACH * (PEOPLE.len() - 1);

fn talk(name: &str) -> Result<usize, Error> {
    let person = Client::builder(name, "room").start()?;
    person.wait_listeners("room", PEOPLE.len(), None)?;
    for number in 1..=SAID_BY_EACH {
        // Not delivered to its sender.
        person.send_all("room", format!("{name} says {number}").as_bytes())?;
    }
    let mut heard = 0;
    person.run(|delivery| {
        assert!(delivery.body().starts_with(delivery.from().as_bytes()));
        heard += 1;
        // Returning acknowledges the message; `Break` after the last ends `run`.
        if heard < HEARD_BY_EACH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // Stays until the others have acknowledged all.
    person.wait_pending(0, None)?;
    Ok(heard)
}

fn main() -> Result<(), Error> {
    let heard = thread::scope(|scope| {
        let people = PEOPLE.map(|name| scope.spawn(move || talk(name)));
        people.into_iter().map(|person| person.join().expect("nobody panics")).sum::<Result<usize, _>>()
    })?;
    println!("result messages={heard} expected={}", HEARD_BY_EACH * PEOPLE.len());
    Ok(())
}
