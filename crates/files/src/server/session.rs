//! The dialogue with one client: its requests, its credit, and what is sent next.
//!
//! A session is called with each frame of its client, and for a turn whenever it has something to send. It sends
//! content only as far as the client has granted credit, and one chunk in each turn, so that clients take turns.

use std::collections::VecDeque;

use pinnace_engine::Body;
use pinnace_stream::SenderCredit;

use super::job::{Job, Step};
use super::mounts::Mounts;
use crate::error::{Code, FileError};
use crate::wire::{Cheezburger, DecodeError, Form, Hash, Headers, Message, Mode, NAME_MAX, Request};

/// The most requests of a client that are under way.
const REQUESTS_MAX: usize = 64;

/// The most credit of a client that is used at once, in bytes; what it grants beyond is used later.
const CREDIT_MAX: u64 = 64 << 20;

/// Where a session's frames go.
pub trait Outlet {
    /// Error: there is no room for the frame now, which is returned.
    fn send(&self, frame: Body) -> Result<(), Body>;
}

/// What a turn has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more to send.
    More,
    /// Nothing to send until the next frame arrives.
    Idle,
    /// The connection has no room; try again later.
    Blocked,
    /// The session has ended.
    Over,
}

/// The state of the dialogue with a client.
pub struct Session {
    has_greeted: bool,
    is_over: bool,
    credit: SenderCredit,
    granted: u64,
    jobs: VecDeque<Job>,
    /// Frames that were not accepted yet.
    unsent: VecDeque<Body>,
    sequence: u64,
    /// Octets of content that were sent since this was last taken.
    sent: u64,
}

impl Default for Session {
    fn default() -> Session {
        Session {
            has_greeted: false,
            is_over: false,
            credit: SenderCredit::new(CREDIT_MAX),
            granted: 0,
            jobs: VecDeque::new(),
            unsent: VecDeque::new(),
            sequence: 0,
            sent: 0,
        }
    }
}

impl Session {
    /// Handles a frame of the client.
    pub fn on_frame(&mut self, frame: &[u8], mounts: &Mounts) {
        match Message::read(frame) {
            Err(DecodeError::Foreign) => {}
            Err(DecodeError::Malformed(what)) => self.end(&Message::Rtfm { reason: what.as_bytes() }),
            Ok(Message::GREETING) => {
                *self = Session {
                    has_greeted: true,
                    unsent: std::mem::take(&mut self.unsent),
                    ..Session::default()
                };
                self.say(&Message::OhaiOk);
            }
            Ok(Message::Ohai { .. }) => {
                self.end(&Message::Rtfm { reason: b"this server speaks FILEMQ version 2" })
            }
            Ok(_) if !self.has_greeted => self.end(&Message::Rtfm { reason: b"OHAI comes first" }),
            Ok(Message::Nom { credit, .. }) => {
                self.granted = self.granted.saturating_add(credit);
                self.credit.grant(self.granted);
            }
            Ok(Message::Icanhaz { path, options, .. }) => self.on_request(path, options, mounts),
            Ok(Message::Hugz) => self.say(&Message::HugzOk),
            Ok(Message::HugzOk) => {}
            Ok(Message::Kthxbai) => self.is_over = true,
            Ok(_) => self.end(&Message::Rtfm { reason: b"not a command of a client" }),
        }
    }

    fn on_request(&mut self, path: &[u8], options: Hash<'_>, mounts: &Mounts) {
        let request = match Request::read(path, options) {
            None => return self.say(&Message::IcanhazOk),
            Some(Err(what)) => return self.end(&Message::Rtfm { reason: what.as_bytes() }),
            Some(Ok(request)) => request,
        };
        match request.mode {
            Mode::Cancel => return self.jobs.retain(|job| job.request() != request.number),
            Mode::Confirm => return,
            Mode::Greet => return self.end_request(&request),
            Mode::Fetch | Mode::List => self.say(&Message::IcanhazOk),
        }
        let job = match self.jobs.len() < REQUESTS_MAX {
            true => Job::new(&request, mounts),
            false => Err(FileError::new(Code::Limit, "more than 64 requests at once")),
        };
        match job {
            Ok(job) => self.jobs.push_back(job),
            Err(error) => {
                self.push(failure(request.number, path, &error));
                self.end_request(&request);
            }
        }
    }

    fn end_request(&mut self, request: &Request) {
        let headers = Headers { request: Some(request.number), form: Form::End, ..Headers::default() };
        self.push(reply(&request.path, &headers));
    }

    /// Octets of content that were sent since the last call.
    pub fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.sent)
    }

    fn say(&mut self, message: &Message<'_>) {
        self.push(message.to_frame());
    }

    fn push(&mut self, frame: Vec<u8>) {
        self.unsent.push_back(frame.into());
    }

    fn end(&mut self, last: &Message<'_>) {
        self.jobs.clear();
        self.say(last);
        self.is_over = true;
    }

    /// Sends what waits, and then one chunk.
    pub fn turn(&mut self, outlet: &impl Outlet) -> Turn {
        while let Some(frame) = self.unsent.pop_front() {
            if let Err(frame) = outlet.send(frame) {
                self.unsent.push_front(frame);
                return Turn::Blocked;
            }
        }
        if self.is_over {
            return Turn::Over;
        }
        self.credit.grant(self.granted);
        for _ in 0..self.jobs.len() {
            let Some(mut job) = self.jobs.pop_front() else { break };
            let step = job.step(self.sequence + 1, self.credit.left());
            if !matches!(step, Step::Done(_)) {
                self.jobs.push_back(job);
            }
            match step {
                Step::Content(frame, cost) => {
                    self.credit.spend(cost);
                    self.sent += cost;
                    self.sequence += 1;
                    self.unsent.push_back(frame);
                }
                Step::Told(frame) | Step::Done(frame) => self.push(frame),
                Step::NoCredit => continue,
            }
            return match self.unsent.pop_front().map(|frame| outlet.send(frame)) {
                Some(Err(frame)) => {
                    self.unsent.push_front(frame);
                    Turn::Blocked
                }
                _ => Turn::More,
            };
        }
        Turn::Idle
    }
}

/// The frame that says that a request, or one of its files, failed.
pub fn failure(request: u32, filename: &[u8], error: &FileError) -> Vec<u8> {
    let headers = Headers {
        request: Some(request),
        form: Form::Failed,
        error: error.code.name().to_vec(),
        text: error.text.clone().into_bytes(),
        ..Headers::default()
    };
    reply(filename, &headers)
}

/// A frame without content.
pub fn reply(filename: &[u8], headers: &Headers) -> Vec<u8> {
    let filename = &filename[..filename.len().min(NAME_MAX)];
    Message::Cheezburger(Cheezburger::new(0, filename, headers.write().hash())).to_frame()
}
