//! SUB and XSUB: messages of the topics that were subscribed to, from all publishers in turn (RFC 29).
//!
//! Topics are counted: what was subscribed to twice has to be unsubscribed from twice. Each subscription is
//! sent to all publishers that are connected, the end of one when it is the last of its topic, and all topics
//! to each publisher whose connection comes (again). Subscriptions are sent even to a publisher that takes no
//! more, and are never dropped.
//!
//! A SUB drops what matches none of its topics, whatever publishers send (ZMQ_INVERT_MATCHING: what does
//! match), and sends nothing. An XSUB hands out everything. Its application subscribes by sending `1 topic`,
//! and unsubscribes by `0 topic`; any other message goes to all publishers as it is, but to those that take
//! no more. A frame is a subscription by what it begins with, whichever frame of its message it is; with
//! ZMQ_ONLY_FIRST_SUBSCRIBE that is asked of a message's first frame, and of the others only where that one is a
//! subscription.

use pinnace_ring::{Frame, MORE, NoMemory};
use pinnace_zmtp::subscription;

use super::Pattern;
use super::fair::Fair;
use super::kept::Kept;
use super::radix::{Radix, Value};
use super::spread::Spread;
use crate::drops::Reason;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// How often a topic was subscribed to.
#[derive(Default)]
struct Count(u32);

impl Value for Count {
    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// What the message is that an XSUB's application is sending.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Sending {
    #[default]
    Nothing,
    /// It began with a subscription: its further frames may be some too.
    Subscriptions,
    Message,
}

#[derive(Default)]
pub(super) struct Subscribe {
    is_sub: bool,
    invert: bool,
    only_first: bool,
    /// Unsubscribing is told although others of our application want the topic still, or nobody did.
    verbose_unsubscribe: bool,
    topics: Radix<Count>,
    /// The publishers that have been sent the topics, and are sent what changes.
    told: Vec<PipeId>,
    fair: Fair,
    /// The first frame of a message that was looked for before anybody received.
    ahead: Option<Kept>,
    /// Memory for the next `ahead`.
    spare: Kept,
    sending: Sending,
    spread: Spread,
    /// The command that is being sent.
    command: Vec<u8>,
}

impl Subscribe {
    pub(super) fn for_sub() -> Subscribe {
        Subscribe { is_sub: true, ..Subscribe::default() }
    }

    pub(super) fn for_xsub() -> Subscribe {
        Subscribe::default()
    }

    fn change(&mut self, pipes: &mut Pipes, topic: &[u8], on: bool) -> Result<(), Error> {
        let is_sent = if on { self.add(topic)? } else { self.remove(topic) || self.verbose_unsubscribe };
        if !is_sent {
            return Ok(());
        }
        write_command(&mut self.command, on)?;
        self.command.try_reserve(topic.len()).map_err(|_| NoMemory)?;
        self.command.extend_from_slice(topic);
        let mut result = Ok(());
        for &id in &self.told {
            result = pipes.push_command(id, &self.command).and(result);
        }
        Ok(result?)
    }

    fn add(&mut self, topic: &[u8]) -> Result<bool, NoMemory> {
        let node = self.topics.insert(topic)?;
        let count = self.topics.value_mut(node);
        count.0 = count.0.saturating_add(1);
        Ok(true)
    }

    /// True: it was the last of its topic.
    fn remove(&mut self, topic: &[u8]) -> bool {
        let Some(node) = self.topics.find(topic) else { return false };
        let count = self.topics.value_mut(node);
        if count.0 != 1 {
            count.0 = count.0.saturating_sub(1);
            return false;
        }
        count.0 = 0;
        self.topics.prune(node);
        true
    }

    /// Sends all topics to a publisher, in place of what waits for it to come back.
    fn send_topics(&mut self, pipes: &mut Pipes, id: PipeId) -> Result<(), NoMemory> {
        pipes.restart_commands(id)?;
        for node in self.topics.nodes() {
            write_command(&mut self.command, true)?;
            self.topics.append_topic(node, &mut self.command)?;
            pipes.push_command(id, &self.command)?;
        }
        Ok(())
    }

    /// Receives the first frame of the next message that passes the filter.
    #[inline(always)]
    fn recv_first(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        loop {
            let mut passes = true;
            let (topics, is_sub, invert) = (&self.topics, self.is_sub, self.invert);
            let (id, more) = self.fair.recv(pipes, &mut |frame| {
                if is_sub {
                    passes = topics.prefixes(frame.data()).any(|count| count.0 > 0) != invert;
                }
                if passes {
                    sink(frame);
                }
            })?;
            if passes {
                return Ok(more);
            }
            self.fair.skip_rest(pipes);
            pipes.count_drop(Some(id), Reason::Unwanted, 1);
        }
    }

