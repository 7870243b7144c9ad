//! ZMQ_CONFLATE: of the messages on a way, only the newest is kept.
//!
//! An ordinary way is one queue from the sender's thread to the receiver's. A conflated one is two queues, each
//! used by one side alone, and a slot between them that holds one message: [`Outlet`] moves what the sending
//! side has put into its queue to the slot, where it replaces what is there; [`Inlet`] fetches from the slot when
//! the receiving side's queue is empty. So memory is bounded however long the receiver stalls, and no mark is
//! needed. A message of several frames is kept, or replaced, whole.
//!
//! ```text
//!   Producer -> Consumer of the Outlet -> slot -> Producer of the Inlet -> Consumer
//!   '------ sending side's ---------'            '----- receiving side's --------'
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use pinnace_ring::{Amount, Body, Books, Consumer, Frame, Limits, MORE, NoMemory, Producer, queue};

/// Bodies from here on are handed over, not copied, into the receiving side's queue.
const SHARE_MIN: usize = 1024;

/// Frames: their flags, and what they carry.
type Message = Vec<(u8, Body)>;

#[derive(Default)]
struct State {
    newest: Option<Message>,
    /// The receiving side has found nothing and is to be told.
    parked: bool,
    /// What the receiving side has taken and given up.
    given_up: Amount,
}

type Slot = Arc<Mutex<State>>;

/// The sending side's half, behind its queue.
pub(crate) struct Outlet {
    queue: Consumer,
    slot: Slot,
    dropped: Amount,
}

/// The receiving side's half, in front of its queue.
pub(crate) struct Inlet {
    queue: Producer,
    slot: Slot,
    /// Frames of a message are still to be received.
    inside: bool,
    dropped: Amount,
}

/// What a move to the slot has come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Messages that a newer one has replaced, there or on the way.
    pub(crate) replaced: u64,
    /// Messages that memory could not be had for.
    pub(crate) no_memory: u64,
    /// The receiving side is parked, and has to be told.
    pub(crate) told: bool,
}

/// A way: where messages go in, and where they come out.
pub(crate) fn conflated() -> ((Producer, Outlet), (Consumer, Inlet)) {
    let unlimited = Limits { messages: 0, ahead_bytes: 0 };
    let slot = Slot::default();
    let (tx, inner_rx) = queue(unlimited);
    let (inner_tx, rx) = queue(unlimited);
    let dropped = Amount::default();
    let outlet = Outlet { queue: inner_rx, slot: slot.clone(), dropped };
    ((tx, outlet), (rx, Inlet { queue: inner_tx, slot, inside: false, dropped }))
}

impl Outlet {
    /// Moves the newest of the queue's messages to the slot. Bodies of those that are replaced go to `left`.
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

    /// What has become of all that was put into the queue. What was lost on the way to the slot is in none of it.
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

    /// Whether nobody has the receiving side any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.slot) == 1
    }

    /// Gives up what waits in the slot, where nobody has the receiving side any more; returns how much that is. Bodies
    /// go to `left`.
    pub(crate) fn give_up_abandoned(&mut self, left: &mut Vec<Body>) -> Amount {
        if self.is_abandoned() { self.slot.lock().give_up(left) } else { Amount::default() }
    }
}

impl State {
    fn waiting(&self) -> Amount {
        let of = |message: &Message| Amount { messages: 1, bytes: wire_bytes(message) };
        self.newest.as_ref().map(of).unwrap_or_default()
    }

    /// Nobody gets what waits.
    fn give_up(&mut self, left: &mut Vec<Body>) -> Amount {
        let amount = self.waiting();
        self.given_up += amount;
        left.extend(self.newest.take().into_iter().flatten().map(|(_, body)| body));
        amount
    }
}

/// As frames of ZMTP 3.
fn wire_bytes(message: &Message) -> u64 {
    let frame = |(_, body): &(u8, Body)| if body.len() > 255 { 9 } else { 2 } + body.len() as u64;
    message.iter().map(frame).sum()
}

/// Takes a whole message out of a queue.
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
    /// Fetches the message of the slot into the queue. False: there is none, or no memory for it now.
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

    /// Before a frame is received: a message that has become old in the queue makes place for the slot's. Returns
    /// how many were dropped; their bodies go to `left`.
    pub(crate) fn freshen(&mut self, queue: &mut Consumer, left: &mut Vec<Body>) -> u64 {
        if self.inside || !self.is_full() {
            return 0;
        }
        let dropped = queue.drain(left);
        self.dropped += dropped;
        self.refill();
        dropped.messages
    }

    /// Those that were dropped.
    pub(crate) fn dropped(&self) -> Amount {
        self.dropped
    }

    /// What was taken out of the queue nobody gets.
    pub(crate) fn gave_up(&self, amount: Amount) {
        self.slot.lock().given_up += amount;
    }

    /// Nor what waits in the slot; returns how much that is. Bodies go to `left`.
    pub(crate) fn give_up(&mut self, left: &mut Vec<Body>) -> Amount {
        self.slot.lock().give_up(left)
    }

    /// A frame was received.
    pub(crate) fn received(&mut self, more: bool) {
        self.inside = more;
    }

    /// What waits in the slot.
    pub(crate) fn waiting(&self) -> Amount {
        self.slot.lock().waiting()
    }

    /// Whether a message waits in the slot.
    pub(crate) fn is_full(&self) -> bool {
        self.slot.lock().newest.is_some()
    }

    /// Asks to be told of the next message. False: there is one already.
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
        let ((mut tx, mut outlet), (mut rx, mut inlet)) = conflated();
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
        let ((mut tx, mut outlet), (mut rx, mut inlet)) = conflated();
        put(&mut tx, &mut outlet, &[b"a", b"b"]);
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"a"[..]));
        put(&mut tx, &mut outlet, &[b"c"]);
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"b"[..]));
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"c"[..]));
    }

    #[test]
    fn one_that_has_become_old_in_the_queue_is_dropped() {
        let ((mut tx, mut outlet), (mut rx, mut inlet)) = conflated();
        put(&mut tx, &mut outlet, &[b"old"]);
        assert!(inlet.refill());
        put(&mut tx, &mut outlet, &[b"new"]);
        assert_eq!(take(&mut rx, &mut inlet).as_deref(), Some(&b"new"[..]));
    }
}
