//! Incoming messages: from senders' connections to a client's inbox, and the frames sent in reply.

mod sharing;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_engine::{Body, Error};
use pinnace_stream::{RETURN_AFTER, RangeSet, ReceiverCredit};

use super::keys::{Keyring, USER_ID};
use super::network::{Arrival, FailedHandshake, LOST, Listener};
use super::strangers::Strangers;
use super::{Listening, Notify, TRY_AGAIN_AFTER};
use crate::environment::{credit_limits, now};
use crate::inbox::{self, FramePlace, GivenUp, Inbox, Origin, Outcome, StreamStart};
use crate::log::Urgency;
use crate::store::{Attempt, Incoming, RetainLimits, Store, records};
use crate::wire::{Features, FromReceiver, FromSender, Id, Opening, Refusal, WINDOW, answer_to, split};

/// The shortest time between two writes of a receiver's progress: each syncs the disk, which delays others. After a
/// crash, messages handled in this time are delivered again.
const NOTE_EVERY: Duration = Duration::from_millis(5);

/// How far a sender may exceed its credit: with any credit left, it may send one whole frame.
const OVERDRAFT: u64 = 4 << 20;

/// A connection from another client.
struct Session {
    id: Id,
    name: String,
    opening: Opening,
    /// It is told which messages have expired here.
    wants_expired: bool,
    /// By the sender's stream number.
    streams: HashMap<u64, Arc<Origin>>,
    /// The shared stream of a data frame to come, and its place there.
    next: Option<(u64, FramePlace)>,
    credit: ReceiverCredit,
    /// Since when the sender has no credit, and how much it had been granted then.
    exhausted: Option<(Instant, u64)>,
}

/// The incoming side of one client.
pub struct Inward {
    pub client: records::ClientRecord,
    listener: Box<dyn Listener>,
    pub inbox: Arc<Inbox>,
    /// Present if peers have to authenticate.
    pub keys: Option<Arc<Keyring>>,
    pub notify: Notify,
    pub patience: Option<Duration>,
    pub limits: RetainLimits,
    pub keeps_expired: bool,
    /// Peers that were not admitted.
    pub strangers: Strangers,
    sessions: BTreeMap<u32, Session>,
    /// Credit of messages that are held, by sender, whatever connection they came from.
    held: HashMap<Id, u64>,
    /// Progress written to the log, by batch; acknowledged once the batch is on the disk.
    noted: Vec<(u64, Incoming, RangeSet)>,
    /// Progress to be logged, and when.
    unnoted: Vec<(Incoming, RangeSet)>,
    note_at: Option<Instant>,
    /// The count of a message that the inbox has set aside: to be logged, and then the batch that has it.
    attempt: Option<Attempt>,
    attempt_in: Option<u64>,
    /// The inbox waits to hear that its progress is on the disk.
    to_report: bool,
    /// When messages of shared streams have waited for too long, if some wait.
    return_at: Option<Instant>,
}

impl Inward {
    pub fn new(listening: Listening) -> Inward {
        let Listening { client, listener, inbox, keys, notify, patience, limits, keeps_expired } = listening;
        let (strangers, sessions, held, noted, unnoted, note_at, to_report, return_at) = Default::default();
        let (attempt, attempt_in) = Default::default();
        Inward {
            client,
            listener,
            inbox,
            keys,
            notify,
            patience,
            limits,
            keeps_expired,
            strangers,
            sessions,
            held,
            noted,
            unnoted,
            note_at,
            attempt,
            attempt_in,
            to_report,
            return_at,
        }
    }

    /// The names of the senders that are connected.
    pub fn senders(&self) -> impl Iterator<Item = &str> {
        self.sessions.values().map(|session| session.name.as_str())
    }

    /// How much its senders may still send, in bytes.
    #[cfg(test)]
    pub fn outstanding_credit(&self) -> impl Iterator<Item = (Id, u64)> {
        self.sessions.values().map(|session| (session.id, session.credit.outstanding()))
    }