    /// Takes the first frame of the next message out of its pipe, so that it is certain that there is one.
    fn look_ahead(&mut self, pipes: &mut Pipes) -> bool {
        loop {
            let mut kept = std::mem::take(&mut self.spare);
            let mut result = Ok(());
            let received =
                self.recv_first(pipes, &mut |frame| result = kept.keep(frame.flags() & MORE, frame));
            if received.is_err() {
                self.spare = kept;
                return false;
            }
            if result.is_ok() {
                kept.set_about(pipes.about());
                self.ahead = Some(kept);
                return true;
            }
            self.fair.skip_rest(pipes);
            pipes.count_drop(None, Reason::NoMemory, 1);
        }
    }

    /// What the frame is that an XSUB's application sends.
    fn classify(&mut self, pipes: &mut Pipes, frame: &[u8]) -> Sending {
        if subscription::from_message(frame).is_some() {
            return Sending::Subscriptions;
        }
        self.start_spread(pipes);
        Sending::Message
    }

    /// A subscription inside a message travels with it; what it says holds for publishers that come later too.
    fn note_subscription(&mut self, frame: &[u8]) -> Result<(), NoMemory> {
        match subscription::from_message(frame) {
            Some((true, topic)) if !self.only_first => _ = self.add(topic)?,
            Some((false, topic)) if !self.only_first => _ = self.remove(topic),
            _ => {}
        }
        Ok(())
    }

    fn start_spread(&mut self, pipes: &mut Pipes) {
        let targets = self.spread.targets();
        targets.clear();
        targets.extend_from_slice(&self.told);
        self.spread.leave_out_full(pipes);
    }

    /// Sends a frame of a message that began with a subscription; one that is none goes as a message of its
    /// own.
    fn send_subscription(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>) -> Result<(), Error> {
        if let Some((on, topic)) = subscription::from_message(frame.data()) {
            return self.change(pipes, topic, on);
        }
        self.start_spread(pipes);
        self.spread.send(pipes, frame, false)
    }
}

impl Pattern for Subscribe {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
        self.up(pipes, id);
    }

    /// The topics wait in a new pipe for its connection; only after a reconnect do they have to be sent
    /// again, all of them.
    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.told.contains(&id) {
            return;
        }
        self.told.push(id);
        if self.send_topics(pipes, id).is_err() {
            pipes.count_drop(Some(id), Reason::NoMemory, 1);
        }
    }

    fn down(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.lose(pipes, id);
        self.told.retain(|&other| other != id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.down(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.forget(pipes, id);
        self.told.retain(|&other| other != id);
        let was_inside = self.fair.is_inside();
        self.fair.remove(id);
        if was_inside && !self.fair.is_inside() {
            self.ahead = None;
        }
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if self.is_sub {
            return Err(Error::NotSupported);
        }
        if self.sending == Sending::Nothing {
            self.sending = self.classify(pipes, frame.data());
        }
        match self.sending {
            Sending::Message => {
                self.note_subscription(frame.data())?;
                self.spread.send(pipes, frame, more)?;
            }
            _ => self.send_subscription(pipes, frame)?,
        }
        if !more {
            self.sending = Sending::Nothing;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.sending = Sending::Nothing;
        self.spread.abort(pipes);
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if let Some(mut kept) = self.ahead.take() {
            kept.hand(pipes, sink);
            self.spare = kept;
            return Ok(self.spare.flags() & MORE != 0);
        }
        if self.fair.is_inside() {
            return self.fair.recv(pipes, sink).map(|(_, more)| more);
        }
        self.recv_first(pipes, sink)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        !self.is_sub
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        if !self.is_sub {
            return self.fair.choose(pipes).is_some();
        }
        self.ahead.is_some() || self.fair.is_inside() || self.look_ahead(pipes)
    }

    fn subscribe(&mut self, pipes: &mut Pipes, topic: &[u8], on: bool) -> Result<(), Error> {
        if !self.is_sub {
            return Err(Error::Invalid);
        }
        self.change(pipes, topic, on)
    }

    fn unread(&self) -> u64 {
        self.ahead.as_ref().is_some_and(|kept| kept.flags() & MORE == 0).into()
    }

    fn topics(&self) -> usize {
        self.topics.nodes().count()
    }

    fn configure(&mut self, options: &Options) {
        self.invert = options.invert_matching;
        self.only_first = options.only_first_subscribe;
        self.verbose_unsubscribe = options.xsub_verbose_unsubscribe;
    }
}

/// Begins the command that subscribes, or unsubscribes; the topic follows.
fn write_command(into: &mut Vec<u8>, on: bool) -> Result<(), NoMemory> {
    let name: &[u8] = if on { b"\x09SUBSCRIBE" } else { b"\x06CANCEL" };
    into.clear();
    into.try_reserve(name.len()).map_err(|_| NoMemory)?;
    into.extend_from_slice(name);
    Ok(())
}
