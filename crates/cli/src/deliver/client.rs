//! The delivery client of a command: its start, its waits, its failures in words.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinnace::delivery::registry::RegistryError;
use pinnace::delivery::{Builder, Client, Error, paths};

use super::holder::holder;
use crate::outcome::{Failure, Outcome, say};
use crate::output;
use crate::settings::{own_keys, public_key};
use crate::signals::Signals;
use crate::sockets;
use crate::table::deliver::{ClientArgs, Peer, Trusted};

/// Interval between checks for signals and for a closed standard output.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long to wait for a store: not at all, without limit, or for a time.
type WaitStore = Option<Option<Duration>>;

/// Builds a client from the flags. Error: a certificate cannot be read.
pub fn builder(given: &ClientArgs, topic: &str) -> Outcome<Builder> {
    let mut builder =
        Client::builder(&given.name, topic).data_dir(store_of(given)).on_error(|error| say(error));
    if let Some(url) = &given.registry {
        builder = builder.registry(url);
    }
    if let Some(endpoint) = &given.listen {
        builder = builder.listen(endpoint);
    }
    if let Some(endpoint) = &given.advertise {
        builder = builder.advertise(endpoint);
    }
    if let Some(address) = &given.metrics {
        builder = builder.metrics(address);
    }
    if let Some(bytes) = given.disk_limit {
        builder = builder.disk_limit(if bytes == 0 { u64::MAX } else { bytes });
    }
    for Peer { name, endpoint, topics } in &given.peers {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        builder = builder.peer(name, endpoint, &topics);
    }
    if let Some(file) = &given.cert {
        builder = builder.curve(&own_keys(file)?);
    }
    for Trusted { name, key } in &given.trusted {
        builder = builder.trust(name, &public_key(key)?);
    }
    builder = builder.durable(!given.transient);
    Ok(if given.skip_damage { builder.skip_damage() } else { builder })
}

/// The directory of the client's store.
pub fn store_of(given: &ClientArgs) -> PathBuf {
    given.data_dir.clone().unwrap_or_else(|| paths::store_of(&given.name))
}

/// Starts a client, once no other process has its store open if the flags say so.
pub fn start(builder: Builder, given: &ClientArgs, signals: &Signals) -> Outcome<Client> {
    let started = start_waiting(&builder, given.wait_store, signals)?;
    started.map_err(|error| match error {
        Error::InUse | Error::Damaged(_) | Error::Io(_) => of_store(&store_of(given), error),
        Error::NameTaken => Failure::of(&given.name, error),
        Error::Setting(_) => Failure::usage(error),
        Error::Endpoint(_) => {
            let endpoint = given.listen.as_deref().or(given.advertise.as_deref());
            Failure::of(endpoint.unwrap_or("listening"), error)
        }
        error => failure(error),
    })
}

/// Starts a client that does not listen, in a store.
pub fn start_in(builder: &Builder, store: &Path, wait: WaitStore, signals: &Signals) -> Outcome<Client> {
    start_waiting(builder, wait, signals)?.map_err(|error| match error {
        Error::InUse | Error::Damaged(_) | Error::Io(_) => of_store(store, error),
        error => failure(error),
    })
}

/// As [`Builder::start`]. While another process has the store open, it is tried again, as long as `wait` says. A signal
/// is an error.
fn start_waiting(builder: &Builder, wait: WaitStore, signals: &Signals) -> Outcome<Result<Client, Error>> {
    let deadline = match wait {
        None => Some(Instant::now()),
        Some(time) => sockets::deadline(time),
    };
    loop {
        match builder.clone().start() {
            Err(Error::InUse) if deadline.is_none_or(|deadline| deadline > Instant::now()) => {
                sockets::pause(signals, LOOK_EVERY)?;
            }
            started => return Ok(started),
        }
    }
}

/// Describes why a store cannot be used.
pub fn of_store(store: &Path, error: Error) -> Failure {
    match (error, holder(store)) {
        (Error::InUse, Some(process)) => {
            Failure::of(store.display(), format!("process {process} has the store open"))
        }
        (error, _) => Failure::of(store.display(), error),
    }
}

/// Turns an error into a failure.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Name | Error::Ttl | Error::Property(_) => Failure::usage(error),
        Error::Registry(error) => of_registry(error),
        Error::TimedOut => Failure::TimedOut("timed out".to_owned()),
        Error::NoRoom(_) => Failure::TimedOut(format!("timed out: {error}")),
        error => Failure::Failed(error.to_string()),
    }
}

