//! `pinnace deliver run`: an agent that sends what is pending in the stores of processes that are gone.

use std::path::Path;

use pinnace::delivery::agent::{Agent, Problem};
use pinnace::delivery::{Error, registry};

use super::client::{failure, of_registry};
use super::holder::holder;
use crate::outcome::{Failure, Outcome, say};
use crate::secrets;
use crate::settings::own_keys;
use crate::signals::Signals;
use crate::sockets;
use crate::table::deliver::AgentRun;

/// Maximum size of a file with addresses.
const ADDRESSES_MAX: usize = 64 << 10;

pub fn run(given: &AgentRun) -> Outcome {
    let signals = Signals::new(false)?;
    let mut agent = Agent::builder().most_open(given.most_open as usize).on_problem(tell);
    for folder in &given.folders {
        agent = agent.dir(folder);
    }
    for cert in &given.certs {
        agent = agent.curve(&own_keys(cert)?);
    }
    if let Some(address) = &given.metrics {
        agent = agent.metrics(address);
    }
    for url in &given.registries {
        agent = agent.registry(&checked(url)?);
    }
    for file in &given.registry_files {
        let text = secrets::read(file, ADDRESSES_MAX)?;
        let text = std::str::from_utf8(&text).map_err(|_| Failure::of(file.display(), "not UTF-8"))?;
        for url in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            agent = agent.registry(&checked(url)?);
        }
    }
    let agent = agent.start().map_err(|(folder, error)| match (error, holder(&folder)) {
        (Error::InUse, Some(process)) => {
            Failure::of(folder.display(), format_args!("process {process} drains the stores in it"))
        }
        (error @ Error::Metrics { .. }, _) => failure(error),
        (error @ Error::Setting(text), _) if text.starts_with("metrics") => Failure::usage(error),
        (error @ (Error::InUse | Error::Io(_) | Error::Setting(_)), _) => {
            Failure::of(folder.display(), error)
        }
        (error, _) => failure(error),
    })?;
    while signals.ending().is_none() {
        match sockets::wait(Vec::new(), &signals, None) {
            Ok(_) | Err(Failure::Signal(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    // Closes the stores in order.
    drop(agent);
    Ok(())
}

/// Prints a problem of a store.
fn tell(store: &Path, problem: &Problem) {
    say(format_args!("{}: {problem}", store.display()));
}

/// The address of a Redis server: other registries have no password. Their error would be a part of the address.
fn checked(url: &str) -> Outcome<String> {
    if !url.starts_with("redis://") && !url.starts_with("rediss://") {
        return Err(Failure::usage("invalid registry address: only that of a Redis server has a password"));
    }
    registry::open(url).map(|_| url.to_owned()).map_err(of_registry)
}
