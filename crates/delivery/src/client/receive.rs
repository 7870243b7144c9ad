//! Receiving.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::Client;
use crate::Error;
use crate::clock::now_ms;
use crate::inbox::{Arrived, Inbox};

/// Messages that are taken from the inbox at once.
const TAKE: usize = 256;

/// A message, from its arrival until it is handled.
///
/// It is done when it is acknowledged ([`Delivery::ack`]). One that is dropped before is delivered again, ahead of
/// those that wait.
pub struct Delivery {
    parts: Vec<Arrived>,
    whole: Option<Vec<u8>>,
    inbox: Arc<Inbox>,
    settled: bool,
}

impl Delivery {
    pub fn body(&self) -> &[u8] {
        match (&self.whole, self.parts.first()) {
            (Some(whole), _) => whole,
            (None, Some(part)) => part.body(),
            (None, None) => &[],
        }
    }

    /// Who sent it.
    pub fn from(&self) -> &str {
        self.parts.first().map_or("", |part| &part.frame.origin.from)
    }

    /// The topic to which it was sent.
    pub fn topic(&self) -> &str {
        self.parts.first().map_or("", |part| &part.frame.origin.topic)
    }

    /// When it was accepted, in milliseconds since 1970, by the sender's clock.
    pub fn accepted_ms(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.accepted_ms)
    }

    /// It is handled: it is not delivered again once that is on the disk here.
    pub fn ack(mut self) {
        self.settled = true;
        self.inbox.done_all(self.parts.iter());
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.settled {
            self.inbox.put_back(std::mem::take(&mut self.parts));
        }
    }
}

impl Client {
    /// The next message. Errors: TimedOut after the deadline, Closed.
    pub fn recv(&self, deadline: Option<Instant>) -> Result<Delivery, Error> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(parts) = self.inbox.take_back().or_else(|| next(&mut ahead)) {
                if parts.iter().any(|part| part.is_expired(now_ms())) {
                    self.inbox.done_all(parts.iter());
                    continue;
                }
                let whole = match parts.len() {
                    1 => None,
                    _ => Some(parts.iter().flat_map(|part| part.body()).copied().collect()),
                };
                return Ok(Delivery { parts, whole, inbox: self.inbox.clone(), settled: false });
            }
            self.inbox.wait(&mut ahead, TAKE, deadline)?;
        }
    }

    /// Handles messages, one after the other, until the handler breaks or the client is closed. One is done when the
    /// handler has returned.
    pub fn run<B>(&self, mut handler: impl FnMut(&Delivery) -> ControlFlow<B>) -> Result<B, Error> {
        loop {
            let delivery = self.recv(None)?;
            let flow = handler(&delivery);
            delivery.ack();
            if let ControlFlow::Break(value) = flow {
                return Ok(value);
            }
        }
    }
}

/// The parts of the next message, where all of them are there. Those of one whose beginning or end is missing, because
/// its sender ended in the middle of it, are passed over.
fn next(ahead: &mut VecDeque<Arrived>) -> Option<Vec<Arrived>> {
    let first = ahead.front()?;
    if first.begins && first.ends {
        return ahead.pop_front().map(|part| vec![part]);
    }
    let of = first.frame.origin.of;
    let mut count = 0;
    for part in ahead.iter().filter(|part| part.frame.origin.of == of) {
        count += 1;
        if part.ends {
            let mut parts = Vec::with_capacity(count);
            let mut rest = VecDeque::with_capacity(ahead.len());
            for part in ahead.drain(..) {
                match part.frame.origin.of == of && parts.len() < count {
                    true => parts.push(part),
                    false => rest.push_back(part),
                }
            }
            *ahead = rest;
            return Some(parts);
        }
    }
    None
}
