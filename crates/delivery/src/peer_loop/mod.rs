//! The peer loop of a store, which moves messages from the log to peers, and from peers to the inboxes.
//!
//! It is a task of an event loop (`pinnace_eventloop`), and may share its thread with those of other stores. Only this
//! thread uses the connections. Other threads send it a [`Command`] or ring its doorbell. It holds the store's lock
//! only briefly, and waits for nothing else.

mod dead;
mod doorbell;
mod expired;
mod forked_store;
mod handle;
mod inward;
mod keys;
mod leaving;
mod loops;
pub(crate) mod network;
mod outward;
mod peer;
mod reassign;
mod retention;
mod sharing;
mod silence;
mod sockets;
mod status;
mod strangers;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use pinnace_engine::{Error, Invalid};
use pinnace_eventloop::{Next, Task};

use crate::environment::{now, now_ms};
use crate::error::NO_KEY;
use crate::inbox::Inbox;
use crate::log::LogError;
use crate::registry::Members;
use crate::statistics::ReceiverState;
use crate::store::records::{self, Receiver as To};
use crate::store::{Cause, RetainLimits, Store};
use crate::wire::{FromReceiver, Refusal, Verdict};
use dead::GivenUpMessage;
pub use dead::SUFFIX;
pub use doorbell::Doorbell;
use expired::Expiry;
use forked_store::hello;
pub use handle::{Command, Handle};
use inward::Inward;
pub use keys::Keyring;
use leaving::Leaving;
pub use loops::slot;
use network::{FailedHandshake, LOST, Target};
pub use network::{Listener, Network, NoListener, Token};
use outward::{Outward, Report};
use peer::{AnswerState, PeerProblem};
use reassign::Reassign;
use retention::Retention;
pub use silence::Silence;
pub use sockets::Sockets;
pub use status::LoopStatistics;
pub use strangers::Stranger;

/// The pause before logging is retried after there was no room.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The most frames taken from one socket before other sockets have their turn.
const TURN: usize = 64;

/// What a peer does not have that gets messages without their properties.
const PROPERTIES_LEFT_OUT: &str = "ids, content types, trace context and headers: it gets the bodies alone";

/// Called for errors that no call returns.
pub type Notify = Arc<dyn Fn(&crate::Error) + Send + Sync>;

/// A listening client.
pub struct Listening {
    pub client: records::ClientRecord,
    pub listener: Box<dyn Listener>,
    pub inbox: Arc<Inbox>,
    /// Present if peers have to authenticate.
    pub keys: Option<Arc<Keyring>>,
    pub notify: Notify,
    /// How long its messages wait for a receiver that is away before another may get them; None: for ever.
    pub patience: Option<Duration>,
    pub limits: RetainLimits,
    /// Its expired messages become dead letters.
    pub keeps_expired: bool,
}

/// Why a peer could not be connected to.
struct Unreachable {
    text: String,
    /// The client was told. It is not, as long as no message goes to the peer.
    is_told: bool,
}

pub struct PeerLoop {
    store: Arc<Store>,
    network: Arc<dyn Network>,
    doorbell: Arc<Doorbell>,
    inward: Vec<Inward>,
    /// Clients that were removed, and wait for their last acknowledgements.
    leaving: Vec<Leaving>,
    outward: Outward,
    members: Vec<(u32, Arc<Members>)>,
    /// Streams to receivers that are away; and when to look at them again.
    reassign: Reassign,
    move_at: Option<Instant>,
    retention: Retention,
    expiry: Expiry,
    /// Peers that could not be connected to, by client and name.
    unreachable: HashMap<(u32, String), Unreachable>,
    /// Streams on which messages were sent since their clients were started.
    in_use: HashSet<u32>,
    /// The log's progress (written, durable) when last looked at.
    seen: (u64, u64),
    /// Frames may wait at a listener.
    busy: bool,
    /// The log has failed, and all clients were notified.
    failed: bool,
}

impl Task for PeerLoop {
    type Token = Token;
    type Command = Command;

