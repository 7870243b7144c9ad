//! What is told of an operation. The thread that waits for events is seldom woken: what can wait is gathered for a
//! while, because a wake-up for each chunk costs as much as the chunk.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Event, Report, shown};
use crate::error::{Code, Error, FileError};

/// How long events are gathered that can wait.
const GATHERING: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Channel {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// No more events come.
    is_closed: bool,
    /// The receiver was dropped: events are dropped, too.
    is_unread: bool,
    /// Which events wake the thread that waits.
    wakes: Wakes,
    /// Events were taken since the thread last waited for any.
    is_flowing: bool,
    /// The task of an executor that waits.
    waker: Option<Waker>,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Wakes {
    /// Nobody waits.
    #[default]
    None,
    /// Those that cannot wait.
    Urgent,
    Any,
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells events. When the last clone is dropped, no more come.
#[derive(Clone)]
pub struct EventSender(Arc<SendingEnd>);

struct SendingEnd(Arc<Channel>);

impl EventSender {
    pub fn tell(&self, event: Event) {
        let channel = &self.0.0;
        let mut state = channel.state();
        let (is_urgent, is_unread) = (event.is_urgent(), state.is_unread);
        match (&event, state.events.back_mut()) {
            _ if is_unread => {}
            (Event::Progress { bytes: more }, Some(Event::Progress { bytes })) => *bytes += more,
            _ => state.events.push_back(event),
        }
        let is_awaited = match state.wakes {
            Wakes::None => false,
            Wakes::Urgent => is_urgent,
            Wakes::Any => true,
        };
        let waker = state.waker.take();
        if is_awaited {
            state.wakes = Wakes::None;
        }
        drop(state);
        if is_awaited {
            channel.told.notify_one();
        }
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Drop for SendingEnd {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let waker = state.waker.take();
        drop(state);
        self.0.told.notify_one();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The events of an operation.
pub struct Events(Arc<Channel>);

impl Events {
    pub fn channel() -> (EventSender, Events) {
        let channel = Arc::<Channel>::default();
        (EventSender(Arc::new(SendingEnd(channel.clone()))), Events(channel))
    }

    /// Waits for the next event. None: there are no more.
    pub fn next(&self) -> Option<Event> {
        self.next_until(None).ok()
    }

    /// As `next`, but waits at most `time`.
    pub fn next_within(&self, time: Duration) -> Result<Event, RecvTimeoutError> {
        self.next_until(Instant::now().checked_add(time))
    }

    /// The next event, if it was told already.
    pub fn next_at_once(&self) -> Option<Event> {
        self.0.state().events.pop_front()
    }

    /// The next event, if it was told already; else the task is woken by the next one. One task at a time can wait:
    /// the last one that has called this.
    pub fn poll_next(&self, task: &Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.0.state();
        match state.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.is_closed => Poll::Ready(None),
            None => {
                state.waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }

    fn next_until(&self, until: Option<Instant>) -> Result<Event, RecvTimeoutError> {
        let mut state = self.0.state();
        loop {
            if let Some(event) = state.events.pop_front() {
                state.is_flowing = true;
                return Ok(event);
            }
            if state.is_closed {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(RecvTimeoutError::Timeout);
            }
            let gathers = std::mem::take(&mut state.is_flowing);
            state.wakes = if gathers { Wakes::Urgent } else { Wakes::Any };
            let most = left.into_iter().chain(gathers.then_some(GATHERING)).min();
            state = match most {
                Some(most) => self.0.told.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0,
                None => self.0.told.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.wakes = Wakes::None;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_unread = true;
        let dropped = std::mem::take(&mut state.events);
        drop(state);
        drop(dropped);
    }
}

/// Tells what becomes of an operation, and keeps the report.
pub struct Reporter {
    pub events: EventSender,
    pub report: Report,
    contact: Contact,
    /// Present if paths are told by another name than the source's.
    pub naming: Option<Box<Naming>>,
}

/// The paths of an upload: what is the source's path for the side that fetches is told as the one at the target.
pub struct Naming {
    /// Without a slash at its end.
    source: Vec<u8>,
    /// What the source becomes if it is a file, and if it is a directory.
    file: Vec<u8>,
    directory: Vec<u8>,
    pub is_directory: bool,
}

impl Naming {
    /// `source`, `target`: virtual paths as `Client::get` has them; `is_below`: the target is a directory, into which a
    /// file goes by its name.
    pub fn new(source: &[u8], target: &[u8], is_below: bool) -> Naming {
        let target = target.strip_suffix(b"/").unwrap_or(target);
        let own = source.rsplit(|octet| *octet == b'/').next().unwrap_or_default();
        let below = [target, b"/", own].concat();
        let directory = if own.is_empty() { target.to_vec() } else { below.clone() };
        let file = if is_below { below } else { target.to_vec() };
        let source = source.strip_suffix(b"/").unwrap_or(source).to_vec();
        Naming { source, file, directory, is_directory: false }
    }

    fn target_of(&self, name: &[u8]) -> Vec<u8> {
        let whole = if self.is_directory { &self.directory } else { &self.file };
        match name.strip_prefix(&self.source[..]) {
            Some(b"" | b"/") if whole.is_empty() => b"/".to_vec(),
            Some(b"/") => whole.clone(),
            Some(below) => [whole, below].concat(),
            None => name.to_vec(),
        }
    }
}

/// Whether the other side has answered the operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contact {
    NotYet,
    Answered,
    /// It has, and does not any more, which was told.
    Lost,
}

impl Reporter {
    pub fn new(events: EventSender) -> Reporter {
        Reporter { events, report: Report::default(), contact: Contact::NotYet, naming: None }
    }

    /// A path of the source as text, by the name by which it is told.
    pub fn name(&self, name: &[u8]) -> String {
        self.naming.as_ref().map_or_else(|| shown(name), |naming| shown(&naming.target_of(name)))
    }

    /// The other side has answered.
    pub fn note_answer(&mut self) {
        self.contact = Contact::Answered;
    }

    /// The other side does not answer any more: tells that once. Returns false if it never has.
    pub fn note_loss(&mut self, error: &dyn Fn() -> Error) -> bool {
        if self.contact == Contact::Answered {
            self.contact = Contact::Lost;
            self.tell(Event::Lost(error()));
        }
        self.contact == Contact::Lost
    }

    pub fn tell(&self, event: Event) {
        self.events.tell(event);
    }

    /// A path of the source failed here, on the disk or by what was received.
    pub fn fail(&mut self, name: &[u8], error: FileError) {
        let here = !matches!(error.code, Code::Changed | Code::Corrupt | Code::Invalid);
        self.fail_by(self.name(name), FileError { here, ..error });
    }

    /// The other side says that a path failed there.
    pub fn fail_there(&mut self, name: &[u8], error: FileError) {
        self.fail_by(shown(name), FileError { here: false, ..error });
    }

    /// A path failed, by the name by which it is told.
    pub fn fail_by(&mut self, path: String, error: FileError) {
        self.report.failed.push((path.clone(), error.clone()));
        self.tell(Event::Failed { path, error });
    }

    /// The operation is complete.
    pub fn end(&mut self) {
        let report = std::mem::take(&mut self.report);
        self.tell(Event::Ended(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_added_up_and_what_is_urgent_ends_the_gathering() {
        let (sender, events) = Events::channel();
        sender.tell(Event::Progress { bytes: 1 });
        sender.tell(Event::Progress { bytes: 2 });
        assert!(matches!(events.next(), Some(Event::Progress { bytes: 3 })));
        let waiting = std::thread::spawn(move || (events.next(), events.next(), events.next()));
        sender.tell(Event::Current);
        drop(sender);
        let (first, second, third) = waiting.join().unwrap();
        assert!(matches!(first, Some(Event::Current)));
        assert!(second.is_none() && third.is_none());
    }

    #[test]
    fn nothing_is_kept_without_a_receiver() {
        let (sender, events) = Events::channel();
        sender.tell(Event::Current);
        drop(events);
        sender.tell(Event::Current);
        assert!(sender.0.0.state().events.is_empty());
    }

    #[test]
    fn an_event_that_can_wait_arrives_within_the_gathering() {
        let (sender, events) = Events::channel();
        let teller = std::thread::spawn(move || {
            (0..100).for_each(|_| sender.tell(Event::Progress { bytes: 1 }));
            sender
        });
        let mut bytes = 0;
        while bytes < 100 {
            match events.next_within(Duration::from_secs(10)) {
                Ok(Event::Progress { bytes: more }) => bytes += more,
                other => panic!("{other:?}"),
            }
        }
        let _sender = teller.join().unwrap();
        assert_eq!(events.next_within(Duration::from_millis(1)).unwrap_err(), RecvTimeoutError::Timeout);
    }
}
