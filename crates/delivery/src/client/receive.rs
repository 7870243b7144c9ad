//! Receiving messages.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use futures_core::Stream;

use super::registration::Registration;
use super::{Client, HandlerResult, Settlement};
use crate::Error;
use crate::environment::now;
use crate::inbox::{Message, Parts};
use crate::pack::unpack;
use crate::properties::Properties;
use crate::wire::{Bytes, DEAD, NAME_MAX, PACKED, PROPERTIES, Verdict};

/// A received message, until it is handled.
///
/// It is done when it is acknowledged ([`Delivery::ack`]). Dropping it without that means that it failed: it is
/// delivered next of its stream again, after a pause of the stream, so that the order is kept.
pub struct Delivery {
    /// Taken when the outcome is reported.
    message: Option<Message>,
    /// The body, if it had several parts or was compressed; and the offset at which it begins.
    whole: Option<Vec<u8>>,
    begin: usize,
    dead: Option<Box<Dead>>,
    properties: Option<Box<Properties>>,
    registration: Arc<Registration>,
}

/// Why a message became a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The topic to which it was sent.
    pub topic: String,
    /// The receiver that gave it up. Empty: no receiver had it, and it expired by its sender's clock.
    pub receiver: String,
    /// Why it was given up.
    pub reason: Verdict,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl Delivery {
    /// Err: the message cannot be decompressed, is too large, or has properties that cannot be read.
    fn new(message: Message, registration: Arc<Registration>) -> Result<Delivery, (Message, Verdict)> {
        let whole = match &message.parts {
            Parts::One(_) => None,
            Parts::Many(parts) => Some(parts.iter().flat_map(|part| part.body()).copied().collect()),
        };
        let (is_dead, is_packed) = (message.parts.first().has(DEAD), message.parts.first().has(PACKED));
        let has_properties = message.parts.first().has(PROPERTIES);
        let most = registration.inbox.largest();
        let (begin, dead, properties) = Default::default();
        let mut delivery = Delivery { message: Some(message), whole, begin, dead, properties, registration };
        if is_dead && let Some((dead, begin)) = read_envelope(delivery.body()) {
            (delivery.dead, delivery.begin) = (Some(Box::new(dead)), begin);
        }
        if has_properties {
            match (Properties::read(delivery.body()), delivery.message.take()) {
                (None, Some(message)) => return Err((message, Verdict::Unreadable)),
                (None, None) => {}
                (Some((properties, len)), message) => {
                    (delivery.properties, delivery.message) = (Some(Box::new(properties)), message);
                    delivery.begin += len;
                }
            }
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

    /// The credit that is to be returned for it, and to which sender.
    #[cfg(test)]
    pub(crate) fn owed_credit(&self) -> Option<(crate::wire::Id, u64)> {
        self.message()?.owed_credit()
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

    /// The sender's name.
    pub fn from(&self) -> &str {
        self.message().map_or("", |message| &message.parts.first().frame.origin.from)
    }

    /// The topic to which it was sent; of a dead letter, the dead-letter topic.
    pub fn topic(&self) -> &str {
        self.message().map_or("", |message| &message.parts.first().frame.origin.topic)
    }

    /// When the sender accepted it, in milliseconds since 1970, by the sender's clock.
    pub fn accepted_ms(&self) -> u64 {
        self.message().map_or(0, |message| message.parts.first().accepted_ms)
    }

    /// How often it was delivered, including this time: since this client was started and, with
    /// [`Builder::max_deliveries`](super::Builder::max_deliveries), before that, as far as it was recorded.
    pub fn deliveries(&self) -> u32 {
        self.message().map_or(0, |message| message.deliveries)
    }

    /// The id that its sender gave it ([`Options::id`](super::Options::id)).
    pub fn id(&self) -> Option<&str> {
        self.properties.as_ref()?.id()
    }

    /// The content type of its body.
    pub fn content_type(&self) -> Option<&str> {
        self.properties.as_ref()?.content_type()
    }

    /// The W3C trace context's `traceparent`.
    pub fn traceparent(&self) -> Option<&str> {
        self.properties.as_ref()?.traceparent()
    }

    /// The W3C trace context's `tracestate`.
    pub fn tracestate(&self) -> Option<&str> {
        self.properties.as_ref()?.tracestate()
    }

    /// The ordering key: messages to one with the same key go to the same receiver while it lives.
    pub fn ordering_key(&self) -> Option<&str> {
        self.properties.as_ref()?.ordering_key()
    }

    /// The value of a header.
    pub fn header(&self, key: &str) -> Option<&[u8]> {
        self.properties.as_ref()?.header(key)
    }

    /// Its headers, in the sender's order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.properties.iter().flat_map(|properties| properties.headers())
    }

    /// Why it is a dead letter; None: it is not one.
    pub fn dead(&self) -> Option<&Dead> {
        self.dead.as_deref()
    }

    /// Returns true if settling it has no effect any more: its client was closed, and one of the same name was started.
    pub fn is_void(&self) -> bool {
        self.registration.has_ended()
    }

    /// Marks it as handled: it is not delivered again once this is on the disk here. This counts also if the client was
    /// closed meanwhile.
    pub fn ack(mut self) {
        if let Some(message) = self.message.take() {
            self.registration.inbox.ack(&message);
            self.registration.end_if_done();
        }
    }

    /// It was acknowledged by the inbox.
    pub(super) fn end_acknowledged(mut self) {
        self.message = None;
        self.registration.end_if_done();
    }

    /// Returns true if this registration's client has received it.
    pub(super) fn is_of(&self, registration: &Arc<Registration>) -> bool {
        Arc::ptr_eq(&self.registration, registration)
    }

    /// Restarts the handler's time limit, if there is one ([`Builder::ack_within`](super::Builder::ack_within)).
    pub fn in_progress(&self) {
        if let Some(message) = self.message() {
            self.registration.inbox.go_on(message);
        }
    }

    /// Has it delivered again after `delay`, or by default after a growing pause. Later messages of its stream pass it,
    /// so it is then out of order.
    pub fn nack(mut self, delay: Option<Duration>) {
        if let Some(message) = self.message.take() {
            self.registration.inbox.put_off(message, delay);
            self.registration.end_if_done();
        }
    }

    /// Gives it up: it is never delivered again, and its sender keeps it as a dead letter.
    pub fn terminate(mut self) {
        if let Some(message) = self.message.take() {
            self.registration.inbox.give_up(&message, Verdict::Terminated);
            self.registration.end_if_done();
        }
    }

    /// Gives it back unhandled, as if it had not been received: the delivery does not count, and the message is the
    /// next of its stream again. For programs that take a message and then cannot pass it to its handler, because a
    /// task was cancelled or a queue is full.
    pub fn give_back(mut self) {
        if let Some(message) = self.message.take() {
            self.registration.inbox.give_back(message);
            self.registration.end_if_done();
        }
    }

    /// For the C interface, which calls handlers itself: sets the thread whose handler has it.
    #[doc(hidden)]
    pub fn set_handler(&mut self, handler: Option<ThreadId>) {
        if let Some(message) = &mut self.message {
            self.registration.inbox.set_handler(message, handler);
        }
    }
}

/// Reads the envelope of a dead letter. Returns it and its length.
pub(crate) fn read_envelope(body: &[u8]) -> Option<(Dead, usize)> {
    let mut from = Bytes::new(body);
    let (topic, receiver) = (from.text(NAME_MAX)?.to_owned(), from.text(NAME_MAX)?.to_owned());
    let (reason, deliveries) = (Verdict::read(from.byte()?)?, from.number()?);
    Some((Dead { topic, receiver, reason, deliveries }, body.len() - from.rest().len()))
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.registration.inbox.fail(message);
            self.registration.end_if_done();
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
        self.recv_for(None, deadline)
    }

    /// For the C interface, which calls handlers itself: `recv` for a handler on this thread.
    #[doc(hidden)]
    pub fn recv_for(&self, handler: Option<ThreadId>, deadline: Option<Instant>) -> Result<Delivery, Error> {
        loop {
            match Delivery::new(self.inbox.next(deadline, handler)?, self.registration.clone()) {
                Ok(delivery) => return Ok(delivery),
                Err((message, verdict)) => self.inbox.give_up(&message, verdict),
            }
        }
    }

    /// The next message, if one is ready; None: none yet. Error: Closed.
    pub fn try_recv(&self) -> Result<Option<Delivery>, Error> {
        match self.recv(Some(now())) {
            Err(Error::TimedOut) => Ok(None),
            received => received.map(Some),
        }
    }

    /// A descriptor for epoll(7), poll(2) and event loops. It is readable while a message may be ready, and once the
    /// client is drained or closed: then call [`try_recv`](Client::try_recv). It stays readable until a receive finds
    /// no message, so a loop may also take only some messages at a time. It becomes readable, too, when a message is
    /// due again that has failed or was put off. Do not read, write or close it.
    ///
    /// The first call creates it: a client without one pays nothing. With one, the library makes no system call for it
    /// while messages are left. Error: Io.
    pub fn readiness(&self) -> Result<BorrowedFd<'_>, Error> {
        self.inbox.descriptor()
    }

    /// The credit that is to be returned for waiting messages, and to which sender.
    #[cfg(test)]
    pub(crate) fn owed_credit(&self) -> Vec<(crate::wire::Id, u64)> {
        self.inbox.owed_credit()
    }

    /// Receives all messages, until the client is closed.
    pub fn iter(&self) -> impl Iterator<Item = Delivery> + '_ {
        std::iter::from_fn(|| self.recv(None).ok())
    }

    /// The next message, for a task of any executor. Error: Closed. Cancel-safe: dropping the future loses no message.
    pub async fn recv_async(&self) -> Result<Delivery, Error> {
        loop {
            let message = std::future::poll_fn(|task| self.inbox.poll_next(task)).await?;
            match Delivery::new(message, self.registration.clone()) {
                Ok(delivery) => return Ok(delivery),
                Err((message, verdict)) => self.inbox.give_up(&message, verdict),
            }
        }
    }

    /// A stream of all messages, for a task of any executor, until the client is closed.
    pub fn stream(&self) -> Deliveries<'_> {
        Deliveries { client: self }
    }

    /// Starts a thread that passes messages to `handler` one by one, until it breaks or the client is closed or
    /// dropped. The handler's [result](HandlerResult) settles the message: nothing and Ok are acknowledgements, an
    /// error means that it has failed. If the handler panics, the message has failed.
    ///
    /// The thread blocks signals while it waits. While the handler runs, the thread and any process that the handler
    /// starts have the signal mask of the thread that started the client.
    pub fn listen<R: HandlerResult>(
        &self,
        mut handler: impl FnMut(&Delivery) -> R + Send + 'static,
    ) -> Result<(), Error> {
        self.check_open()?;
        let (registration, signals) = (self.registration.clone(), self.signals);
        let mut handle = move |message, to: &Arc<Registration>| match Delivery::new(message, to.clone()) {
            Ok(delivery) => match catch_unwind(AssertUnwindSafe(|| handler(&delivery).into_parts())) {
                Ok((settlement, flow)) => {
                    delivery.settle(settlement);
                    flow.is_break()
                }
                Err(_) => {
                    delivery.settle(Settlement::Fail);
                    false
                }
            },
            Err((message, verdict)) => {
                to.inbox.give_up(&message, verdict);
                false
            }
        };
        let work = move || {
            let inbox = &registration.inbox;
            let (no_wait, own) = (Some(now()), Some(thread::current().id()));
            let mut is_over = false;
            while !is_over && let Ok(first) = inbox.next(None, own) {
                // Switch the signal mask once per batch: two system calls per message would halve the rate.
                signals.during(|| {
                    is_over = handle(first, &registration);
                    while !is_over && let Ok(message) = inbox.next(no_wait, own) {
                        is_over = handle(message, &registration);
                    }
                });
            }
        };
        let thread =
            pinnace_sys::thread::start("pinnace-handler", work).map_err(|error| Error::Io(error.kind()))?;
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Passes messages to `handler` one by one, until it breaks or the client is closed. The handler's
    /// [result](HandlerResult) settles the message, as with [`listen`](Client::listen); nothing and ControlFlow are
    /// acknowledgements. If it panics, the message has failed, and the panic continues in the caller. Returns the value
    /// of the break. Error: Closed.
    pub fn run<R: HandlerResult>(&self, mut handler: impl FnMut(&Delivery) -> R) -> Result<R::Value, Error> {
        let own = Some(thread::current().id());
        loop {
            let delivery = self.recv_for(own, None)?;
            match catch_unwind(AssertUnwindSafe(|| handler(&delivery).into_parts())) {
                Ok((settlement, flow)) => {
                    delivery.settle(settlement);
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
