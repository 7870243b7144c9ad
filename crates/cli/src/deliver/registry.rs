//! `pinnace deliver registry`: lists the clients.

use pinnace::delivery::paths;
use pinnace::delivery::registry::{self, Member, Members, RegistryError};
use serde_json::json;

use super::client::{LOOK_EVERY, Trouble, look_later, of_registry};
use super::columns::columns;
use crate::outcome::{Failure, Outcome, say};
use crate::output::print;
use crate::signals::Signals;
use crate::table::deliver::Registry;

pub fn run(given: &Registry) -> Outcome {
    let signals = Signals::new(false)?;
    let url = given.url.clone().unwrap_or_else(paths::registry);
    // Opening a registry would create it.
    if let Some(path) = registry::path_of(&url)
        && !path.exists()
    {
        return Err(Failure::of(path.display(), "no registry found"));
    }
    let mut registry = registry::open(&url).map_err(of_registry)?;
    if let Some(topic) = &given.clear {
        let cleared = registry.clear(topic).map_err(of_registry)?;
        return print(format!("{cleared}\n").as_bytes());
    }
    if !given.watch {
        let members = registry.members().map_err(of_registry)?.unwrap_or_default();
        return print(shown(given, &members).as_bytes());
    }
    match watch(given, &mut *registry, &signals) {
        Err(Failure::Signal(_)) => Ok(()),
        outcome => outcome,
    }
}

/// Prints the clients whenever they change. Waits for a registry that is unreachable.
fn watch(given: &Registry, registry: &mut dyn registry::Registry, signals: &Signals) -> Outcome {
    let mut trouble = Trouble::default();
    loop {
        match registry.members() {
            Ok(members) => {
                trouble.note(None).into_iter().for_each(say);
                members.map_or(Ok(()), |members| print(shown(given, &members).as_bytes()))?;
            }
            Err(error @ (RegistryError::Busy | RegistryError::Unreachable(_))) => {
                trouble.note(Some(error)).into_iter().for_each(say);
            }
            Err(error) => return Err(of_registry(error)),
        }
        look_later(signals, LOOK_EVERY)?;
    }
}

fn shown(given: &Registry, members: &Members) -> String {
    // Clients without topics have left.
    let away = || members.away().filter(|member| !member.topics.is_empty());
    if given.json {
        let client = |of: &Member| json!({ "name": of.name, "address": of.endpoint, "topics": of.topics });
        let clients: Vec<_> = members.iter().map(client).collect();
        let away: Vec<_> = away().map(client).collect();
        return format!("{}\n", json!({ "clients": clients, "away": away }));
    }
    let row = |name: &str, address: &str, topics: String| vec![name.to_owned(), address.to_owned(), topics];
    let mut rows = vec![row("NAME", "ADDRESS", "TOPICS".to_owned())];
    rows.extend(members.iter().map(|member| row(&member.name, &member.endpoint, member.topics.join(" "))));
    rows.extend(away().map(|member| row(&member.name, "away", member.topics.join(" "))));
    columns(&rows)
}