    fn on_ready(&mut self, token: Token) {
        match token {
            Token::In(client) => self.busy |= self.receive(client),
            Token::Out(peer) => self.receive_from_peer(peer),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Add(listening) => self.inward.push(Inward::new(*listening)),
            Command::Remove { client, done } => self.remove(client, &done),
            Command::Members { client, members } => {
                self.members.retain(|(other, _)| *other != client);
                self.members.push((client, members));
                self.find_all(client);
                self.retention.wake();
            }
            Command::Stream(stream) => {
                self.in_use.insert(stream);
                self.find(stream);
            }
            Command::Gone(stream) => self.outward.tell_gone(&self.store, stream),
            Command::Statistics { client, done } => {
                let _ = done.send(self.statistics(client));
            }
        }
    }

    fn work(&mut self) -> Next {
        #[cfg(test)]
        self.doorbell.turns.fetch_add(1, Ordering::Relaxed);
        // A failed log is reported to all clients once.
        if let Err(error @ LogError::Failed(_)) = self.note_handled()
            && !std::mem::replace(&mut self.failed, true)
        {
            self.inward.iter().for_each(|inward| inward.inbox.recording_failed());
            self.notify_all(&crate::Error::from(error));
        }
        self.end_leaving();
        self.outward.tell_recorded(&self.store);
        let moved = self.pump().unwrap_or(false);
        for index in self.outward.take_full() {
            self.was_refused(index, "it grants more credit than it reads");
        }
        for (client, peer) in self.outward.take_left_out() {
            self.notify(client, &crate::Error::PeerLacks { peer, feature: PROPERTIES_LEFT_OUT });
        }
        self.report_silent();
        let rot = self.store.log().take_rot();
        if !rot.is_empty() {
            self.notify_all(&crate::Error::Damaged(rot));
        }
        self.copy_for_older();
        self.outward.share_after_bound(&self.store);
        self.inward.iter_mut().for_each(Inward::return_waiting);
        self.move_on();
        self.enforce_retention();
        let has_freed = std::mem::take(&mut self.outward.has_freed);
        let busy = std::mem::take(&mut self.busy) || moved || has_freed;
        if busy || self.is_behind_disk() { Next::Now } else { Next::Wait(self.next_due()) }
    }
}

impl PeerLoop {
    fn new(store: Arc<Store>, network: Arc<dyn Network>, doorbell: Arc<Doorbell>) -> PeerLoop {
        let outward = Outward::new(store.log());
        let (inward, leaving, members, reassign, move_at, retention, seen, busy, failed) = Default::default();
        let (unreachable, in_use) = Default::default();
        PeerLoop {
            store,
            network,
            doorbell,
            inward,
            leaving,
            outward,
            members,
            reassign,
            move_at,
            retention,
            expiry: Expiry::default(),
            unreachable,
            in_use,
            seen,
            busy,
            failed,
        }
    }

    /// When there is work without an event.
    fn next_due(&mut self) -> Option<Instant> {
        let due = self.inward.iter().filter_map(|inward| inward.inbox.wake_tasks()).min();
        // A failed log accepts no more progress.
        let note_at = self.inward.iter().filter(|_| !self.failed).filter_map(Inward::note_at).min();
        let answer_deadline = self.outward.answer_deadline();
        self.outward
            .ask_again()
            .into_iter()
            .chain(note_at)
            .chain(due)
            .chain(self.move_at)
            .chain(self.leaving.iter().map(Leaving::until).min())
            .chain(self.inward.iter().filter_map(Inward::return_at).min())
            .chain(self.retention.check_at())
            .chain(self.expiry.again_at())
            .chain(answer_deadline)
            .min()
    }

    /// Returns true if the log has made relevant progress. Also sets whether the log rings the doorbell for it.
    fn is_behind_disk(&mut self) -> bool {
        let wants = self.outward.lanes.is_any_connected()
            || self.inward.iter().any(Inward::has_noted)
            || !self.leaving.is_empty();
        self.doorbell.wants_disk.store(wants, Ordering::SeqCst);
        wants && self.store.log().progress().is_ok_and(|progress| progress != self.seen)
    }

    fn notify_all(&self, error: &crate::Error) {
        let clients: Vec<u32> = self.inward.iter().map(|inward| inward.client.number).collect();
        clients.into_iter().for_each(|client| self.notify(client, error));
    }

    /// Reports an error to a client.
    fn notify(&self, client: u32, error: &crate::Error) {
        let Some(inward) = self.inward.iter().find(|inward| inward.client.number == client) else { return };
        (inward.notify)(error);
    }