    /// Returns true if acknowledgements, or a message that was set aside, wait for the disk.
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty() || self.attempt_in.is_some()
    }

    /// Takes received frames, at most `most`. Returns false if there were none.
    pub fn receive(&mut self, store: &Store, most: usize) -> bool {
        let mut any = false;
        for _ in 0..most {
            let Some(Arrival { from, about, bytes }) = self.listener.recv() else { break };
            any = true;
            let user_id = about.as_deref().and_then(|about| about.get(USER_ID));
            self.on_frame(store, from, user_id, bytes);
        }
        if any {
            self.inbox.announce();
        }
        for _ in 0..most {
            let Some(failed) = self.listener.next_failure() else { break };
            self.strangers.note(failed);
        }
        any
    }

    fn on_frame(&mut self, store: &Store, from: u32, user_id: Option<&[u8]>, bytes: Body) {
        if *bytes == LOST {
            self.sessions.remove(&from);
            return;
        }
        match FromSender::read(&bytes) {
            Some(FromSender::Hello { name, .. }) if !self.knows(name, user_id) => {
                let address = self.keys.as_ref().and_then(|keys| keys.name_of(user_id)).unwrap_or("a client");
                let reason = format!("it uses the name of {name}, whose CURVE key is another one");
                self.strangers.note(FailedHandshake { address: address.to_owned(), reason });
                self.refuse(from, Refusal::Forged, name);
            }
            Some(FromSender::Hello { .. }) if self.sessions.contains_key(&from) => {
                self.refuse(from, Refusal::Protocol, "a second Hello");
            }
            Some(FromSender::Hello { version, .. }) if answer_to(version).is_none() => {
                self.refuse(from, Refusal::Version, "only versions 1 and 2 are supported");
            }
            Some(FromSender::Hello { receiver, .. }) if receiver != self.client.name => {
                self.refuse(from, Refusal::NotMe, &self.client.name.clone());
            }
            Some(FromSender::Hello { version, name, id, opening, .. }) => {
                self.on_hello(store, from, version, name, id, opening);
            }
            _ if !self.sessions.contains_key(&from) => {}
            Some(FromSender::Open { stream, topic, gone }) => self.on_open(store, from, stream, topic, &gone),
            Some(FromSender::Share { stream, topic, gone }) => {
                self.on_share(store, from, stream, topic, &gone);
            }
            Some(FromSender::Data(data)) => {
                let (stream, session) = (data.stream, self.sessions.get_mut(&from));
                let place = session.and_then(|session| session.next.take_if(|(next, _)| *next == stream));
                self.on_data(from, stream, place.map(|(_, place)| place), bytes);
            }
            Some(FromSender::Work { generation, index, data }) => {
                let stream = data.stream;
                self.on_data(from, stream, Some(FramePlace { generation, index, arrived: now() }), bytes);
            }
            Some(FromSender::Next { stream, generation, index }) => {
                if let Some(session) = self.sessions.get_mut(&from) {
                    session.next = Some((stream, FramePlace { generation, index, arrived: now() }));
                }
            }
            Some(FromSender::Taken { stream, taken }) => self.on_taken(from, stream, &taken),
            Some(FromSender::Gone { stream, gone }) => {
                if let Some(origin) =
                    self.sessions.get(&from).and_then(|session| session.streams.get(&stream))
                {
                    self.inbox.mark_gone(origin, &gone);
                }
            }
            None => self.refuse(from, Refusal::Protocol, "not understood"),
        }
    }

    /// Returns true if the peer has authenticated under this name, or need not.
    fn knows(&self, name: &str, user_id: Option<&[u8]>) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.is(name, user_id))
    }

    fn on_hello(&mut self, store: &Store, from: u32, version: u64, name: &str, id: Id, opening: Opening) {
        let known = store.lock().last_of(self.client.number, id);
        let mut others = self.sessions.values().filter(|session| session.name == name);
        if others.clone().any(|other| other.id != id) {
            return self.refuse(from, Refusal::NameTaken, name);
        }
        if others.any(|other| opening.is_out_of_date(other.opening)) {
            return self.refuse(from, Refusal::OldEpoch, name);
        }
        // A new connection may replace a lost one before the loss is noticed. If the old one is alive, a copy of the
        // same store uses it: refuse it, so that it does not wait for ever.
        let replaced: Vec<(u32, Session)> =
            self.sessions.extract_if(.., |_, session| session.name == name).collect();
        for (other, _) in replaced.iter().filter(|(_, session)| session.opening != opening) {
            self.refuse(*other, Refusal::OldEpoch, name);
        }
        let (window, overdraft) = credit_limits(WINDOW, OVERDRAFT);
        let held = self.held.get(&id).copied().unwrap_or_default();
        let (streams, credit) = (HashMap::new(), ReceiverCredit::new(window, overdraft, held));
        let bytes = credit.granted();
        let (name_of, exhausted, next) = (name.to_owned(), None, None);
        let wants_expired = Features::common_with(version).has(Features::EXPIRED);
        let session = Session { id, name: name_of, opening, wants_expired, streams, next, credit, exhausted };
        self.sessions.insert(from, session);
        let (name, id) = (self.client.name.clone(), self.client.id);
        let version = answer_to(version).unwrap_or(version);
        self.say(from, &FromReceiver::Welcome { version, name: &name, id, known });
        self.say(from, &FromReceiver::Credit { bytes });
    }

    fn on_open(&mut self, store: &Store, from: u32, stream: u64, topic: &str, gone: &RangeSet) {
        let Some(start) = self.begin_stream(store, from, stream, topic) else { return };
        let (origin, received, done, given_up) = self.inbox.open(&start, gone);
        if let Some(session) = self.sessions.get_mut(&from) {
            self.inbox.set_reports_expired(&origin, session.wants_expired);
            session.streams.insert(stream, origin);
        }
        let mut sets = split(&done);
        let done = sets.next().unwrap_or_default();
        self.say(from, &FromReceiver::Cursor { stream, received, done });
        sets.for_each(|done| self.say(from, &FromReceiver::Ack { stream, done }));
        for (last, given_up) in given_up {
            self.say_final(from, stream, last, given_up);
        }
    }

    /// Prepares the cursor of a stream.
    fn begin_stream(&mut self, store: &Store, from: u32, stream: u64, topic: &str) -> Option<StreamStart> {
        let session = self.sessions.get(&from)?;
        let of = (self.client.number, session.id, stream);
        let mut store = store.lock();
        let before = store.cursors.remove(&of);
        let is_restarted = before.as_ref().is_none_or(|cursor| cursor.opening != session.opening);
        let cursor = store.put_cursor(records::CursorRecord {
            client: of.0,
            sender: of.1,
            stream,
            opening: session.opening,
            name: session.name.clone(),
            topic: topic.to_owned(),
            done: before.map(|cursor| cursor.done).unwrap_or_default(),
        });
        let noted = cursor.done.clone();
        Some(StreamStart { of, from: session.name.clone(), topic: topic.to_owned(), noted, is_restarted })
    }

    fn say_final(&self, to: u32, stream: u64, last: u64, given_up: GivenUp) {
        let GivenUp { first, verdict, deliveries } = given_up;
        let deliveries = u64::from(deliveries);
        self.say(to, &FromReceiver::Final { stream, first, last, verdict, deliveries });
    }

    /// `place`: present if the stream is shared.
    fn on_data(&mut self, from: u32, stream: u64, place: Option<FramePlace>, bytes: Body) {
        // A frame in flight when a connection was lost may arrive on the next one, before its stream is opened. It is
        // sent again.
        let origin = self.sessions.get(&from).and_then(|session| session.streams.get(&stream)).cloned();
        let Some(origin) = origin else { return };
        let (outcome, cost) = self.inbox.take(inbox::Frame { bytes, origin, place });
        if let Some(FramePlace { arrived, .. }) = place {
            self.return_at.get_or_insert(arrived + RETURN_AFTER);
        }
        let Some(session) = self.sessions.get_mut(&from) else { return };
        *self.held.entry(session.id).or_default() += cost;
        if let Err(exceeded) = session.credit.receive(cost) {
            return self.refuse(from, Refusal::Protocol, &exceeded.to_string());
        }
        if session.credit.is_exhausted() {
            session.exhausted.get_or_insert((now(), session.credit.granted()));
            self.return_at.get_or_insert(now() + RETURN_AFTER);
        }
        match outcome {
            Outcome::Taken => {}
            Outcome::Gap(received) => self.say(from, &FromReceiver::Again { stream, received }),
            Outcome::Lost => self.report(from, stream),
            Outcome::Nonsense => self.refuse(from, Refusal::Protocol, "invalid messages"),
        }
    }

    /// Grants credit and reports given-up messages, then logs what was handled if that is due. `acknowledge` follows
    /// once it is on the disk.
    pub fn note_handled(&mut self, store: &Store) -> Result<(), crate::log::LogError> {
        let news = self.inbox.take_news();
        for (sender, bytes) in news.taken {
            self.grant(&sender, bytes);
        }
        for (of, last, given_up) in news.given_up {
            if let Some(from) = self.session_of(&of) {
                self.say_final(from, of.2, last, given_up);
            }
        }
        for (of, received) in news.resumed {
            if let Some(from) = self.session_of(&of) {
                self.say(from, &FromReceiver::Again { stream: of.2, received });
            }
        }
        news.wants.into_iter().for_each(|want| self.say_want(want));
        self.to_report |= !news.done.is_empty();
        for (of, done, to_note) in news.done {
            let waiting = self.unnoted.iter_mut().find(|(other, _)| *other == of);
            match (waiting, self.noted.iter().rev().find(|(_, other, _)| *other == of)) {
                (Some((_, before)), _) => before.add_all(&done, u64::MAX),
                (None, _) if to_note => self.unnoted.push((of, done)),
                (None, Some((batch, ..))) => self.noted.push((*batch, of, done)),
                // The sender holds the messages in memory: acknowledge without logging.
                (None, None) => self.acknowledge_one(&of, &done),
            }
        }
        for counted in news.counted {
            // If this fails, the count is recorded with the next checkpoint.
            let _ = store.count_attempt(&mut store.lock(), Urgency::Control, counted);
        }
        let is_awaited = news.attempt.is_some();
        self.attempt = news.attempt.or(self.attempt);
        if is_awaited || self.is_note_due() { self.note(store) } else { Ok(()) }
    }

    /// When progress is to be logged, if there is any.
    pub fn note_at(&self) -> Option<Instant> {
        (!self.unnoted.is_empty() || self.attempt.is_some()).then(|| self.note_at.unwrap_or_else(now))
    }

    pub fn is_note_due(&self) -> bool {
        self.note_at().is_some_and(|at| at <= now())
    }

    /// Logs the progress; then the count of the message that was set aside, whose handler may kill this process.
    fn note(&mut self, store: &Store) -> Result<(), crate::log::LogError> {
        self.note_at = Some(now() + TRY_AGAIN_AFTER);
        while let Some((of, done)) = self.unnoted.last().cloned() {
            let batch = store.note(&mut store.lock(), &of, &done)?;
            self.unnoted.pop();
            self.noted.push((batch, of, done));
        }
        if let Some(attempt) = self.attempt {
            self.attempt_in = Some(store.count_attempt(&mut store.lock(), Urgency::Note, attempt)?);
            self.attempt = None;
        }
        self.note_at = Some(now() + NOTE_EVERY);
        Ok(())
    }

    /// Logs the last progress. Returns the batch to acknowledge once it is on the disk, if there is one.
    pub fn note_last(&mut self, store: &Store) -> Option<u64> {
        self.attempt = None;
        if let Some(counted) = self.inbox.cancel_attempt() {
            let _ = store.count_attempt(&mut store.lock(), Urgency::Control, counted);
        }
        // Messages that cannot be logged as handled are delivered again.
        let _ = self.note(store);
        self.noted.iter().map(|(batch, ..)| *batch).max()
    }

    /// Acknowledges progress that is on the disk: the senders may wait for that, and this client may never return. What
    /// no handler has goes back to senders that have other receivers for it. The frames have `linger` to be sent.
    /// `has_noted`: there was progress.
    pub fn say_last(&mut self, store: &Store, durable: u64, has_noted: bool, linger: Duration) {
        self.acknowledge(durable);
        let returned = self.say_returned();
        // Without the record, the next process only counts more carefully.
        let _ = store.record_end(self.client.number);
        if has_noted || returned {
            self.listener.set_linger(linger);
        }
    }

    /// Drops received frames, at most `most`. Returns false if there were none.
    pub fn ignore(&mut self, most: usize) -> bool {
        (0..most).take_while(|_| self.listener.recv().is_some()).count() > 0
    }

    /// Acknowledges what is on the disk, up to this batch.
    pub fn acknowledge(&mut self, durable: u64) {
        let noted = std::mem::take(&mut self.noted);
        let (ready, waiting) = noted.into_iter().partition(|(batch, ..)| *batch <= durable);
        self.noted = waiting;
        if self.attempt_in.take_if(|batch| *batch <= durable).is_some() {
            self.inbox.attempt_recorded();
        }
        let ready: Vec<(u64, Incoming, RangeSet)> = ready;
        for (_, of, done) in ready {
            self.acknowledge_one(&of, &done);
        }
        if self.to_report && self.noted.is_empty() && self.unnoted.is_empty() {
            self.to_report = false;
            self.inbox.progress_recorded();
        }
    }

    fn acknowledge_one(&self, of: &Incoming, done: &RangeSet) {
        let want = self.inbox.note_done(of, done);
        if let Some(from) = self.session_of(of) {
            split(done).for_each(|done| self.say(from, &FromReceiver::Ack { stream: of.2, done }));
        }
        want.into_iter().for_each(|want| self.say_want(want));
    }

    fn session_of(&self, of: &Incoming) -> Option<u32> {
        self.sessions.iter().find(|(_, session)| session.id == of.1).map(|(from, _)| *from)
    }

    /// Gives back the credit of handled messages, and announces it to the sender if that is due.
    fn grant(&mut self, sender: &Id, bytes: u64) {
        if let Some(held) = self.held.get_mut(sender) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                self.held.remove(sender);
            }
        }
        let Some((from, session)) = self.sessions.iter_mut().find(|(_, session)| session.id == *sender)
        else {
            return;
        };
        if let (from, Some(bytes)) = (*from, session.credit.give_back(bytes)) {
            self.say(from, &FromReceiver::Credit { bytes });
        }
    }

    fn refuse(&mut self, from: u32, refusal: Refusal, text: &str) {
        self.sessions.remove(&from);
        self.say(from, &FromReceiver::Refused { refusal, text });
    }

    /// Sends a frame. If the peer does not read, disconnect it: all frames are repeated after it reconnects.
    fn say(&self, to: u32, said: &FromReceiver<'_>) {
        if self.listener.send(to, &said.write()) == Err(Error::WouldBlock) {
            self.listener.disconnect_peer(to);
        }
    }
}
