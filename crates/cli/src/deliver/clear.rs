//! `pinnace deliver clear`: drops pending messages of a client.

use pinnace::delivery::{Client, paths};

use super::client::{failure, start_in};
use super::stores::{require_client, stores};
use crate::outcome::{Outcome, say};
use crate::output::print;
use crate::signals::Signals;
use crate::table::deliver::Clear;

pub fn run(given: &Clear) -> Outcome {
    let signals = Signals::new(false)?;
    let store = given.data_dir.clone().unwrap_or_else(|| paths::store_of(&given.name));
    stores(Some(&store))?;
    require_client(&store, &given.name)?;
    // To drop messages takes neither a registry nor a receiver: they are told when the client sends to them again.
    let builder = Client::builder(&given.name, "")
        .data_dir(&store)
        .registry("none")
        .send_only()
        .on_error(|error| say(error));
    let builder = if given.skip_damage { builder.skip_damage() } else { builder };
    let client = start_in(&builder, &store, given.wait_store, &signals)?;
    let cleared = client.clear_pending_for(&given.topic, given.receiver.as_deref(), None).map_err(failure)?;
    print(format!("{cleared}\n").as_bytes())
}
