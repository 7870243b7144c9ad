//! Lists the names below a path.

use super::events::{EventSender, Reporter};
use super::operation::{Asks, Operation, Reply};
use super::{Event, Report};
use crate::error::{Code, Error, FileError};
use crate::tree::Kind;
use crate::wire::{Entries, Form, Mode, Request};

/// A name that a server has, with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub kind: Kind,
    /// Below the path that was listed; empty: the path itself.
    pub name: Vec<u8>,
    /// Octets of a file.
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Permission bits.
    pub mode: u32,
    /// Where a link leads.
    pub target: Vec<u8>,
}

/// A listing that is under way.
pub struct Listing {
    path: Vec<u8>,
    reporter: Reporter,
    is_over: bool,
}

impl Listing {
    pub fn new(path: &[u8], events: EventSender) -> Listing {
        Listing { path: path.to_vec(), reporter: Reporter::new(events), is_over: false }
    }

    fn on_list(&mut self, reply: &Reply<'_>) -> Result<(), FileError> {
        for entry in Entries::of_list(reply.burger.chunk).with_extra(reply.headers.extra) {
            let entry = entry.map_err(|error| FileError::new(Code::Invalid, error.to_string()))?;
            self.reporter.report.files += 1;
            let bytes = &mut self.reporter.report.bytes;
            *bytes = bytes.saturating_add(entry.size);
            self.reporter.tell(Event::Listed(Listed {
                kind: entry.kind,
                name: entry.name.to_vec(),
                size: entry.size,
                mtime_ns: entry.mtime_ns,
                mode: entry.mode,
                target: entry.target.to_vec(),
            }));
        }
        Ok(())
    }
}

impl Operation for Listing {
    fn begin(&mut self, asks: &mut Asks) {
        // On a new connection the names come again.
        self.reporter.report = Report::default();
        asks.ask(Request::new(0, Mode::List, &self.path));
    }

    fn on_reply(&mut self, reply: &Reply<'_>, _: &mut Asks) -> u64 {
        let outcome = match reply.headers.form {
            Form::List => self.on_list(reply),
            Form::Failed => Err(reply.failure()),
            Form::End => {
                self.is_over = true;
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            self.reporter.fail_there(reply.burger.filename, error);
        }
        if self.is_over {
            self.reporter.end();
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
