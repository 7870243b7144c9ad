//! A store that an agent has open: a thread sends its pending messages, and closes it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Reporter;
use super::task::Event;
use crate::Error;
use crate::client::{Builder, Client};
use crate::instance::Instance;
use crate::registry::RegistryError;

/// Between two checks of a registry's error, while nothing is acknowledged.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a drained store stays open for its files to be removed.
const TRIM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the thread waits for the end of a store that it has closed.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Controls the thread.
pub struct Drain {
    shared: Arc<DrainState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct DrainState {
    stopped: AtomicBool,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl DrainState {
    fn clients(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drain {
    /// Opens a store and drains it. At its end it reports `Event::Closed`.
    pub fn start(store: &Path, builders: Vec<Builder>, reporter: &Reporter) -> std::io::Result<Drain> {
        let shared = Arc::new(DrainState::default());
        let (store, reporter, own) = (store.to_owned(), reporter.clone(), shared.clone());
        let run = move || {
            let outcome = own.drain(builders, &store, &reporter);
            // The last clients close the store.
            drop(std::mem::take(&mut *own.clients()));
            Instance::wait_ended(&store, Instant::now() + END_TIMEOUT);
            reporter.tell(Event::Closed { store, outcome });
        };
        let thread = Some(pinnace_sys::thread::start("pinnace-drain", run)?);
        Ok(Drain { shared, thread })
    }

    /// Closes the store, soon.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.clients().iter().for_each(|client| client.stop());
    }

    /// How many messages are pending.
    pub fn pending(&self) -> u64 {
        self.shared.clients().iter().map(|client| client.pending()).sum()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic was printed already.
            let _ = thread.join();
        }
    }
}

impl DrainState {
    /// Sends until nothing is pending, or until it is stopped.
    fn drain(&self, builders: Vec<Builder>, store: &Path, reporter: &Reporter) -> Result<(), Error> {
        let mut clients = Vec::new();
        for builder in builders {
            let (reports, of) = (reporter.clone(), store.to_owned());
            let client = Arc::new(builder.on_error(move |error| reports.error(&of, error)).start()?);
            reporter.open.add(store, &client);
            clients.push(client.clone());
            self.clients().push(client);
            // `stop` sets this before it looks for clients.
            if self.stopped.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
        for client in &clients {
            let mut said = None;
            loop {
                match client.wait_pending(0, Some(Instant::now() + LOOK_EVERY)) {
                    Ok(()) => break,
                    Err(Error::TimedOut) => tell_trouble(client, &mut said, store, reporter),
                    Err(Error::Closed) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }
        if let Some(client) = clients.first() {
            // What remains is removed the next time.
            let _ = client.wait_until_trimmed(Some(Instant::now() + TRIM_TIMEOUT));
        }
        Ok(())
    }
}

/// Reports a registry's error, once until it has another cause.
fn tell_trouble(client: &Client, said: &mut Option<RegistryError>, store: &Path, reporter: &Reporter) {
    let error = client.registry_error();
    if let Some(error) =
        error.as_ref().filter(|error| !said.as_ref().is_some_and(|said| said.has_cause_of(error)))
    {
        reporter.error(store, &Error::Registry(error.clone()));
    }
    *said = error;
}
