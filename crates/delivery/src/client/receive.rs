//! Receiving.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;

use super::Client;
use crate::Error;
use crate::inbox::{Inbox, Message, Parts};
use crate::pack::unpack;
use crate::wire::{Bytes, DEAD, NAME_MAX, PACKED, Verdict};

/// A message, from its arrival until it is handled.
///
/// It is done when it is acknowledged ([`Delivery::ack`]). One that is dropped before has failed: it is the next of its
/// stream again, after a while in which its stream rests, so that the order stays.
pub struct Delivery {
    /// There, until something is said of it.
    message: Option<Message>,
    /// The body of a message in parts, or of one that was compressed; and where it begins.
    whole: Option<Vec<u8>>,
    begin: usize,
    dead: Option<Box<Dead>>,
    inbox: Arc<Inbox>,
}

/// Why a dead letter is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The topic to which it was sent.
    pub topic: String,
    /// Who has given it up.
    pub receiver: String,
    /// Why it was given up.
    pub reason: Verdict,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl Delivery {
    /// Err: the message cannot be delivered.
    fn new(message: Message, inbox: Arc<Inbox>) -> Result<Delivery, (Message, Verdict)> {
        let whole = match &message.parts {
            Parts::One(_) => None,
            Parts::Many(parts) => Some(parts.iter().flat_map(|part| part.body()).copied().collect()),
        };
        let (is_dead, is_packed) = (message.parts.first().has(DEAD), message.parts.first().has(PACKED));
        let most = inbox.largest();
        let mut delivery = Delivery { message: Some(message), whole, begin: 0, dead: None, inbox };
        if is_dead && let Some((dead, begin)) = read_envelope(delivery.body()) {
            (delivery.dead, delivery.begin) = (Some(Box::new(dead)), begin);
        }
        if is_packed {
            match (unpack(delivery.body(), most), delivery.message.take()) {
                (Err(verdict), Some(message)) => return Err((message, verdict)),
                (body, message) => {
                    (delivery.whole, delivery.begin, delivery.message) = (body.ok(), 0, message);
                }
            }
        }
        Ok(delivery)
    }

    pub(super) fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    pub fn body(&self) -> &[u8] {
        let whole = match (&self.whole, self.message()) {
            (Some(whole), _) => whole,
            (None, Some(message)) => message.parts.first().body(),
            (None, None) => &[],
        };
        &whole[self.begin..]
    }

    /// Who sent it.
    pub fn from(&self) -> &str {
        self.message().map_or("", |message| &message.parts.first().frame.origin.from)
    }

    /// The topic to which it was sent; of a dead letter, that of dead letters.
    pub fn topic(&self) -> &str {
        self.message().map_or("", |message| &message.parts.first().frame.origin.topic)
    }

    /// When it was accepted, in milliseconds since 1970, by the sender's clock.
    pub fn accepted_ms(&self) -> u64 {
        self.message().map_or(0, |message| message.parts.first().accepted_ms)
    }

    /// How often it was delivered since this client was started, this time included.
    pub fn deliveries(&self) -> u32 {
        self.message().map_or(0, |message| message.deliveries)
    }

    /// Why it is a dead letter; None: it is none.
    pub fn dead(&self) -> Option<&Dead> {
        self.dead.as_deref()
    }

    /// It is handled: it is not delivered again once that is on the disk here.
    pub fn ack(mut self) {
        if let Some(message) = self.message.take() {
            self.inbox.ack(&message);
        }
    }

    /// It is still being handled: where that has a time limit ([`Builder::ack_within`](super::Builder::ack_within)) it
    /// begins anew.
    pub fn in_progress(&self) {
        if let Some(message) = self.message() {
            self.inbox.go_on(message);
        }
    }

    /// It is to be delivered again after `delay`, or, where that is not said, after a while that grows. Others of its
    /// stream go first: this one is out of order then.
    pub fn nack(mut self, delay: Option<Duration>) {
        if let Some(message) = self.message.take() {
            self.inbox.put_off(message, delay);
        }
    }

    /// It will never be handled here: its sender keeps it as a dead letter.
    pub fn terminate(mut self) {
        if let Some(message) = self.message.take() {
            self.inbox.give_up(&message, Verdict::Terminated);
        }
    }
}