    /// Finds the receivers of a client's streams.
    fn find_all(&mut self, client: u32) {
        let streams: Vec<u32> = {
            let state = self.store.lock();
            let of_client = state.outbox.iter().filter(|stream| stream.record.client == client);
            of_client.map(|stream| stream.record.number).collect()
        };
        for stream in streams {
            self.find(stream);
        }
    }

    fn find(&mut self, number: u32) {
        let state = self.store.lock();
        let Some(stream) = state.outbox.get(number) else { return };
        let client = stream.record.client;
        let Some((_, members)) = self.members.iter().find(|(other, _)| *other == client) else { return };
        let name = match &stream.record.receiver {
            To::Client(name) => name.clone(),
            To::Later => return,
            To::Anyone => {
                drop(state);
                return self.find_sharers(number);
            }
        };
        let Some(endpoint) = members.get(&name).map(|member| member.endpoint.clone()) else {
            self.reassign.is_away(number);
            self.move_at = Some(now());
            return;
        };
        self.reassign.is_back(number);
        let Some(stream) = state.outbox.get(number) else { return };
        let (topic, sender) = (stream.record.topic.clone(), state.clients[client as usize].clone());
        drop(state);
        if let Some(peer) = self.connect(&sender, number, &name, &endpoint) {
            self.outward.add_lane(&self.store, number, peer, &topic);
        }
    }

    /// The connection to another client, at its present endpoint, for a stream.
    fn connect(
        &mut self,
        sender: &records::ClientRecord,
        stream: u32,
        name: &str,
        endpoint: &str,
    ) -> Option<usize> {
        if let Some(index) = self.outward.find(sender.number, name) {
            self.outward.move_peer(index, endpoint);
            return Some(index);
        }
        let inward = self.inward.iter().find(|inward| inward.client.number == sender.number)?;
        let index = self.outward.peers.len();
        let hello = hello(&self.store.lock(), sender.number, name);
        let link = self.network.link(Target { index, name, endpoint, hello, keys: inward.keys.as_deref() });
        match link {
            Ok(link) => {
                self.unreachable.remove(&(sender.number, name.to_owned()));
                Some(self.outward.add_peer(sender.number, name, endpoint, link))
            }
            Err(error) => {
                let text = match error {
                    Error::Invalid(Invalid::Key) => format!("it is not trusted here: {NO_KEY}"),
                    _ => format!("{endpoint} cannot be connected to: {error}"),
                };
                let of = (sender.number, name.to_owned());
                // Each change of the members tries again.
                let was_told = self.unreachable.get(&of).is_some_and(|was| was.is_told && was.text == text);
                let is_told = was_told || self.has_messages(stream);
                self.unreachable.insert(of, Unreachable { text, is_told });
                if is_told && !was_told {
                    self.notify(sender.number, &crate::Error::Unreachable { peer: name.to_owned(), error });
                }
                None
            }
        }
    }

    /// Returns true if messages of a stream are pending, or were sent since its client was started.
    fn has_messages(&self, stream: u32) -> bool {
        let is_pending = || self.store.lock().outbox.get(stream).is_some_and(|of| of.pending() > 0);
        self.in_use.contains(&stream) || is_pending()
    }

    /// Takes frames received for a client. Returns true if there were any.
    fn receive(&mut self, client: u32) -> bool {
        let Some(inward) = self.inward.iter_mut().find(|inward| inward.client.number == client) else {
            return self.ignore(client);
        };
        let any = inward.receive(&self.store, TURN);
        for FailedHandshake { address, reason } in inward.strangers.take_news() {
            self.notify(client, &crate::Error::NotAdmitted { address, reason });
        }
        any
    }

