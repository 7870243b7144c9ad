//! The side that has files: serves the requests of the other side, as far as that has granted credit.
//!
//! One chunk is sent in each turn. Several requests take turns too; subscriptions without the extensions come after
//! them.

use std::collections::VecDeque;
use std::time::Instant;

use pinnace_engine::Body;
use pinnace_stream::{Pacer, SenderCredit};

use super::changes::Wake;
use super::job::{CHUNK_BYTES, Job, Step};
use super::mounts::Mounts;
use super::push::Pushes;
use crate::clock;
use crate::error::{Code, FileError};
use crate::wire::{Cheezburger, Form, Hash, Headers, Message, Mode, NAME_MAX, Request};

/// The most requests that are served at once.
const REQUESTS_MAX: usize = 64;

/// The most credit that is used at once, in bytes; what is granted beyond is used later.
const CREDIT_MAX: u64 = 64 << 20;

/// Where frames go.
pub trait Outlet {
    /// Error: there is no room for the frame now, which is returned.
    fn send(&self, frame: Body) -> Result<(), Body>;

    /// Whether there is room for so many octets now.
    fn has_room(&self, octets: usize) -> bool;
}

/// What a turn has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more to send.
    More,
    /// Nothing to send until the next frame arrives, or something changes.
    Idle,
    /// The connection has no room; try again later.
    Blocked,
}

/// The requests that are served, and the frames that wait.
pub struct Provider {
    wake: Wake,
    credit: SenderCredit,
    granted: u64,
    jobs: VecDeque<Job>,
    /// Subscriptions without the extensions.
    pushes: Pushes,
    /// Frames that were not accepted yet.
    unsent: VecDeque<Body>,
    sequence: u64,
    /// Octets of content that were sent since this was last taken.
    sent: u64,
    /// Present if the rate is limited.
    pacer: Option<Pacer>,
}

impl Provider {
    /// `wake` is called when something changes that is to be told, by any thread: a turn is due.
    pub fn new(wake: Wake) -> Provider {
        Provider {
            wake,
            credit: SenderCredit::new(CREDIT_MAX),
            granted: 0,
            jobs: VecDeque::new(),
            pushes: Pushes::default(),
            unsent: VecDeque::new(),
            sequence: 0,
            sent: 0,
            pacer: None,
        }
    }

    /// Limits the rate, in bytes a second.
    pub fn limit(&mut self, rate: u64) {
        self.pacer = Some(Pacer::new(rate, clock::now()));
    }

    /// When a turn is due because of the rate's limit.
    pub fn next_due(&self) -> Option<Instant> {
        let pacer = self.pacer.as_ref().filter(|_| !self.jobs.is_empty() && self.credit.left() > 0)?;
        (pacer.available(clock::now()) == 0).then(|| pacer.next())
    }

    /// Forgets all requests and credit. Frames that wait are sent still.
    pub fn reset(&mut self) {
        let (unsent, sent, pacer) = (std::mem::take(&mut self.unsent), self.sent, self.pacer.take());
        *self = Provider { unsent, sent, pacer, ..Provider::new(self.wake.clone()) };
    }

    /// As `reset`, and what waits is not sent either.
    pub fn clear(&mut self) {
        self.unsent.clear();
        self.reset();
    }

    pub fn on_nom(&mut self, credit: u64) {
        self.granted = self.granted.saturating_add(credit);
        self.credit.grant(self.granted);
    }

    /// Handles a request for files, or one that concerns such requests.
    pub fn on_request(&mut self, request: &Request, mounts: &Mounts) {
        match request.mode {
            Mode::Cancel => return self.jobs.retain(|job| job.request() != request.number),
            Mode::Skip => {
                let jobs = self.jobs.iter_mut().filter(|job| job.request() == request.number);
                return jobs.for_each(|job| job.skip(&request.path));
            }
            Mode::Upload => return,
            Mode::Greet => return self.end_request(request),
            Mode::Fetch | Mode::Values | Mode::List | Mode::Follow => self.say(&Message::IcanhazOk),
        }
        let wake = self.wake.clone();
        self.begin(request, || Job::new(request, mounts, &wake));
    }

