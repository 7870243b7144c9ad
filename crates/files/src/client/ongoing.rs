//! A transfer that is under way, and its events.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::Dialogue;
use super::task::Command;
use crate::dialogue::events::Events;
use crate::dialogue::{Event, Report};
use crate::error::Error;

/// A transfer that is under way. It goes on if this is dropped, as long as its client or another of its transfers
/// exists: `cancel` ends it. The events of a transfer that was dropped are dropped, too.
///
/// Its events come by `next_event`, as an iterator of `&Transfer`, and as a `Stream` under any executor:
///
/// ```
/// # use pinnace_files::client::{Client, Event};
/// # use pinnace_files::server::Server;
/// # let (from, to) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # std::fs::write(from.path().join("a"), "content")?;
/// # let server = Server::builder().folder("/data", from.path())?.bind("tcp://127.0.0.1:*").start()?;
/// # let client = Client::connect(&server.endpoints()[0])?;
/// let transfer = client.get("/data/", to.path());
/// for event in &transfer {
///     if let Event::Finished { path, size, .. } = event {
///         println!("{path}: {size} octets");
///     }
/// }
/// let again = client.get("/data/", to.path());
/// let report = pollster::block_on(again.wait_async())?;
/// assert_eq!(report.files, 0, "it is here already");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transfer {
    operation: u64,
    events: Events,
    dialogue: Arc<Dialogue>,
}

impl Transfer {
    pub(super) fn new(operation: u64, events: Events, dialogue: Arc<Dialogue>) -> Transfer {
        Transfer { operation, events, dialogue }
    }

    /// Waits for the next event. None: the transfer is over.
    pub fn next_event(&self) -> Option<Event> {
        self.events.next()
    }

    /// As `next_event`, but waits at most `time`. Errors: Timeout; Disconnected, the transfer is over.
    pub fn next_event_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.events.next_within(time)
    }

    /// The next event, if it is here; else the task is woken when there may be one. None: the transfer is over. One
    /// task at a time can wait for a transfer: the last one that has called this.
    pub fn poll_event(&self, task: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_next(task)
    }

    /// As `next_event`, for a task of any executor. A future that is dropped early has taken no event.
    pub fn next_event_async(&mut self) -> impl Future<Output = Option<Event>> + Send + '_ {
        std::future::poll_fn(move |task| self.poll_event(task))
    }

    /// Waits until the transfer is over. Errors: it was not completed. Files that failed are in the report.
    pub fn wait(self) -> Result<Report, Error> {
        outcome((&self).into_iter().find_map(ended))
    }

    /// As `wait`, for a task of any executor. If the future is dropped early, the transfer goes on: cancel it by
    /// `canceller`.
    pub async fn wait_async(mut self) -> Result<Report, Error> {
        loop {
            let event = self.next_event_async().await;
            if event.is_none() {
                return outcome(None);
            }
            if let Some(end) = event.and_then(ended) {
                return outcome(Some(end));
            }
        }
    }

    /// Ends the transfer.
    pub fn cancel(&self) {
        self.canceller()();
    }

    /// Ends the transfer when it is called, on any thread.
    pub fn canceller(&self) -> impl Fn() + Send + Sync + 'static {
        let (dialogue, operation) = (self.dialogue.clone(), self.operation);
        move || dialogue.task.send(Command::Cancel { operation })
    }
}

/// What ends a transfer.
fn ended(event: Event) -> Option<Result<Report, Error>> {
    match event {
        Event::Ended(report) => Some(Ok(report)),
        Event::Aborted(error) => Some(Err(error)),
        _ => None,
    }
}

/// What a transfer has come to. None: it was over without a report.
fn outcome(end: Option<Result<Report, Error>>) -> Result<Report, Error> {
    end.unwrap_or(Err(Error::Cancelled))
}

/// The events of a transfer, until it is over.
pub struct EventIter<'a>(&'a Transfer);

impl Iterator for EventIter<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.0.next_event()
    }
}

impl<'a> IntoIterator for &'a Transfer {
    type Item = Event;
    type IntoIter = EventIter<'a>;

    fn into_iter(self) -> EventIter<'a> {
        EventIter(self)
    }
}

impl Stream for Transfer {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(task)
    }
}