pub fn of_registry(error: RegistryError) -> Failure {
    match error {
        RegistryError::Url(_)
        | RegistryError::Name
        | RegistryError::Topics
        | RegistryError::Endpoint
        | RegistryError::Lease => Failure::usage(error),
        error => Failure::of("registry", error),
    }
}

/// Repeats a step that blocks until the given instant and then returns TimedOut. A signal is an error, and so is
/// TimedOut at the deadline.
pub fn wait<R>(
    signals: &Signals,
    deadline: Option<Instant>,
    mut step: impl FnMut(Instant) -> Result<R, Error>,
) -> Outcome<R> {
    loop {
        signals.check()?;
        let next = Instant::now() + LOOK_EVERY;
        match step(deadline.map_or(next, |deadline| deadline.min(next))) {
            Err(Error::TimedOut) if deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
            result => return result.map_err(failure),
        }
    }
}

/// Waits until no message is left of those that `waiting` counts. `fate`: what becomes of those that are left at the
/// deadline.
pub fn wait_handled(
    client: &Client,
    signals: &Signals,
    deadline: Option<Instant>,
    fate: &str,
    waiting: impl Fn() -> u64,
) -> Outcome {
    let waited = wait(signals, deadline, |until| match waiting() {
        0 => Ok(()),
        // This wait also ends when another message is handled: count again.
        _ => {
            let _ = client.wait_pending(client.pending().saturating_sub(1), Some(until));
            if waiting() == 0 { Ok(()) } else { Err(Error::TimedOut) }
        }
    });
    waited.map_err(|failure| match failure {
        Failure::TimedOut(_) => {
            Failure::TimedOut(format!("timed out: messages not handled: {}; {fate}", waiting()))
        }
        failure => failure,
    })
}

/// Pauses between two checks. A signal, or a closed standard output, is an error.
pub fn look_later(signals: &Signals, time: Duration) -> Outcome {
    let until = sockets::deadline(Some(time));
    while let Some(items) = sockets::wait(vec![output::end_item()], signals, until)? {
        if items[0].is_over() {
            return Err(Failure::OutputClosed);
        }
    }
    Ok(())
}

/// Reports that a registry fails, once until it has another cause, and that it answers again.
#[derive(Default)]
pub struct Trouble {
    said: Option<RegistryError>,
}

impl Trouble {
    /// Reports a new error of a client's registry, or its end. Error: another client has taken the name.
    pub fn tell(&mut self, client: &Client) -> Outcome {
        match client.registry_error() {
            Some(RegistryError::NameTaken) => Err(Failure::of(client.name(), Error::NameTaken)),
            error => {
                self.note(error).into_iter().for_each(say);
                Ok(())
            }
        }
    }

    /// Notes the present error. Returns the line to print, if there is one.
    pub fn note(&mut self, error: Option<RegistryError>) -> Option<String> {
        let line = match (&self.said, &error) {
            (None, None) => None,
            (Some(_), None) => Some("registry: it answers again".to_owned()),
            (Some(said), Some(error)) if said.has_cause_of(error) => None,
            (_, Some(error)) => Some(format!("registry: {error}")),
        };
        self.said = error;
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_fails_in_several_ways_is_reported_once() {
        let mut trouble = Trouble::default();
        let unreachable = |text: &str| Some(RegistryError::Unreachable(text.to_owned()));
        let refused = RegistryError::Io { kind: std::io::ErrorKind::PermissionDenied, text: "no".to_owned() };
        assert_eq!(trouble.note(None), None);
        let line = trouble.note(unreachable("refused"));
        assert_eq!(line.as_deref(), Some("registry: the registry is unreachable: refused"));
        assert_eq!(trouble.note(unreachable("no answer in time")), None);
        assert_eq!(trouble.note(unreachable("refused")), None);
        assert_eq!(trouble.note(Some(refused.clone())).as_deref(), Some("registry: no"));
        assert_eq!(trouble.note(Some(refused)), None);
        assert_eq!(trouble.note(None).as_deref(), Some("registry: it answers again"));
        assert_eq!(trouble.note(None), None);
        assert!(trouble.note(unreachable("refused")).is_some());
    }
}
