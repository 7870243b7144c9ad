//! The peer loop: the thread that moves messages from the log to peers, and from peers to the inboxes.
//!
//! Only this thread uses the sockets. Other threads send it a [`Command`] or ring its doorbell. It holds the store's
//! lock only briefly.

mod dead;
mod doorbell;
mod forked_store;
mod inward;
mod keys;
mod outward;
mod peer;
mod reassign;
mod sockets;

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_engine::{Context, Error, POLLIN, PollTarget, Poller, Socket, SocketType};
use pinnace_stream::RangeSet;

use crate::clock::now_ms;
use crate::inbox::Inbox;
use crate::log::LogError;
use crate::registry::Members;
use crate::store::Store;
use crate::store::records::{self, Receiver as To};
use crate::wire::{FromReceiver, Refusal};
use dead::GivenUpMessage;
pub use dead::SUFFIX;
pub use doorbell::Doorbell;
use forked_store::hello;
use inward::Inward;
pub use keys::Keyring;
use outward::Outward;
use reassign::Reassign;
pub use sockets::listen;
use sockets::{prepare, roomy};

/// Our sockets receive this when a connection is lost; no frame begins with this byte.
const LOST: [u8; 1] = [0];

/// The pause before logging is retried after there was no room.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The most frames taken from one socket before other sockets have their turn.
const TURN: usize = 64;

/// Called on the peer loop's thread for errors that no call returns.
pub type Notify = Arc<dyn Fn(&crate::Error) + Send + Sync>;

/// A listening client.
pub struct Listening {
    pub client: records::ClientRecord,
    pub socket: Socket,
    pub inbox: Arc<Inbox>,
    /// Present if peers have to authenticate.
    pub keys: Option<Arc<Keyring>>,
    pub notify: Notify,
    /// How long its messages wait for a receiver that is away before another may get them; None: for ever.
    pub patience: Option<Duration>,
}

/// A request to the peer loop.
pub enum Command {
    /// Adds a client.
    Add(Box<Listening>),
    /// Removes a client, then signals `done`.
    Remove { client: u32, done: Sender<()> },
    /// The members that a client knows have changed.
    Members { client: u32, members: Arc<Members> },
    /// A stream was opened, or has new messages.
    Stream(u32),
    /// Some messages of a stream are no longer to be sent.
    Gone(u32),
}

/// Controls the peer loop, which ends when this is dropped.
pub struct Handle {
    commands: Mutex<Option<Sender<Command>>>,
    doorbell: Arc<Doorbell>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    pub fn tell(&self, command: Command) {
        if let Some(commands) = &*self.commands.lock().unwrap_or_else(PoisonError::into_inner) {
            // An error means that the peer loop has ended: there is nothing to do.
            let _ = commands.send(command);
        }
        self.doorbell.ring();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.doorbell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Doorbell,
    In(u32),
    Out(usize),
}

struct PeerLoop {
    store: Arc<Store>,
    context: Context,
    doorbell: Arc<Doorbell>,
    commands: Receiver<Command>,
    poller: Poller<Token>,
    inward: Vec<Inward>,
    outward: Outward,
    members: Vec<(u32, Arc<Members>)>,
    /// Streams to receivers that are away; and when to look at them again.
    reassign: Reassign,
    move_at: Option<Instant>,
    /// Round-robin counter for the receivers of reassigned messages.
    turn: usize,
    /// The log's progress (written, durable) when last looked at.
    seen: (u64, u64),
    /// The log has failed, and all clients were notified.
    failed: bool,
}

/// Starts the peer loop's thread, which ends when the handle is dropped.
pub fn start(store: Arc<Store>, context: Context, doorbell: Arc<Doorbell>) -> Result<Handle, Error> {
    let (sender, commands) = channel();
    let poller = Poller::new()?;
    poller.add(PollTarget::Fd(doorbell.wake.raw()), POLLIN, Token::Doorbell)?;
    let outward = Outward::new(store.log());
    let ring = doorbell.clone();
    let (inward, members, reassign, move_at, turn, seen, failed) = Default::default();
    let peer_loop = PeerLoop {
        store,
        context,
        doorbell,
        commands,
        poller,
        inward,
        outward,
        members,
        reassign,
        move_at,
        turn,
        seen,
        failed,
    };
    let thread =
        pinnace_sys::thread::start("pinnace-peers", move || peer_loop.run()).map_err(|_| Error::NoMemory)?;
    Ok(Handle { commands: Mutex::new(Some(sender)), doorbell: ring, thread: Some(thread) })
}

impl PeerLoop {
    fn run(mut self) {
        let mut busy = true;
        loop {
            let due = self.inward.iter().filter_map(|inward| inward.inbox.wake_tasks()).min();
            let due = due.map(|due| due.saturating_duration_since(Instant::now()));
            // A failed log accepts no more progress.
            let note_in = self.inward.iter().filter(|_| !self.failed).filter_map(Inward::note_in).min();
            let move_in = self.move_at.map(|at| at.saturating_duration_since(Instant::now()));
            let later = self.outward.ask_again().into_iter().chain(note_in).chain(due).chain(move_in).min();
            let timeout = if busy || self.is_behind_disk() { Some(Duration::ZERO) } else { later };
            let events = match self.poller.wait(64, timeout, None) {
                Ok(events) => events,
                Err(Error::WouldBlock | Error::Interrupted) => Vec::new(),
                Err(_) => return,
            };
            busy = false;
            for event in events {
                match event.data {
                    Token::Doorbell => {
                        self.doorbell.wake.clear();
                        self.doorbell.rung.store(false, Ordering::SeqCst);
                    }
                    Token::In(client) => busy |= self.receive(client),
                    Token::Out(peer) => self.receive_from_peer(peer),
                }
            }
            if !self.obey() {
                return;
            }
            // A failed log is reported to all clients once.
            if let Err(error @ LogError::Failed(_)) = self.note_handled()
                && !std::mem::replace(&mut self.failed, true)
            {
                self.notify_all(&crate::Error::from(error));
            }
            busy |= self.pump().unwrap_or(false);
            for index in self.outward.take_full() {
                self.was_refused(index, "it grants more credit than it reads");
            }
            let rot = self.store.log().take_rot();
            if !rot.is_empty() {
                self.notify_all(&crate::Error::Damaged(rot));
            }
            self.move_on();
        }
    }

