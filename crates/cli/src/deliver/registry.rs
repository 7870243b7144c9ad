//! `pinnace deliver registry`: who is there.

use std::path::Path;

use pinnace::delivery::places;
use pinnace::delivery::registry::{self, Members, RegistryError};
use serde_json::json;

use super::client::{LOOK_EVERY, look_later, of_registry};
use super::columns::columns;
use crate::outcome::{Failure, Outcome, say};
use crate::output::print;
use crate::signals::Signals;
use crate::table::deliver::Registry;

pub fn run(given: &Registry) -> Outcome {
    let signals = Signals::new(false)?;
    let url = given.url.clone().unwrap_or_else(places::registry);
    // To look at it makes none.
    if let Some(path) = path_of(&url)
        && !path.exists()
    {
        return Err(Failure::of(path.display(), "there is no registry"));
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

/// Prints all whenever they change. That the place does not answer now is said once.
fn watch(given: &Registry, registry: &mut dyn registry::Registry, signals: &Signals) -> Outcome {
    let mut said: Option<RegistryError> = None;
    loop {
        match registry.members() {
            Ok(members) => {
                said = None;
                members.map_or(Ok(()), |members| print(shown(given, &members).as_bytes()))?;
            }
            Err(error) if said.as_ref() == Some(&error) => {}
            Err(error @ (RegistryError::Busy | RegistryError::Unreachable(_))) => {
                say(format!("registry: {error}"));
                said = Some(error);
            }
            Err(error) => return Err(of_registry(error)),
        }
        look_later(signals, LOOK_EVERY)?;
    }
}

/// The path of a registry that has one.
fn path_of(url: &str) -> Option<&Path> {
    match url.split_once("://") {
        Some(("dir" | "sqlite", path)) if !path.is_empty() => Some(Path::new(path)),
        None if !url.is_empty() => Some(Path::new(url)),
        _ => None,
    }
}

fn shown(given: &Registry, members: &Members) -> String {
    if given.json {
        let clients: Vec<_> = members
            .iter()
            .map(|member| json!({ "name": member.name, "address": member.endpoint, "topics": member.topics }))
            .collect();
        return format!("{}\n", json!({ "clients": clients }));
    }
    let row = |name: &str, address: &str, topics: String| vec![name.to_owned(), address.to_owned(), topics];
    let mut rows = vec![row("NAME", "ADDRESS", "TOPICS".to_owned())];
    rows.extend(members.iter().map(|member| row(&member.name, &member.endpoint, member.topics.join(" "))));
    columns(&rows)
}
