//! Uploads a file or a tree: offers it, and the other side fetches it.

use std::sync::mpsc::Sender;

use super::operation::{Asks, Operation, Reply};
use super::{Event, Report};
use crate::error::Error;
use crate::wire::{Form, Mode, Request};

/// An upload that is under way.
pub struct Upload {
    /// Where it goes, at the other side, and where that finds it.
    path: Vec<u8>,
    source: Vec<u8>,
    events: Sender<Event>,
    report: Report,
    is_over: bool,
}

impl Upload {
    pub fn new(path: &[u8], source: &[u8], events: Sender<Event>) -> Upload {
        let (report, is_over) = Default::default();
        Upload { path: path.to_vec(), source: source.to_vec(), events, report, is_over }
    }

    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}

impl Operation for Upload {
    fn begin(&mut self, asks: &mut Asks) {
        self.report = Report::default();
        let source = self.source.clone();
        asks.ask(Request { source, ..Request::new(0, Mode::Upload, &self.path) });
    }

    fn on_reply(&mut self, reply: &Reply<'_>, _: &mut Asks) -> u64 {
        match reply.headers.form {
            Form::Failed => {
                let (path, error) =
                    (String::from_utf8_lossy(reply.burger.filename).into_owned(), reply.failure());
                self.report.failed.push((path.clone(), error.clone()));
                self.tell(Event::Failed { path, error });
            }
            Form::End => {
                self.report.files = reply.headers.files.unwrap_or(0);
                self.report.bytes = reply.headers.bytes.unwrap_or(0);
                self.is_over = true;
                let report = std::mem::take(&mut self.report);
                self.tell(Event::Ended(report));
            }
            _ => {}
        }
        reply.burger.chunk.len() as u64
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn abort(&mut self, error: Error) -> u64 {
        self.tell(Event::Aborted(error));
        0
    }
}
