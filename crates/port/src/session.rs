//! What a client has made: its contexts and channels, and how they share the output.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_delivery::Client;
use pinnace_engine::{Context, Error, POLLIN, POLLOUT, PollTarget, Poller};
use rustix::io::Errno;

use crate::answers::{Answer, Answers, Desk, Started};
use crate::bodies::Bodies;
use crate::channel::{Channel, Delivered, Taken, WINDOW};
use crate::contexts::EndingContexts;
use crate::delivery::DeliveryChannel;
use crate::failure::Failure;
use crate::files::Files;
use crate::pipes::Output;
use crate::refusal::{Refusal, answer};
use crate::wire::{Malformed, Messages, Part, ProgramPacket};

/// The most events taken from the poller at once.
const EVENTS_MAX: usize = 4096;

/// The most octets that wait for the pipe before nothing more is received.
const OUTPUT_MAX: usize = 256 * 1024;

/// How much room is told at once, at least; less is told after `TOLD_AFTER`.
const TOLD_OCTETS: u32 = WINDOW as u32 / 8;
const TOLD_AFTER: Duration = Duration::from_millis(10);

/// What an event of the poller concerns.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    Input,
    Output,
    Log,
    Answers,
    Channel(u32),
    Delivery(u32),
}

pub struct Session {
    poller: Poller<Source>,
    input: RawFd,
    pub output: Output,
    /// The poller has the output, because it was full.
    output_is_polled: bool,
    pub contexts: HashMap<u32, Context>,
    pub channels: HashMap<u32, Channel>,
    pub deliveries: HashMap<u32, DeliveryChannel>,
    pub bodies: Bodies,
    pub files: Files,
    answers: Answers,
    /// What the poller waits for, for each channel that it has.
    polled: HashMap<u32, i16>,
    /// Channels that took messages since room was told.
    took: BTreeSet<u32>,
    tell_at: Option<Instant>,
    /// Channels with messages that wait for room in the output.
    held: BTreeSet<u32>,
    /// The first of them whose turn it is.
    turn: u32,
    /// Channels that are closed and still send.
    closing: BTreeSet<u32>,
    ending: EndingContexts,
}

impl Session {
    pub fn new(input: RawFd, output: OwnedFd) -> Result<Session, Failure> {
        let poller = Poller::new()?;
        let answers = Answers::new()?;
        poller.add(PollTarget::Fd(input), POLLIN, Source::Input)?;
        poller.add(PollTarget::Fd(answers.descriptor()), POLLIN, Source::Answers)?;
        Ok(Session {
            poller,
            input,
            output: Output::new(output)?,
            output_is_polled: false,
            contexts: HashMap::new(),
            channels: HashMap::new(),
            deliveries: HashMap::new(),
            bodies: Bodies::default(),
            files: Files::default(),
            answers,
            polled: HashMap::new(),
            took: BTreeSet::new(),
            tell_at: None,
            held: BTreeSet::new(),
            turn: 0,
            closing: BTreeSet::new(),
            ending: EndingContexts::default(),
        })
    }

    /// Lets the poller wait for the log too.
    pub fn watch(&mut self, log: RawFd) -> Result<(), Failure> {
        Ok(self.poller.add(PollTarget::Fd(log), POLLIN, Source::Log)?)
    }

    /// Sends lines of the log to the client.
    pub fn tell(&mut self, lines: &[String]) {
        lines.iter().for_each(|text| self.output.put(ProgramPacket::Log { text }));
    }

