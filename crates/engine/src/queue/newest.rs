//! The mode `Newest` of a direction (ZMQ_CONFLATE).
//!
//! In mode `All` a direction is one queue from the sender's thread to the receiver's. Here it is two queues, each used
//! by one side alone, and between them a slot for one message. [`Outlet`] moves messages from the sending side's
//! queue to the slot, and replaces the message there. [`Inlet`] moves the message from the slot to the receiving
//! side's queue when that is empty. So memory is bounded however long the receiver stalls, without a high-water mark.
//! A message of several frames is kept or replaced as a whole.
//!
//! ```text
//!   Producer -> Consumer of the Outlet -> slot -> Producer of the Inlet -> Consumer
//!   '------ sending side's ---------'            '----- receiving side's --------'
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use pinnace_ring::{Amount, Body, Books, Consumer, Frame, Limits, MORE, NoMemory, Producer, queue};

/// Bodies at least this large are passed by reference into the receiving side's queue, not copied.
const SHARE_MIN: usize = 1024;

/// The frames of a message: flags and body.
type Message = Vec<(u8, Body)>;

#[derive(Default)]
struct NewestState {
    newest: Option<Message>,
    /// The receiving side found no message, and is to be notified.
    parked: bool,
    /// What the receiving side has taken out and given up.
    given_up: Amount,
}

type NewestSlot = Arc<Mutex<NewestState>>;

/// The sending side's part, behind its queue.
pub(crate) struct Outlet {
    queue: Consumer,
    slot: NewestSlot,
    dropped: Amount,
}

/// The receiving side's part, in front of its queue.
pub(crate) struct Inlet {
    queue: Producer,
    slot: NewestSlot,
    /// The rest of a message's frames is still to be received.
    inside: bool,
    dropped: Amount,
}

/// The result of a move to the slot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Messages replaced by a newer one, in the slot or in the queue.
    pub(crate) replaced: u64,
    /// Messages lost for want of memory.
    pub(crate) no_memory: u64,
    /// The receiving side was parked, and has to be notified.
    pub(crate) told: bool,
}

/// One direction: the ends where messages go in, and where they come out.
pub(super) fn direction() -> ((Producer, Outlet), (Consumer, Inlet)) {
    let unlimited = Limits { messages: 0, ahead_bytes: 0 };
    let slot = NewestSlot::default();
    let (tx, inner_rx) = queue(unlimited);
    let (inner_tx, rx) = queue(unlimited);
    let dropped = Amount::default();
    let outlet = Outlet { queue: inner_rx, slot: slot.clone(), dropped };
    ((tx, outlet), (rx, Inlet { queue: inner_tx, slot, inside: false, dropped }))
}

impl Outlet {
    /// Moves the newest message of the queue to the slot. Bodies of replaced messages go to `left`.
    pub(crate) fn pass_on(&mut self, left: &mut Vec<Body>) -> Passed {
        let mut passed = Passed::default();
        let mut newest: Option<Message> = None;
        while self.queue.has_frame() {
            let (_, before) = self.queue.consumed();
            match take_message(&mut self.queue, left) {
                Ok(message) => {
                    passed.replaced += self.give_up(newest.replace(message), left);
                }
                Err(NoMemory) => {
                    passed.no_memory += 1;
                    self.dropped += Amount { messages: 1, bytes: self.queue.consumed().1 - before };
                }
            }
        }
        if newest.is_some() {
            let mut state = self.slot.lock();
            let older = std::mem::replace(&mut state.newest, newest);
            passed.told = std::mem::take(&mut state.parked);
            drop(state);
            passed.replaced += self.give_up(older, left);
        }
        passed
    }

    fn give_up(&mut self, older: Option<Message>, left: &mut Vec<Body>) -> u64 {
        let Some(older) = older else { return 0 };
        self.dropped += Amount { messages: 1, bytes: wire_bytes(&older) };
        left.extend(older.into_iter().map(|(_, body)| body));
        1
    }

    /// Accounts for what was put into the queue: taken, or waiting. Messages lost on the way are in neither.
    pub(crate) fn books(&self, queue: &Producer) -> Books {
        let state = self.slot.lock();
        let (waiting, lost) = (state.waiting(), [self.dropped, state.given_up]);
        let sum = |of: fn(&Amount) -> u64| of(&waiting) + lost.iter().map(of).sum::<u64>();
        let taken = Amount {
            messages: queue.messages().saturating_sub(sum(|amount| amount.messages)),
            bytes: queue.wire().saturating_sub(sum(|amount| amount.bytes)),
        };
        Books { taken, waiting }
    }

    /// Whether the receiving side was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.slot) == 1
    }

    /// Gives up the message in the slot if the receiving side was dropped. Returns how much that is. Bodies go to
    /// `left`.
    pub(crate) fn give_up_abandoned(&mut self, left: &mut Vec<Body>) -> Amount {
        if self.is_abandoned() { self.slot.lock().give_up(left) } else { Amount::default() }
    }
}

impl NewestState {
    fn waiting(&self) -> Amount {
        let of = |message: &Message| Amount { messages: 1, bytes: wire_bytes(message) };
        self.newest.as_ref().map(of).unwrap_or_default()
    }

    /// Gives up the waiting message.
    fn give_up(&mut self, left: &mut Vec<Body>) -> Amount {
        let amount = self.waiting();
        self.given_up += amount;
        left.extend(self.newest.take().into_iter().flatten().map(|(_, body)| body));
        amount
    }
}

