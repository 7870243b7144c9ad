//! The two directions of a pipe, and the holders of their ends. The socket holds the near ends; a link, a connecter
//! or another socket holds the far ends.
//!
//! A direction is a queue of frames in one of two modes ([`QueueMode`]). Everything that depends on the mode is here
//! and in `newest`. The fast paths use the queue inside a [`Source`] or [`Sink`] directly.

mod newest;

use pinnace_ring::{Amount, Body, Books, COMMAND, Consumer, Frame, MORE, NoMemory, Producer};

use newest::Inlet;
pub(crate) use newest::{Outlet, Passed};

/// A message that this many connections in a row have cut is given up: its peer may refuse it each time
/// (ZMQ_MAXMSGSIZE), and would block everything behind it.
const CUTS_MAX: u32 = 3;

/// What a direction keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum QueueMode {
    /// All messages, up to the high-water mark.
    #[default]
    All,
    /// Only the newest message, without a high-water mark (ZMQ_CONFLATE).
    Newest,
}

/// The modes of a pipe's two directions, as one of its sockets wants them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueModes {
    pub(crate) out: QueueMode,
    pub(crate) into: QueueMode,
}

impl QueueMode {
    /// `Newest` if `newest`.
    pub(crate) fn newest_if(newest: bool) -> QueueMode {
        if newest { QueueMode::Newest } else { QueueMode::All }
    }

    /// The mode of a direction between two sockets: one of them is enough for `Newest`.
    pub(crate) fn or(self, other: QueueMode) -> QueueMode {
        QueueMode::newest_if(self == QueueMode::Newest || other == QueueMode::Newest)
    }
}

/// The end where messages go in.
pub(crate) struct Source {
    pub(crate) queue: Producer,
    /// In mode `Newest`.
    pub(crate) outlet: Option<Box<Outlet>>,
}

/// The end where messages come out.
pub(crate) struct Sink {
    pub(crate) queue: Consumer,
    /// In mode `Newest`.
    inlet: Option<Box<Inlet>>,
}

/// The ends of a pipe that its socket does not hold.
pub(crate) struct FarEnds {
    pub(crate) outgoing: Sink,
    pub(crate) incoming: Source,
}

/// Creates one direction. In mode `All`, `queue` creates its queue.
pub(crate) fn direction(mode: QueueMode, queue: impl FnOnce() -> (Producer, Consumer)) -> (Source, Sink) {
    match mode {
        QueueMode::All => {
            let (tx, rx) = queue();
            (Source { queue: tx, outlet: None }, Sink { queue: rx, inlet: None })
        }
        QueueMode::Newest => {
            let ((tx, outlet), (rx, inlet)) = newest::direction();
            (
                Source { queue: tx, outlet: Some(Box::new(outlet)) },
                Sink { queue: rx, inlet: Some(Box::new(inlet)) },
            )
        }
    }
}

impl Source {
    #[inline(always)]
    pub(crate) fn keeps_newest(&self) -> bool {
        self.outlet.is_some()
    }

    /// Publishes the closed messages where only the newest is kept. Bodies of replaced messages go to `left`.
    #[cold]
    pub(crate) fn publish_newest(&mut self, left: &mut Vec<Body>) -> Passed {
        self.queue.publish_quietly();
        self.outlet.as_mut().map(|outlet| outlet.pass_on(left)).unwrap_or_default()
    }

    /// Puts in a message of one frame, beyond the high-water mark if necessary.
    pub(crate) fn put(&mut self, message: &[u8]) -> Result<Passed, NoMemory> {
        self.queue.push_body(0, Body::copy_of(message)?)?;
        let told = self.queue.commit();
        let passed = self.outlet.as_mut().map(|outlet| outlet.pass_on(&mut Vec::new()));
        Ok(passed.unwrap_or(Passed { told, ..Passed::default() }))
    }

    /// Accounts for everything that was put in: taken, or waiting.
    pub(crate) fn books(&self) -> Books {
        self.outlet.as_ref().map_or_else(|| self.queue.books(), |outlet| outlet.books(&self.queue))
    }

    /// The number of messages put in and not yet taken out.
    pub(crate) fn backlog(&self) -> u64 {
        self.outlet
            .as_ref()
            .map_or_else(|| self.queue.backlog(), |outlet| outlet.books(&self.queue).waiting.messages)
    }