    /// Waits for something to do. Returns what is ready, and for what.
    pub fn wait(&mut self) -> Result<Vec<(Source, i16)>, Failure> {
        match self.poller.wait(EVENTS_MAX, self.timeout(), None) {
            Ok(events) => Ok(events.into_iter().map(|event| (event.data, event.events)).collect()),
            Err(Error::WouldBlock | Error::Interrupted) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.held.is_empty() && !self.output.is_full() {
            return Some(Duration::ZERO);
        }
        let closes = self.closing.iter().filter_map(|number| self.channels.get(number)?.closes.flatten());
        let at = closes.chain(self.tell_at).min()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Writes to the client. If the pipe is full, the poller waits for room.
    pub fn write(&mut self) -> Result<(), Failure> {
        self.output.write()?;
        if self.output.is_full() != self.output_is_polled {
            let target = PollTarget::Fd(self.output.descriptor());
            if self.output.is_full() {
                self.poller.add(target, POLLOUT, Source::Output)?;
            } else {
                self.poller.remove(target)?;
            }
            self.output_is_polled = self.output.is_full();
        }
        Ok(())
    }

    /// Takes credit that the client grants.
    pub fn grant(&mut self, number: u32, messages: u32, octets: u32) {
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.credit.grant(messages, octets);
            self.deliver(number);
        } else if let Some(channel) = self.deliveries.get_mut(&number) {
            channel.credit.grant(messages, octets);
            self.pass_on(number);
        } else if self.files.grant(number, messages, octets) {
            self.tell_events(number);
        }
    }

    /// Sends a part of a message through a channel, or adds it to a body.
    pub fn send_part(&mut self, number: u32, part: Part, content: &[u8]) -> Result<(), Malformed> {
        // Without a channel, nothing is told: the client has closed it.
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.send_part(number, part, content, &mut self.output)?;
            self.note_sending(number);
        } else {
            self.bodies.add(number, part, content)?;
        }
        Ok(())
    }

    /// Sends messages through a channel.
    pub fn send(&mut self, number: u32, octets: &[u8], confirms: Option<u32>) -> Result<(), Malformed> {
        let open = self.channels.get_mut(&number).filter(|channel| channel.closes.is_none());
        let Some(channel) = open else {
            let (messages, errno) = (Messages::new(octets)?.count(), Errno::NOTSOCK.raw_os_error());
            self.output.put(ProgramPacket::Unsent { channel: number, messages, errno });
            return Ok(());
        };
        channel.send(number, octets, confirms, &mut self.output)?;
        self.note_sending(number);
        Ok(())
    }

    /// After messages were passed to a channel, or taken by its socket.
    fn note_sending(&mut self, number: u32) {
        let Some(channel) = self.channels.get(&number) else { return };
        if channel.taken != Taken::default() {
            self.took.insert(number);
            self.tell_at.get_or_insert_with(|| Instant::now() + TOLD_AFTER);
        }
        self.poll(number);
    }

    /// Has the poller wait for what the channel waits for.
    fn poll(&mut self, number: u32) {
        let Some(channel) = self.channels.get(&number) else { return };
        let (wanted, target) = (channel.interest(), PollTarget::Socket(channel.socket));
        // It fails only for a socket that has ended, which its next use shows.
        let _ = match self.polled.insert(number, wanted) {
            None => self.poller.add(target, wanted, Source::Channel(number)),
            Some(polled) if polled == wanted => Ok(()),
            Some(_) => self.poller.modify(target, wanted),
        };
    }

    /// A channel's socket is ready.
    pub fn serve(&mut self, number: u32, events: i16) {
        if events & !POLLIN != 0
            && let Some(channel) = self.channels.get_mut(&number)
        {
            channel.send_waiting(number, &mut self.output);
            self.note_sending(number);
        }
        if events & !POLLOUT != 0 {
            self.deliver(number);
        }
    }