/// The size of a message as ZMTP 3 frames, in bytes.
fn wire_bytes(message: &Message) -> u64 {
    let frame = |(_, body): &(u8, Body)| if body.len() > 255 { 9 } else { 2 } + body.len() as u64;
    message.iter().map(frame).sum()
}

/// Takes a whole message out of a queue. Errors: NoMemory; the message is lost.
fn take_message(queue: &mut Consumer, left: &mut Vec<Body>) -> Result<Message, NoMemory> {
    let mut message = Message::new();
    let mut outcome = Ok(());
    let mut more = true;
    while more {
        let mut take = |frame: Frame<'_>| {
            let flags = frame.flags();
            more = flags & MORE != 0;
            outcome = outcome.and_then(|()| message.try_reserve(1).map_err(|_| NoMemory));
            if outcome.is_ok() {
                match body_of(frame) {
                    Ok(body) => message.push((flags, body)),
                    Err(error) => outcome = Err(error),
                }
            }
        };
        if queue.pop_leaving(|body| left.push(body), &mut take).is_none() {
            break;
        }
    }
    if outcome.is_err() {
        left.extend(message.drain(..).map(|(_, body)| body));
    }
    outcome.map(|()| message)
}

fn body_of(frame: Frame<'_>) -> Result<Body, NoMemory> {
    match frame {
        Frame::Bytes { data, .. } => Body::copy_of(data),
        Frame::Body { body, .. } => body.take().map_or_else(|| Body::copy_of(&[]), Ok),
    }
}

impl Inlet {
    /// Moves the slot's message into the queue. False: there is none, or no memory for it now.
    pub(crate) fn refill(&mut self) -> bool {
        let Some(message) = self.slot.lock().newest.take() else { return false };
        for (flags, body) in &message {
            let pushed = if body.len() < SHARE_MIN {
                self.queue.push(*flags, body)
            } else {
                self.queue.push_body(*flags, body.clone())
            };
            if pushed.is_err() {
                self.queue.rollback();
                self.slot.lock().newest.get_or_insert(message);
                return false;
            }
        }
        self.queue.commit_quietly();
        true
    }

    /// Called before a frame is received: drops older messages in the queue if the slot holds a newer one. Returns
    /// the number of messages dropped; their bodies go to `left`.
    pub(crate) fn freshen(&mut self, queue: &mut Consumer, left: &mut Vec<Body>) -> u64 {
        if self.inside || !self.is_full() {
            return 0;
        }
        let dropped = queue.drain(left);
        self.dropped += dropped;
        self.refill();
        dropped.messages
    }

    /// What was dropped from the queue.
    pub(crate) fn dropped(&self) -> Amount {
        self.dropped
    }

    /// Records that messages taken out of the queue were given up.
    pub(crate) fn count_given_up(&self, amount: Amount) {
        self.slot.lock().given_up += amount;
    }

    /// Gives up the message in the slot, and returns how much that is. Bodies go to `left`.
    pub(crate) fn give_up(&mut self, left: &mut Vec<Body>) -> Amount {
        self.slot.lock().give_up(left)
    }

    /// Records that a frame was received.
    pub(crate) fn received(&mut self, more: bool) {
        self.inside = more;
    }

    /// The size of the message in the slot.
    pub(crate) fn waiting(&self) -> Amount {
        self.slot.lock().waiting()
    }

    /// Whether a message waits in the slot.
    pub(crate) fn is_full(&self) -> bool {
        self.slot.lock().newest.is_some()
    }

    /// Asks to be notified of the next message. False: there is one already.
    pub(crate) fn park(&mut self) -> bool {
        let mut state = self.slot.lock();
        state.parked = state.newest.is_none();
        state.parked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tx: &mut Producer, outlet: &mut Outlet, frames: &[&[u8]]) -> Passed {
        for (index, frame) in frames.iter().enumerate() {
            let flags = if index + 1 < frames.len() { MORE } else { 0 };
            tx.push(flags, frame).unwrap();
        }
        tx.commit_quietly();
        outlet.pass_on(&mut Vec::new())
    }

    fn take(rx: &mut Consumer, inlet: &mut Inlet) -> Option<Vec<u8>> {
        inlet.freshen(rx, &mut Vec::new());
        let frame = rx.pop(|frame| (frame.flags() & MORE != 0, frame.data().to_vec()));
        frame.map(|(more, data)| {
            inlet.received(more);
            data
        })
    }

    #[test]
    fn the_newest_replaces_the_others() {
        let ((mut tx, mut outlet), (mut rx, mut inlet)) = direction();
        assert!(inlet.park());
        let first = put(&mut tx, &mut outlet, &[b"1"]);
        assert_eq!(first, Passed { replaced: 0, no_memory: 0, told: true });
        for number in 2..100u8 {
            assert_eq!(put(&mut tx, &mut outlet, &[&[number]]).replaced, 1);
        }
        assert!(!inlet.park());
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&[99][..]));
        assert_eq!(take(&mut rx, &mut inlet), None);
    }

    #[test]
    fn a_message_that_is_being_received_stays_whole() {
        let ((mut tx, mut outlet), (mut rx, mut inlet)) = direction();
        put(&mut tx, &mut outlet, &[b"a", b"b"]);
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"a"[..]));
        put(&mut tx, &mut outlet, &[b"c"]);
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"b"[..]));
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"c"[..]));
    }

    #[test]
    fn one_that_has_become_old_in_the_queue_is_dropped() {
        let ((mut tx, mut outlet), (mut rx, mut inlet)) = direction();
        put(&mut tx, &mut outlet, &[b"old"]);
        assert!(inlet.refill());
        put(&mut tx, &mut outlet, &[b"new"]);
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"new"[..]));
    }
}
