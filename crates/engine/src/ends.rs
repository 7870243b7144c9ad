//! The two directions of a pipe, and the holders of their ends. The socket holds the near ends; a link, a connecter
//! or another socket holds the far ends.

use pinnace_ring::{Amount, Body, COMMAND, Consumer, NoMemory, Producer};

use crate::conflate::{Inlet, Outlet, Passed, conflated};

/// A message that this many connections in a row have cut is given up: its peer may refuse it each time
/// (ZMQ_MAXMSGSIZE), and would block everything behind it.
const CUTS_MAX: u32 = 3;

/// The end where messages go in.
pub(crate) struct Source {
    pub(crate) queue: Producer,
    pub(crate) outlet: Option<Box<Outlet>>,
}

/// The end where messages come out.
pub(crate) struct Sink {
    pub(crate) queue: Consumer,
    pub(crate) inlet: Option<Box<Inlet>>,
}

/// The ends of a pipe that its socket does not hold.
pub(crate) struct FarEnds {
    pub(crate) outgoing: Sink,
    pub(crate) incoming: Source,
}

/// Creates one direction. `conflates`: only the newest message is kept, without a high-water mark; otherwise `queue`
/// creates the queue.
pub(crate) fn way(conflates: bool, queue: impl FnOnce() -> (Producer, Consumer)) -> (Source, Sink) {
    if conflates {
        let ((tx, outlet), (rx, inlet)) = conflated();
        return (
            Source { queue: tx, outlet: Some(Box::new(outlet)) },
            Sink { queue: rx, inlet: Some(Box::new(inlet)) },
        );
    }
    let (tx, rx) = queue();
    (Source { queue: tx, outlet: None }, Sink { queue: rx, inlet: None })
}

impl Source {
    /// Puts in a message of one frame, beyond the high-water mark if necessary.
    pub(crate) fn put(&mut self, message: &[u8]) -> Result<Passed, NoMemory> {
        self.queue.push_body(0, Body::copy_of(message)?)?;
        let told = self.queue.commit();
        let passed = self.outlet.as_mut().map(|outlet| outlet.pass_on(&mut Vec::new()));
        Ok(passed.unwrap_or(Passed { told, ..Passed::default() }))
    }

    /// The number of messages put in and not yet taken out.
    pub(crate) fn backlog(&self) -> u64 {
        self.outlet
            .as_ref()
            .map_or_else(|| self.queue.backlog(), |outlet| outlet.books(&self.queue).waiting.messages)
    }
}

impl Sink {
    pub(crate) fn has_message(&mut self) -> bool {
        self.queue.has_frame() || self.inlet.as_ref().is_some_and(|inlet| inlet.is_full())
    }

    /// Goes back to the beginning of a message that was cut, or gives it up (`Consumer::rewind`, `CUTS_MAX`). Returns
    /// what was given up; the other end learns of it.
    pub(crate) fn rewind(&mut self, left: &mut Vec<Body>) -> Amount {
        let mut amount = self.queue.rewind(left);
        if self.queue.cuts() >= CUTS_MAX && self.queue.peek().is_some_and(|flags| flags & COMMAND == 0) {
            amount += self.queue.give_up_one(left);
        }
        if let Some(inlet) = &self.inlet {
            inlet.gave_up(amount);
        }
        amount
    }

    /// Discards everything left, from the beginning of a message on. Returns how much that was, without commands; the
    /// other end learns of it. Bodies go to `left`, since their owners' code may run when they are dropped.
    pub(crate) fn give_up(&mut self, left: &mut Vec<Body>) -> Amount {
        let mut amount = self.queue.give_up(left);
        if let Some(inlet) = &mut self.inlet {
            inlet.gave_up(amount);
            amount += inlet.give_up(left);
        }
        amount
    }
}