/// What precedes a dead letter's body, and how long that is.
pub(crate) fn read_envelope(body: &[u8]) -> Option<(Dead, usize)> {
    let mut from = Bytes::new(body);
    let (topic, receiver) = (from.text(NAME_MAX)?.to_owned(), from.text(NAME_MAX)?.to_owned());
    let (reason, deliveries) = (Verdict::read(from.byte()?)?, from.number()?);
    Some((Dead { topic, receiver, reason, deliveries }, body.len() - from.rest().len()))
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.inbox.fail(message);
        }
    }
}

/// From [`Client::stream`].
#[must_use = "a stream does nothing until it is polled"]
pub struct Deliveries<'a> {
    client: &'a Client,
}

impl Stream for Deliveries<'_> {
    type Item = Delivery;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let next = pin!(self.client.recv_async());
        next.poll(task).map(Result::ok)
    }
}

impl Client {
    /// The next message. Errors: TimedOut after the deadline, Closed.
    pub fn recv(&self, deadline: Option<Instant>) -> Result<Delivery, Error> {
        loop {
            match Delivery::new(self.inbox.next(deadline)?, self.inbox.clone()) {
                Ok(delivery) => return Ok(delivery),
                Err((message, verdict)) => self.inbox.give_up(&message, verdict),
            }
        }
    }

    /// All messages that come, until the client is closed.
    pub fn iter(&self) -> impl Iterator<Item = Delivery> + '_ {
        std::iter::from_fn(|| self.recv(None).ok())
    }

    /// The next message, for a task of any executor. Error: Closed. Dropped before its end, it has taken none.
    pub async fn recv_async(&self) -> Result<Delivery, Error> {
        loop {
            let message = std::future::poll_fn(|task| self.inbox.poll_next(task)).await?;
            match Delivery::new(message, self.inbox.clone()) {
                Ok(delivery) => return Ok(delivery),
                Err((message, verdict)) => self.inbox.give_up(&message, verdict),
            }
        }
    }

    /// All messages that come, for a task of any executor, until the client is closed.
    pub fn stream(&self) -> Deliveries<'_> {
        Deliveries { client: self }
    }

    /// Has a thread of its own handle messages, one after the other, until the client is closed or dropped. A message
    /// is done when the handler has returned Ok. One for which it returns an error, or panics, has failed.
    ///
    /// The thread blocks signals while it waits. While the handler runs it has the signal mask of the thread that
    /// started the client, and so has a process that the handler starts.
    pub fn listen<E>(
        &self,
        mut handler: impl FnMut(&Delivery) -> Result<(), E> + Send + 'static,
    ) -> Result<(), Error> {
        let (inbox, signals) = (self.inbox.clone(), self.signals);
        let mut handle = move |message, inbox: &Arc<Inbox>| match Delivery::new(message, inbox.clone()) {
            // One that is dropped has failed.
            Ok(delivery) => match catch_unwind(AssertUnwindSafe(|| handler(&delivery))) {
                Ok(Ok(())) => delivery.ack(),
                Ok(Err(_)) | Err(_) => drop(delivery),
            },
            Err((message, verdict)) => inbox.give_up(&message, verdict),
        };
        let work = move || {
            let no_wait = Some(Instant::now());
            while let Ok(first) = inbox.next(None) {
                // Once for all that are there: two system calls a message halve the rate.
                signals.during(|| {
                    let mut next = Ok(first);
                    while let Ok(message) = next {
                        handle(message, &inbox);
                        next = inbox.next(no_wait);
                    }
                });
            }
        };
        let thread =
            pinnace_sys::thread::start("pinnace-handler", work).map_err(|error| Error::Io(error.kind()))?;
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Handles messages, one after the other, until the handler breaks or the client is closed. A message is done when
    /// the handler has returned. One in which it panics has failed; the panic goes on to the caller.
    pub fn run<B>(&self, mut handler: impl FnMut(&Delivery) -> ControlFlow<B>) -> Result<B, Error> {
        loop {
            let delivery = self.recv(None)?;
            match catch_unwind(AssertUnwindSafe(|| handler(&delivery))) {
                Ok(flow) => {
                    delivery.ack();
                    if let ControlFlow::Break(value) = flow {
                        return Ok(value);
                    }
                }
                Err(panic) => {
                    drop(delivery);
                    resume_unwind(panic);
                }
            }
        }
    }
}
