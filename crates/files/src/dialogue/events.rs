//! What is told of an operation, in batches: a thread that waits for events is woken once for those of a frame.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::{Event, Report};
use crate::error::FileError;

/// Where events come from.
pub type EventSender = Sender<Vec<Event>>;

/// The events of an operation.
pub struct Events {
    batches: Receiver<Vec<Event>>,
    /// Events of the last batch.
    ready: RefCell<VecDeque<Event>>,
}

impl Events {
    pub fn channel() -> (EventSender, Events) {
        let (sender, batches) = channel();
        (sender, Events { batches, ready: RefCell::default() })
    }

    /// Waits for the next event. None: there are no more.
    pub fn next(&self) -> Option<Event> {
        self.next_by(|batches| batches.recv()).ok()
    }

    /// As `next`, but waits at most `time`.
    pub fn next_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.next_by(|batches| batches.recv_timeout(time))
    }

    /// The next event, if it was told already.
    pub fn next_at_once(&self) -> Option<Event> {
        self.next_by(|batches| batches.try_recv()).ok()
    }

    fn next_by<E>(
        &self,
        receive: impl Fn(&Receiver<Vec<Event>>) -> Result<Vec<Event>, E>,
    ) -> Result<Event, E> {
        loop {
            if let Some(event) = self.ready.borrow_mut().pop_front() {
                return Ok(event);
            }
            let batch = receive(&self.batches)?;
            self.ready.borrow_mut().extend(batch);
        }
    }
}

/// Tells what becomes of an operation, and keeps the report.
pub struct Reporter {
    events: EventSender,
    /// Events that are not sent yet.
    batch: Vec<Event>,
    pub report: Report,
}

impl Reporter {
    pub fn new(events: EventSender) -> Reporter {
        Reporter { events, batch: Vec::new(), report: Report::default() }
    }

    /// Adds an event, which `flush` sends.
    pub fn tell(&mut self, event: Event) {
        self.batch.push(event);
    }

    pub fn fail(&mut self, name: &[u8], error: FileError) {
        let path = String::from_utf8_lossy(name).into_owned();
        self.report.failed.push((path.clone(), error.clone()));
        self.tell(Event::Failed { path, error });
    }

    /// The operation is complete.
    pub fn end(&mut self) {
        let report = std::mem::take(&mut self.report);
        self.tell(Event::Ended(report));
    }

    /// Sends what was told since the last call.
    pub fn flush(&mut self) {
        if !self.batch.is_empty() {
            let _ = self.events.send(std::mem::take(&mut self.batch));
        }
    }
}