    /// Returns true if the log has made relevant progress. Also sets whether the log rings the doorbell for it.
    fn is_behind_disk(&mut self) -> bool {
        let wants = self.outward.lanes.is_any_connected() || self.inward.iter().any(Inward::has_noted);
        self.doorbell.wants_disk.store(wants, Ordering::SeqCst);
        wants && self.store.log().progress().is_ok_and(|progress| progress != self.seen)
    }

    /// Executes the pending commands. Returns false if the handle was dropped.
    fn obey(&mut self) -> bool {
        use std::sync::mpsc::TryRecvError;
        loop {
            match self.commands.try_recv() {
                Ok(Command::Add(listening)) => self.add(*listening),
                Ok(Command::Remove { client, done }) => {
                    self.remove(client);
                    let _ = done.send(());
                }
                Ok(Command::Members { client, members }) => {
                    self.members.retain(|(other, _)| *other != client);
                    self.members.push((client, members));
                    self.find_all(client);
                }
                Ok(Command::Stream(stream)) => self.find(stream),
                Ok(Command::Gone(stream)) => self.outward.tell_gone(&self.store, stream),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn add(&mut self, listening: Listening) {
        let (socket, number) = (listening.socket, listening.client.number);
        if let Err(error) = self.poller.add(PollTarget::Socket(socket), POLLIN, Token::In(number)) {
            (listening.notify)(&crate::Error::Endpoint(error));
        }
        self.inward.push(Inward::new(listening));
    }

    fn notify_all(&self, error: &crate::Error) {
        self.inward.iter().for_each(|inward| (inward.notify)(error));
    }

    /// Reports an error to a client.
    fn notify(&self, client: u32, error: &crate::Error) {
        self.inward.iter().filter(|inward| inward.client.number == client).for_each(|i| (i.notify)(error));
    }

    fn remove(&mut self, client: u32) {
        // Log and acknowledge what was handled.
        let _ = self.note_handled();
        self.members.retain(|(other, _)| *other != client);
        for mut inward in self.inward.extract_if(.., |inward| inward.client.number == client) {
            inward.say_last(&self.store);
            let _ = self.poller.remove(PollTarget::Socket(inward.socket));
            let _ = inward.socket.close();
        }
        for socket in self.outward.remove_client(client) {
            let _ = self.poller.remove(PollTarget::Socket(socket));
            let _ = socket.close();
        }
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
        let mut state = self.store.lock();
        let Some(stream) = state.outbox.get(number) else { return };
        let client = stream.record.client;
        let Some((_, members)) = self.members.iter().find(|(other, _)| *other == client) else { return };
        let name = match &stream.record.receiver {
            To::Client(name) => name.clone(),
            To::Anyone => {
                let own = &state.clients[client as usize].name;
                let first = members.of_topic(&stream.record.topic).find(|member| member.name != *own);
                let Some(first) = first.map(|member| member.name.clone()) else { return };
                if self.store.hand_over(&mut state, number, To::Client(first.clone())).is_err() {
                    return;
                }
                first
            }
        };
        let Some(endpoint) = members.get(&name).map(|member| member.endpoint.clone()) else {
            self.reassign.is_away(number);
            self.move_at = Some(Instant::now());
            return;
        };
        self.reassign.is_back(number);
        let Some(stream) = state.outbox.get(number) else { return };
        let (topic, sender) = (stream.record.topic.clone(), state.clients[client as usize].clone());
        drop(state);
        if let Some(peer) = self.connect(&sender, &name, &endpoint) {
            self.outward.add_lane(&self.store, number, peer, &topic);
        }
    }

    /// The connection to another client, at its present endpoint.
    fn connect(&mut self, sender: &records::ClientRecord, name: &str, endpoint: &str) -> Option<usize> {
        if let Some(index) = self.outward.find(sender.number, name) {
            self.outward.move_peer(index, endpoint);
            return Some(index);
        }
        let inward = self.inward.iter().find(|inward| inward.client.number == sender.number)?;
        let keys = inward.keys.clone();
        let socket = self.context.socket(SocketType::Client).ok()?;
        let hello = hello(&self.store.lock(), sender.number, name);
        let prepared = prepare(socket)
            .and_then(|()| keys.map_or(Ok(()), |keys| keys.address(socket, name)))
            .and_then(|()| roomy(socket, endpoint))
            .and_then(|()| {
                socket.configure(|options| {
                    options.hello_msg = Some(hello);
                    options.hiccup_msg = Some(LOST.to_vec());
                })
            })
            .and_then(|()| socket.connect(endpoint));
        let index = self.outward.peers.len();
        let added =
            prepared.and_then(|()| self.poller.add(PollTarget::Socket(socket), POLLIN, Token::Out(index)));
        if let Err(error) = added {
            let _ = socket.close();
            self.notify(sender.number, &crate::Error::Unreachable { peer: name.to_owned(), error });
            return None;
        }
        Some(self.outward.add_peer(sender.number, name, endpoint, socket))
    }

    /// Takes frames received for a client. Returns true if there were any.
    fn receive(&mut self, client: u32) -> bool {
        let inward = self.inward.iter_mut().find(|inward| inward.client.number == client);
        inward.is_some_and(|inward| inward.receive(&self.store, TURN))
    }

    /// Takes frames from a peer.
    fn receive_from_peer(&mut self, index: usize) {
        let mut frame = Vec::new();
        for _ in 0..TURN {
            let Some(socket) = self.outward.peer(index).map(|peer| peer.socket) else { return };
            frame.clear();
            if socket.recv(false, &mut |from| frame.extend_from_slice(from.data())).is_err() {
                return;
            }
            match FromReceiver::read(&frame) {
                _ if frame == LOST => self.outward.lost(index),
                Some(FromReceiver::Welcome { known, .. }) => self.was_welcomed(index, known),
                Some(FromReceiver::Credit { bytes }) => self.outward.lanes.grant(index, bytes),
                Some(FromReceiver::Cursor { stream, received, done }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.go_on(index, stream, received, done);
                    }
                }
                Some(FromReceiver::Ack { stream, done }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        // A failure of the log is reported elsewhere.
                        let _ = self.store.acknowledge(&mut self.store.lock(), stream, &done);
                    }
                }
                Some(FromReceiver::Again { stream, received }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.outward.resend(&self.store, stream, received);
                    }
                }
                Some(FromReceiver::Final { stream, first, last, verdict, deliveries }) => {
                    if let Some(stream) = self.outward.stream_of(index, stream) {
                        self.put_away(index, &GivenUpMessage { stream, first, last, verdict, deliveries });
                    }
                }
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
        if let Some((client, peer)) = self.outward.refused(index) {
            self.notify(client, &crate::Error::Refused { peer, text: text.to_owned() });
        }
    }

    fn mark_done(&mut self, stream: u32, done: &RangeSet) {
        let mut state = self.store.lock();
        // A failure of the log is reported elsewhere.
        let _ = self.store.mark_done(&mut state, stream, done);
    }

    /// Makes a message that its receiver gave up a dead letter.
    fn put_away(&mut self, index: usize, dead: &GivenUpMessage) {
        let Some(receiver) = self.outward.peer(index).map(|peer| peer.name.clone()) else { return };
        match dead.put_away(&self.store, &receiver) {
            Ok(stream) => {
                stream.into_iter().for_each(|stream| self.find(stream));
                self.outward.tell_gone(&self.store, dead.stream);
            }
            // No room now: reconnect later, and the receiver repeats the verdict.
            Err(_) => drop(self.outward.refused(index)),
        }
    }

    /// Logs what was handled, and acknowledges what is on the disk.
    fn note_handled(&mut self) -> Result<(), LogError> {
        let news = std::mem::take(&mut *self.doorbell.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.seen = self.store.log().progress()?;
        let durable = self.seen.1;
        let mut outcome = Ok(());
        for inward in &mut self.inward {
            if news.contains(&inward.client.number) || inward.note_in() == Some(Duration::ZERO) {
                outcome = inward.note_handled(&self.store).and(outcome);
            }
            inward.acknowledge(durable);
        }
        outcome
    }

    fn pump(&mut self) -> Result<bool, LogError> {
        let (moved, expired) = self.outward.pump(&self.store, now_ms())?;
        for (stream, first, last) in expired {
            let mut done = RangeSet::default();
            done.add(first, last);
            self.mark_done(stream, &done);
        }
        Ok(moved)
    }
}
