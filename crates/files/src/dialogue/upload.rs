//! Uploads a file or a tree: offers it, and the other side fetches it.

use super::events::{EventSender, Reporter};
use super::operation::{Asks, Operation, Reply};
use super::{Event, Report, shown};
use crate::error::{Error, FileError};
use crate::rules::Rules;
use crate::wire::{Change, Form, Headers, Mode, Request};

/// An upload that is under way.
pub struct Upload {
    /// Where it goes, at the other side, and where that finds it.
    path: Vec<u8>,
    source: Vec<u8>,
    /// What is told of `source`: its path at this host.
    local: Vec<u8>,
    rules: Rules,
    reporter: Reporter,
    is_over: bool,
}

impl Upload {
    /// `source`: a virtual path of this side, `local`: what it is called in events.
    pub fn new(path: &[u8], source: &[u8], local: &[u8], rules: Rules, events: EventSender) -> Upload {
        let (path, source, local) = (path.to_vec(), source.to_vec(), local.to_vec());
        Upload { path, source, local, rules, reporter: Reporter::new(events), is_over: false }
    }

    /// The server names a file of this client that failed by its virtual path. Returns its path on this host. None: it
    /// is another path.
    fn local_path_of(&self, filename: &[u8]) -> Option<Vec<u8>> {
        let source = self.source.strip_suffix(b"/").unwrap_or(&self.source);
        match filename.strip_prefix(source)? {
            b"" | b"/" => Some(self.local.clone()),
            below if below.starts_with(b"/") => {
                Some([self.local.strip_suffix(b"/").unwrap_or(&self.local), below].concat())
            }
            _ => None,
        }
    }

    fn fail(&mut self, reply: &Reply<'_>) {
        match self.local_path_of(reply.burger.filename) {
            Some(local) => {
                self.reporter.fail_by(shown(&local), FileError { here: true, ..reply.failure() });
            }
            None => self.reporter.fail_there(reply.burger.filename, reply.failure()),
        }
    }
}

/// The server has a file, or another name of one.
fn done(path: String, headers: &Headers) -> Event {
    match headers.from.is_empty() {
        true => Event::Finished {
            path,
            size: headers.size.unwrap_or(0),
            digest: headers.digest.unwrap_or_default(),
        },
        false => Event::Linked { path, first: shown(&headers.from) },
    }
}

impl Operation for Upload {
    fn begin(&mut self, asks: &mut Asks) {
        self.reporter.report = Report::default();
        let (source, rules) = (self.source.clone(), self.rules.clone());
        asks.ask(Request { source, rules, ..Request::new(0, Mode::Upload, &self.path) });
    }

    fn on_reply(&mut self, reply: &Reply<'_>, _: &mut Asks) -> u64 {
        let removal = reply.burger.operation == Change::Delete;
        let path = || shown(reply.burger.filename);
        match reply.headers.form {
            Form::Planned => self.reporter.tell(Event::Planned { path: path(), removal }),
            Form::Data if removal => self.reporter.tell(Event::Removed { path: path(), here: true }),
            Form::Begin => {
                self.reporter.tell(Event::Begun { path: path(), size: reply.headers.size.unwrap_or(0) });
            }
            Form::Data if reply.burger.eof => self.reporter.tell(done(path(), reply.headers)),
            Form::Failed => self.fail(reply),
            Form::End => {
                self.reporter.report.files = reply.headers.files.unwrap_or(0);
                self.reporter.report.bytes = reply.headers.bytes.unwrap_or(0);
                self.is_over = true;
                self.reporter.end();
            }
            _ => {}
        }
        reply.burger.chunk.len() as u64
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn abort(&mut self, error: Error) -> u64 {
        self.reporter.tell(Event::Aborted(error));
        0
    }
}