    /// Takes frames from a peer.
    fn receive_from_peer(&mut self, index: usize) {
        let mut frame = Vec::new();
        for _ in 0..TURN {
            frame.clear();
            if !self.outward.peer(index).is_some_and(|peer| peer.link.recv(&mut frame)) {
                return;
            }
            match FromReceiver::read(&frame) {
                _ if frame == LOST => self.outward.lost(index),
                Some(FromReceiver::Welcome { version, known, .. }) => {
                    self.was_welcomed(index, version, known);
                }
                Some(FromReceiver::Credit { bytes }) => self.outward.grant(index, bytes),
                Some(FromReceiver::Cursor { stream, received, done }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.go_on(index, stream, received, done);
                    }
                }
                Some(FromReceiver::Ack { stream, done }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        let done = self.expiry.hold_back(stream, done);
                        self.was_acknowledged(index, stream, &done);
                    }
                }
                Some(FromReceiver::Held { stream, generation, wanted, held, done }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.was_reported(index, stream, &Report { generation, wanted, held }, &done);
                    }
                }
                Some(FromReceiver::Want { stream, generation, wanted }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.outward.wanted(stream, index, generation, wanted);
                    }
                }
                Some(FromReceiver::Again { stream, received }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.outward.resend(&self.store, stream, received);
                    }
                }
                Some(FromReceiver::Final { stream, first, last, verdict: Verdict::Expired, .. }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.has_expired(index, stream, first, last);
                    }
                }
                Some(FromReceiver::Final { stream, first, last, verdict, deliveries }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.put_away(index, &GivenUpMessage { stream, first, last, verdict, deliveries });
                    }
                }
                Some(FromReceiver::Refused { refusal: Refusal::Version, .. })
                    if self.says_hello_again(index) => {}
                Some(FromReceiver::Refused { refusal: Refusal::OldEpoch, .. }) => self.part(index),
                Some(FromReceiver::Refused { refusal, text }) => {
                    self.was_refused(index, &format!("{refusal}: {text}"));
                }
                None => self.was_refused(index, "it sent an invalid message"),
            }
        }
    }

    /// The peer refuses our streams. It is asked again regularly; the client is notified the first time.
    fn was_refused(&mut self, index: usize, text: &str) {
        let refused = self.outward.refused(index);
        if let Some(peer) = self.outward.peer(index) {
            peer.problem = Some(PeerProblem { connection: ReceiverState::Refused, text: text.to_owned() });
        }
        if let Some((client, peer)) = refused {
            self.notify(client, &crate::Error::Refused { peer, text: text.to_owned() });
        }
    }

    /// Tells clients which peers should be there and do not answer.
    fn report_silent(&mut self) {
        let mut silent = Vec::new();
        while let Some(peer) = self.outward.next_silent() {
            let members = self.members.iter().find(|(client, _)| *client == peer.client);
            if members.is_none_or(|(_, members)| members.get(&peer.name).is_none()) {
                peer.set_answer(AnswerState::NotExpected);
            } else if let Some(reason) = peer.check_silence() {
                let text = format!("no answer at {}: {reason}", peer.endpoint);
                peer.problem = Some(PeerProblem { connection: reason.state(), text });
                silent.push((peer.client, peer.name.clone(), peer.endpoint.clone(), reason));
            }
        }
        for (client, peer, endpoint, reason) in silent {
            self.notify(client, &crate::Error::NoAnswer { peer, endpoint, reason });
        }
    }

    /// Makes a message that its receiver gave up a dead letter.
    fn put_away(&mut self, index: usize, dead: &GivenUpMessage) {
        let Some(receiver) = self.outward.peer(index).map(|peer| peer.name.clone()) else { return };
        match dead.put_away(&self.store, &receiver, Cause::Dead) {
            Ok(stream) => {
                stream.into_iter().for_each(|stream| self.find(stream));
                self.outward.tell_gone(&self.store, dead.stream);
            }
            // No room now: reconnect later, and the receiver repeats the verdict.
            Err(_) => drop(self.outward.refused(index)),
        }
    }

    /// A receiver has found a message expired.
    fn has_expired(&mut self, index: usize, stream: u32, first: u64, last: u64) {
        let receiver = self.outward.peer(index).map(|peer| peer.name.clone());
        receiver.into_iter().for_each(|receiver| self.expiry.add_at(receiver, stream, first, last));
    }

    /// Logs what was handled, and acknowledges what is on the disk.
    fn note_handled(&mut self) -> Result<(), LogError> {
        let news = std::mem::take(&mut *self.doorbell.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.seen = self.store.log().progress()?;
        let durable = self.seen.1;
        let mut outcome = Ok(());
        for inward in &mut self.inward {
            if news.contains(&inward.client.number) || inward.is_note_due() {
                outcome = inward.note_handled(&self.store).and(outcome);
            }
            inward.acknowledge(durable);
        }
        outcome
    }

    fn pump(&mut self) -> Result<bool, LogError> {
        let (moved, expired) = self.outward.pump(&self.store, now_ms())?;
        expired.into_iter().for_each(|(stream, first, last)| self.expiry.add(stream, first, last));
        self.end_expired();
        Ok(moved)
    }
}
