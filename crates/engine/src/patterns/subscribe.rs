//! SUB and XSUB: receive the messages of subscribed topics, fairly from all publishers (RFC 29).
//!
//! Subscriptions are counted: a topic subscribed to twice has to be unsubscribed from twice. Each subscription is
//! sent to all connected publishers, an unsubscription only when it is the topic's last. Each new connection is sent
//! all topics. Subscriptions are sent even above the high-water mark and are never dropped.
//!
//! A SUB drops messages that match none of its topics, whatever publishers send (ZMQ_INVERT_MATCHING: messages that
//! match one), and sends nothing. An XSUB receives everything. Its application subscribes by sending `1 topic` and
//! unsubscribes by sending `0 topic`; any other message goes unchanged to all publishers that have room. Any frame of
//! a message may be a subscription, recognized by its first byte. With ZMQ_ONLY_FIRST_SUBSCRIBE only first frames are
//! examined, and later frames only if the first was a subscription.

use pinnace_ring::{Frame, MORE, NoMemory};
use pinnace_zmtp::subscription;

use super::Pattern;
use crate::drops::Reason;
use crate::error::{Error, Invalid};
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Announced, Fair, Kept, Radix, Spread, Value};

/// Number of subscriptions to a topic.
#[derive(Default)]
struct Count(u32);

impl Value for Count {
    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// The kind of message that the application of an XSUB is sending.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum SubscribeSend {
    #[default]
    Nothing,
    /// It began with a subscription, and its further frames may be subscriptions too.
    Subscriptions,
    Message,
}

#[derive(Default)]
pub(super) struct Subscribe {
    is_sub: bool,
    invert: bool,
    only_first: bool,
    /// Sends every unsubscription, even if the topic has other subscriptions or had none.
    verbose_unsubscribe: bool,
    topics: Radix<Count>,
    announced: Announced,
    fair: Fair,
    /// The first frame of a matching message, read ahead to answer `can_recv`.
    ahead: Option<Kept>,
    /// Buffer for the next `ahead`.
    spare: Kept,
    sending: SubscribeSend,
    spread: Spread,
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
        let told = self.announced.change(pipes, |command| {
            write_command(command, on)?;
            command.try_reserve(topic.len()).map_err(|_| NoMemory)?;
            command.extend_from_slice(topic);
            Ok(())
        });
        Ok(told?)
    }

    fn add(&mut self, topic: &[u8]) -> Result<bool, NoMemory> {
        let node = self.topics.insert(topic)?;
        let count = self.topics.value_mut(node);
        count.0 = count.0.saturating_add(1);
        Ok(true)
    }

    /// Returns true if this was the topic's last subscription.
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

    /// Reads the first frame of the next matching message ahead. False if there is none.
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

    /// Classifies the first frame of a message from the application of an XSUB.
    fn classify(&mut self, pipes: &mut Pipes, frame: &[u8]) -> SubscribeSend {
        if subscription::from_message(frame).is_some() {
            return SubscribeSend::Subscriptions;
        }
        self.start_spread(pipes);
        SubscribeSend::Message
    }

    /// A subscription inside a message travels with it, but is also recorded for publishers that connect later.
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
        targets.extend_from_slice(self.announced.peers());
        self.spread.leave_out_full(pipes);
    }

    /// Sends a frame of a message that began with a subscription. Other frames go out as messages of their own.
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

    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        let topics = &self.topics;
        self.announced.connect(pipes, id, topics.nodes(), |node, command| {
            write_command(command, true)?;
            topics.append_topic(node, command)
        });
    }

    fn down(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.lose(pipes, id);
        self.announced.forget(id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.down(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.forget(pipes, id);
        self.announced.forget(id);
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
        if self.sending == SubscribeSend::Nothing {
            self.sending = self.classify(pipes, frame.data());
        }
        match self.sending {
            SubscribeSend::Message => {
                self.note_subscription(frame.data())?;
                self.spread.send(pipes, frame, more)?;
            }
            _ => self.send_subscription(pipes, frame)?,
        }
        if !more {
            self.sending = SubscribeSend::Nothing;
        }
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.sending = SubscribeSend::Nothing;
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
            return Err(Error::Invalid(Invalid::OptionOfOtherType));
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

/// Begins a SUBSCRIBE or CANCEL command; the caller appends the topic.
fn write_command(into: &mut Vec<u8>, on: bool) -> Result<(), NoMemory> {
    let name: &[u8] = if on { b"\x09SUBSCRIBE" } else { b"\x06CANCEL" };
    into.try_reserve(name.len()).map_err(|_| NoMemory)?;
    into.extend_from_slice(name);
    Ok(())
}