    /// Whether the other end was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.outlet.as_ref().map_or_else(|| self.queue.is_abandoned(), |outlet| outlet.is_abandoned())
    }

    /// Gives up what waits if the other end was dropped. Returns how much that is. Bodies may go to `left`.
    pub(crate) fn give_up_abandoned(&mut self, left: &mut Vec<Body>) -> Amount {
        match &mut self.outlet {
            Some(outlet) => outlet.give_up_abandoned(left),
            None => self.queue.give_up_abandoned(),
        }
    }
}

impl Sink {
    #[inline(always)]
    pub(crate) fn keeps_newest(&self) -> bool {
        self.inlet.is_some()
    }

    pub(crate) fn has_message(&mut self) -> bool {
        self.queue.has_frame() || self.inlet.as_ref().is_some_and(|inlet| inlet.is_full())
    }

    /// The flags of the next frame.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.queue.peek() {
            None if self.inlet.is_some() && self.refill() => self.queue.peek(),
            flags => flags,
        }
    }

    /// Fills the empty queue where only the newest message is kept. False: there is none.
    #[cold]
    pub(crate) fn refill(&mut self) -> bool {
        self.inlet.as_mut().is_some_and(|inlet| inlet.refill())
    }

    /// Pops a frame where only the newest message is kept. Also returns the number of older messages that were dropped.
    /// Bodies that were not taken go to `left`.
    #[cold]
    pub(crate) fn pop_newest<R>(
        &mut self,
        left: &mut Vec<Body>,
        reader: impl FnOnce(Frame<'_>) -> R,
    ) -> (Option<R>, u64) {
        let Some(inlet) = self.inlet.as_mut() else { return (None, 0) };
        let dropped = inlet.freshen(&mut self.queue, left);
        let mut more = false;
        let result = self.queue.pop_leaving(
            |body| left.push(body),
            |frame| {
                more = frame.flags() & MORE != 0;
                reader(frame)
            },
        );
        inlet.received(more);
        (result, dropped)
    }

    /// Asks to be notified of the next message. False: there is one already.
    pub(crate) fn park(&mut self) -> bool {
        self.queue.park() && self.inlet.as_mut().is_none_or(|inlet| inlet.park())
    }

    /// Messages that come in from now on are not received.
    pub(crate) fn stop_here(&mut self) {
        if let Some(mut inlet) = self.inlet.take() {
            inlet.refill();
        }
        self.queue.stop_here();
    }

    /// Removes everything left, and returns the number of its messages. Bodies go to `left`.
    pub(crate) fn drain(&mut self, left: &mut Vec<Body>) -> u64 {
        self.queue.resume();
        let mut messages = self.queue.drain(left).messages;
        if self.refill() {
            messages += self.queue.drain(left).messages;
        }
        messages
    }

    /// What older messages were dropped, and what waits outside the queue.
    pub(crate) fn dropped_and_waiting(&self) -> (Amount, Amount) {
        self.inlet.as_ref().map_or_else(Default::default, |inlet| (inlet.dropped(), inlet.waiting()))
    }

    /// Goes back to the beginning of a message that was cut, or gives it up (`Consumer::rewind`, `CUTS_MAX`). Returns
    /// what was given up; the other end learns of it.
    pub(crate) fn rewind(&mut self, left: &mut Vec<Body>) -> Amount {
        let mut amount = self.queue.rewind(left);
        if self.queue.cuts() >= CUTS_MAX && self.queue.peek().is_some_and(|flags| flags & COMMAND == 0) {
            amount += self.queue.give_up_one(left);
        }
        if let Some(inlet) = &self.inlet {
            inlet.count_given_up(amount);
        }
        amount
    }

    /// Discards everything left, from the beginning of a message on. Returns how much that was, without commands; the
    /// other end learns of it. Bodies go to `left`, since their owners' code may run when they are dropped.
    pub(crate) fn give_up(&mut self, left: &mut Vec<Body>) -> Amount {
        let mut amount = self.queue.give_up(left);
        if let Some(inlet) = &mut self.inlet {
            inlet.count_given_up(amount);
            amount += inlet.give_up(left);
        }
        amount
    }
}