    /// Delivers a packet of a channel, if there is room in the output.
    fn deliver(&mut self, number: u32) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        channel.is_held = false;
        if channel.may_deliver() && channel.closes.is_none() {
            channel.is_held = self.output.waiting() > OUTPUT_MAX;
            if !channel.is_held {
                match channel.deliver(number, &mut self.output) {
                    Ok(Delivered::Nothing) => {}
                    // There may be more, which the poller tells; but not of a large message.
                    Ok(Delivered::Some) => channel.is_held = channel.has_large(),
                    Err(error) => {
                        self.output.put(ProgramPacket::Ended { channel: number, errno: error.errno() });
                        return self.forget(number);
                    }
                }
            }
        }
        if channel.is_held {
            self.held.insert(number);
        }
        self.poll(number);
    }

    pub fn has_channel(&self, number: u32) -> bool {
        self.channels.contains_key(&number)
            || self.deliveries.contains_key(&number)
            || self.bodies.contains(number)
            || self.files.has_channel(number)
    }

    pub fn desk(&self) -> &Desk {
        &self.answers.desk
    }

    /// Takes what threads have done.
    pub fn take_answers(&mut self) {
        for taken in self.answers.take() {
            match taken {
                Answer::Done { id, outcome } => answer(&mut self.output, id, outcome),
                Answer::Started { id, channel, outcome } => {
                    let outcome = outcome.and_then(|started| self.add(channel, started));
                    answer(&mut self.output, id, outcome);
                }
                Answer::NotAcked { channel, token, delivery } => {
                    // A client that was closed meanwhile has given it up.
                    if let Some(channel) = self.deliveries.get_mut(&channel) {
                        channel.put_back(token, *delivery);
                    }
                }
                Answer::Began { id, channel, transfer } => {
                    self.files.begun(id, channel, transfer);
                    self.tell_events(channel);
                }
                Answer::Events { channel } => self.tell_events(channel),
            }
        }
    }

    /// Adds what was started for a channel. Returns what its request is answered by.
    fn add(&mut self, number: u32, started: Started) -> Result<Vec<u8>, Refusal> {
        if self.has_channel(number) {
            return Err(Refusal::Other(Errno::EXIST, "the channel is in use"));
        }
        match started {
            Started::Delivery(client) => self.add_delivery(number, client),
            Started::FilesServer(server) => Ok(self.files.add_server(number, server)),
            Started::FilesClient(client) => {
                self.files.clients.insert(number, client);
                Ok(Vec::new())
            }
        }
    }

    /// Returns the client's endpoint.
    fn add_delivery(&mut self, number: u32, client: Arc<Client>) -> Result<Vec<u8>, Refusal> {
        let endpoint = client.endpoint().as_bytes().to_vec();
        let channel = DeliveryChannel::new(number, client, &self.answers.desk)?;
        self.poller.add(PollTarget::Fd(channel.descriptor()?), 0, Source::Delivery(number))?;
        self.deliveries.insert(number, channel);
        Ok(endpoint)
    }

    /// Delivers a packet of a client of guaranteed delivery.
    pub fn pass_on(&mut self, number: u32) {
        let Some(channel) = self.deliveries.get_mut(&number) else { return };
        channel.is_held = false;
        if channel.credit.is_left() {
            channel.is_held = self.output.waiting() > OUTPUT_MAX;
            if !channel.is_held {
                channel.deliver(number, &mut self.output);
            }
        }
        let wanted = i16::from(channel.credit.is_left() && !channel.is_held) * POLLIN;
        if channel.is_held {
            self.held.insert(number);
        }
        if let Ok(descriptor) = channel.descriptor() {
            let _ = self.poller.modify(PollTarget::Fd(descriptor), wanted);
        }
    }

    /// Delivers a packet of a transfer's events, and answers if it is over.
    pub fn tell_events(&mut self, number: u32) {
        let may_have_more = self.files.has_transfer(number)
            && (self.output.waiting() > OUTPUT_MAX
                || self.files.deliver(number, &mut self.output, &self.answers.desk));
        if may_have_more {
            self.held.insert(number);
        }
    }

    /// Takes a client of guaranteed delivery away. What it has delivered and was not settled is settled by `verdict`.
    pub fn end_delivery(&mut self, number: u32, verdict: u8) -> Result<(), Refusal> {
        let Some(channel) = self.deliveries.get_mut(&number) else { return Ok(()) };
        channel.settle_all(verdict)?;
        self.held.remove(&number);
        if let Ok(descriptor) = channel.descriptor() {
            let _ = self.poller.remove(PollTarget::Fd(descriptor));
        }
        self.deliveries.remove(&number);
        Ok(())
    }

    /// After all that is ready was served.
    pub fn work(&mut self) {
        if !self.output.is_full() {
            self.deliver_held();
        }
        self.close_late();
        let channels = &self.channels;
        self.ending.end(|context| channels.values().any(|channel| channel.context == context));
        self.tell_room();
    }

    /// Delivers a packet of each held channel, while there is room in the output. The next time those come first that
    /// had no turn now: a part of a large message leaves no room.
    fn deliver_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let first = held.split_off(&self.turn);
        for number in first.into_iter().chain(held) {
            if self.output.waiting() > OUTPUT_MAX {
                self.held.insert(number);
            } else {
                self.turn = number.wrapping_add(1);
                self.deliver(number);
                self.pass_on(number);
                self.tell_events(number);
            }
        }
    }

    /// Tells the client what was taken: much at once, little after a moment.
    fn tell_room(&mut self) {
        let is_late = self.tell_at.is_some_and(|at| at <= Instant::now());
        let (channels, output) = (&mut self.channels, &mut self.output);
        self.took.retain(|&number| {
            let Some(channel) = channels.get_mut(&number) else { return false };
            if !is_late && channel.taken.octets < TOLD_OCTETS {
                return true;
            }
            let Taken { messages, octets } = std::mem::take(&mut channel.taken);
            output.put(ProgramPacket::Room { channel: number, messages, octets });
            false
        });
        if self.took.is_empty() {
            self.tell_at = None;
        }
    }

    /// Closes a channel; what waits is still sent, for the socket's linger.
    pub fn close(&mut self, number: u32, linger: Option<Duration>) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        channel.closes = Some(linger.and_then(|linger| Instant::now().checked_add(linger)));
        self.held.remove(&number);
        self.closing.insert(number);
        self.poll(number);
    }

    /// Ends the closed channels that have nothing left to send, or no time.
    fn close_late(&mut self) {
        let now = Instant::now();
        let is_done = |channel: &Channel| {
            !channel.has_waiting() || channel.closes.flatten().is_some_and(|closes| closes <= now)
        };
        let done: Vec<u32> = self
            .closing
            .iter()
            .copied()
            .filter(|number| self.channels.get(number).is_none_or(is_done))
            .collect();
        for number in done {
            self.closing.remove(&number);
            self.forget(number);
        }
    }

    /// Closes the socket of a channel.
    fn forget(&mut self, number: u32) {
        self.took.remove(&number);
        let Some(mut channel) = self.channels.remove(&number) else { return };
        let messages = channel.give_up();
        if messages > 0 {
            let errno = Errno::CANCELED.raw_os_error();
            self.output.put(ProgramPacket::Unsent { channel: number, messages, errno });
        }
        if self.polled.remove(&number).is_some() {
            let _ = self.poller.remove(PollTarget::Socket(channel.socket));
        }
        let _ = channel.socket.close();
    }

    /// Closes the sockets of a context, and ends it once they have sent what waits, within `linger`.
    pub fn end_context(&mut self, number: u32, linger: Option<Duration>) {
        let Some(context) = self.contexts.remove(&number) else { return };
        let of_context: Vec<u32> = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.context == number && channel.closes.is_none())
            .map(|(&number, _)| number)
            .collect();
        for channel in of_context {
            self.close(channel, linger);
        }
        self.ending.add(number, context, linger);
    }

    /// Sends what waits within `linger`, and ends all contexts. The client is gone.
    pub fn end(mut self, linger: Duration) {
        let Some(deadline) = Instant::now().checked_add(linger) else { return };
        let _ = self.poller.remove(PollTarget::Fd(self.input));
        let left = || deadline.saturating_duration_since(Instant::now());
        // Nothing is delivered any more.
        self.held.clear();
        let files = std::mem::take(&mut self.files).end();
        // Messages of guaranteed delivery are on the disk. What was delivered and not settled comes again.
        let clients: Vec<Arc<Client>> = self.deliveries.drain().map(|(_, channel)| channel.client).collect();
        for client in clients {
            let _ = client.close(Some(deadline));
        }
        let numbers: Vec<u32> = self.channels.keys().copied().collect();
        for number in numbers {
            self.close(number, Some(left()));
        }
        self.close_late();
        while !self.closing.is_empty() {
            let Ok(ready) = self.wait() else { break };
            for (source, _) in ready {
                if let Source::Channel(number) = source
                    && let Some(channel) = self.channels.get_mut(&number)
                {
                    channel.send_waiting(number, &mut self.output);
                    self.poll(number);
                }
            }
            self.close_late();
        }
        for context in self.contexts.into_values().chain(self.ending.into_contexts()) {
            while let Err(Error::Interrupted) = context.terminate_within(Some(left())) {}
        }
        let _ = files.recv_timeout(left());
    }
}