    /// Lists virtual paths below the request's, and nothing below them.
    pub fn list_paths(&mut self, request: &Request, paths: &[Vec<u8>], mounts: &Mounts) {
        self.say(&Message::IcanhazOk);
        self.begin(request, || Job::of_paths(request, paths, mounts));
    }

    fn begin(&mut self, request: &Request, job: impl FnOnce() -> Result<Job, FileError>) {
        let job = match self.jobs.len() < REQUESTS_MAX {
            true => job(),
            false => Err(FileError::new(Code::Limit, "more than 64 requests at once")),
        };
        match job {
            Ok(job) => self.jobs.push_back(job),
            Err(error) => self.fail_request(request, &error),
        }
    }

    /// Handles a subscription of RFC 35. Errors: Invalid, it is no virtual path; others: it cannot be served.
    pub fn subscribe(
        &mut self,
        path: &[u8],
        options: Hash<'_>,
        cache: Hash<'_>,
        mounts: &Mounts,
    ) -> Result<(), FileError> {
        self.pushes.subscribe(path, options, cache, mounts, &self.wake)?;
        self.say(&Message::IcanhazOk);
        Ok(())
    }

    /// Answers a request by its failure.
    pub fn fail_request(&mut self, request: &Request, error: &FileError) {
        self.push(failure(request.number, &request.path, error));
        self.end_request(request);
    }

    fn end_request(&mut self, request: &Request) {
        let (form, domain) = (Form::End, request.domain.clone());
        let headers = Headers { request: Some(request.number), form, domain, ..Headers::default() };
        self.push(reply(&request.path, &headers));
    }

    /// Sends a frame before any further content.
    pub fn push(&mut self, frame: Vec<u8>) {
        self.unsent.push_back(frame.into());
    }

    pub fn say(&mut self, message: &Message<'_>) {
        self.push(message.to_frame());
    }

    /// Octets of content that were sent since the last call.
    pub fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.sent)
    }

    /// Sends what waits, and then one chunk.
    pub fn turn(&mut self, outlet: &impl Outlet) -> Turn {
        if !self.flush(outlet) || !outlet.has_room(CHUNK_BYTES as usize) {
            return Turn::Blocked;
        }
        self.credit.grant(self.granted);
        for _ in 0..self.jobs.len() {
            let Some(mut job) = self.jobs.pop_front() else { break };
            let paced = self.pacer.as_ref().map_or(u64::MAX, |pacer| pacer.available(clock::now()));
            let step = job.step(self.sequence + 1, self.credit.left().min(paced));
            if !matches!(step, Step::Done(_)) {
                self.jobs.push_back(job);
            }
            if let Some(turn) = self.take(step, outlet) {
                return turn;
            }
        }
        let step = self.pushes.step(self.sequence + 1, self.credit.left());
        self.take(step, outlet).unwrap_or(Turn::Idle)
    }

    /// Sends what a step has made. None: it has made nothing.
    fn take(&mut self, step: Step, outlet: &impl Outlet) -> Option<Turn> {
        match step {
            Step::Content(frame, cost) => {
                self.credit.spend(cost);
                self.pacer.iter_mut().for_each(|pacer| pacer.spend(cost, clock::now()));
                self.sent += cost;
                self.sequence += 1;
                self.unsent.push_back(frame);
            }
            Step::Told(frame) | Step::Done(frame) => self.push(frame),
            Step::Working => {}
            Step::NoCredit | Step::Nothing => return None,
        }
        Some(if self.flush(outlet) { Turn::More } else { Turn::Blocked })
    }

    /// Sends what waits. False: the connection has no room.
    pub fn flush(&mut self, outlet: &impl Outlet) -> bool {
        while let Some(frame) = self.unsent.pop_front() {
            if let Err(frame) = outlet.send(frame) {
                self.unsent.push_front(frame);
                return false;
            }
        }
        true
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
