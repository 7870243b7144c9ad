//! Answers of threads: operations that may wait run outside of the loop.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pinnace_delivery::{Client, Delivery};
use pinnace_engine::Error;
use pinnace_files::client::{Client as FilesClient, Transfer};
use pinnace_files::server::Server;
use pinnace_sys::wake::WakeFd;

use crate::refusal::Refusal;

/// What a thread has done.
pub enum Answer {
    /// A request is done, with these values.
    Done { id: u32, outcome: Result<Vec<u8>, Refusal> },
    /// What was requested for this channel was started.
    Started { id: u32, channel: u32, outcome: Result<Started, Refusal> },
    /// A delivery was not acknowledged together with messages, and is still to be settled.
    NotAcked { channel: u32, token: u64, delivery: Box<Delivery> },
    /// A transfer of files has begun, which was requested for this channel.
    Began { id: u32, channel: u32, transfer: Transfer },
    /// A transfer may have events.
    Events { channel: u32 },
}

/// What a channel is for, if it is started by a thread.
pub enum Started {
    Delivery(Arc<Client>),
    FilesServer(Server),
    FilesClient(Arc<FilesClient>),
}

/// Where threads leave their answers.
#[derive(Clone)]
pub struct Desk {
    answers: Sender<Answer>,
    wake: Arc<WakeFd>,
}

impl Desk {
    pub fn put(&self, answer: Answer) {
        // Without a receiver the program ends.
        let _ = self.answers.send(answer);
        self.wake.signal();
    }

    pub fn done(&self, id: u32, outcome: Result<Vec<u8>, Refusal>) {
        self.put(Answer::Done { id, outcome });
    }

    /// Runs what may wait in a thread of its own, and answers. Error: no thread can be started.
    pub fn run(
        &self,
        id: u32,
        what: impl FnOnce() -> Result<Vec<u8>, Refusal> + Send + 'static,
    ) -> Result<(), Error> {
        let desk = self.clone();
        start("port-call", move || desk.done(id, what()))
    }
}

/// Starts a thread that ends by itself.
pub fn start(name: &str, what: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    pinnace_sys::thread::start(name, what).map(drop).map_err(|_| Error::NoMemory)
}

/// The answers that the loop has to take.
pub struct Answers {
    answers: Receiver<Answer>,
    pub desk: Desk,
}

impl Answers {
    pub fn new() -> Result<Answers, Error> {
        let (sender, answers) = channel();
        let wake = WakeFd::new().map_err(|errno| Error::System(errno.raw_os_error()))?;
        Ok(Answers { answers, desk: Desk { answers: sender, wake: Arc::new(wake) } })
    }

    /// It is readable when there are answers.
    pub fn descriptor(&self) -> RawFd {
        self.desk.wake.raw()
    }

    pub fn take(&self) -> Vec<Answer> {
        self.desk.wake.clear();
        self.answers.try_iter().collect()
    }
}
