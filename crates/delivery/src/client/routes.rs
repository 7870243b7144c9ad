//! The receivers of each message.
//!
//! The messages to one of a topic are in one stream, which the clients that listen on the topic share: the peer loop
//! gives each to one that asks for it. A message to all goes to each client that listens,
//! and to each that is known to have listened and has not ended its subscription. The sender's own store knows these: a
//! stream to each of them is opened when the registry first shows it, and it is left out only when the registry shows
//! the client without the topic. A client that a registry does not show may live, since a registry can lose its entry.
//! If no receiver is known, a message to all is kept, and each client that listens later inherits it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use foldhash::HashMap;

use super::{Client, Durability, Options};
use crate::Error;
use crate::log::LogError;
use crate::registry::{Member, Members, NO_ID};
use crate::store::records::{Receiver, SeenEntry, StreamRecord};
use crate::store::{State, Store};

/// The streams of each topic.
#[derive(Default)]
pub(super) struct Routes {
    members: Arc<Members>,
    /// For messages to one, and for messages to all.
    to_one: HashMap<String, u32>,
    to_all: HashMap<String, Receivers>,
    /// As `to_all`, for messages that are held in memory.
    held_to_all: HashMap<String, Receivers>,
    /// Topics on which messages were sent to all.
    published: BTreeSet<String>,
}

/// The client that sends.
pub(super) struct Publisher<'a> {
    pub store: &'a Store,
    pub client: u32,
    pub name: &'a str,
}

/// The streams of a message to all.
#[derive(Clone)]
pub(super) struct Receivers {
    streams: Arc<[u32]>,
    /// How many of them have a receiver; the other one, if any, is kept for those to come.
    count: usize,
}

/// The streams of one message.
pub(super) enum Route {
    One(u32),
    All(Receivers),
}

impl Route {
    pub(super) fn streams(&self) -> &[u32] {
        match self {
            Route::One(stream) => std::slice::from_ref(stream),
            Route::All(receivers) => &receivers.streams,
        }
    }

    /// The number of receivers of a message to all; of one to a single client, 1.
    pub(super) fn receivers(&self) -> usize {
        match self {
            Route::One(_) => 1,
            Route::All(receivers) => receivers.count,
        }
    }
}

impl Routes {
    /// Replaces the members. Records which receivers have ended a subscription, and opens streams to those that have
    /// begun one, so that they are known even if the registry loses them.
    pub(super) fn change(
        &mut self,
        publisher: &Publisher<'_>,
        state: &mut State,
        members: Arc<Members>,
    ) -> Result<(), LogError> {
        self.members = members;
        self.to_all.clear();
        self.held_to_all.clear();
        self.published.extend(state.outbox.kept_topics(publisher.client));
        publisher.note_left(state, &self.members)?;
        for topic in &self.published {
            if !publisher.listeners(&self.members, topic).is_empty() {
                publisher.streams_to_all(state, &self.members, topic, &Receiver::Later)?;
            }
        }
        Ok(())
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }
}

/// The entry that a registry shows of a receiver. None: it is older than the one seen before, since the registry has
/// come back with what it held earlier.
fn latest(seen: SeenEntry, member: &Member) -> Option<SeenEntry> {
    // An entry that was given back or cleared has no id.
    let id = member.id.filter(|id| *id != NO_ID).unwrap_or(seen.id);
    let is_same = id == seen.id || seen.id == NO_ID;
    let is_old = is_same && member.version > 0 && member.version < seen.version;
    (!is_old).then_some(SeenEntry { id, version: member.version })
}

impl Publisher<'_> {
    /// Records for each stream whether its receiver has ended its subscription. One that the registry does not show, or
    /// shows with an older entry, has not.
    fn note_left(&self, state: &mut State, members: &Members) -> Result<(), LogError> {
        let own =
            state.outbox.iter().map(|stream| &stream.record).filter(|record| record.client == self.client);
        let left = |record: &StreamRecord| match &record.receiver {
            Receiver::Client(name) => {
                let member = members.find(name)?;
                let seen = latest(record.seen, member)?;
                Some((record.number, !member.listens_on(&record.topic), seen))
            }
            Receiver::Anyone | Receiver::Later => None,
        };
        let all: Vec<(u32, bool, SeenEntry)> = own.filter_map(left).collect();
        all.into_iter().try_for_each(|(stream, left, seen)| self.store.set_left(state, stream, left, seen))
    }

    /// The other clients that listen on a topic, and those that listened until they died.
    fn listeners(&self, members: &Members, topic: &str) -> Vec<String> {
        let all = members.of_topic(topic).chain(members.away_from(topic));
        all.map(|member| member.name.clone()).filter(|name| name != self.name).collect()
    }

    /// The streams of a message to all. `nobody`: the receiver of the message if none is known.
    fn streams_to_all(
        &self,
        state: &mut State,
        members: &Members,
        topic: &str,
        nobody: &Receiver,
    ) -> Result<Vec<u32>, LogError> {
        for name in self.listeners(members, topic) {
            let receiver = Receiver::Client(name.clone());
            let stream = self.store.stream_of_listener(state, self.client, &receiver, topic)?;
            let seen = state.outbox.get(stream).map(|of| of.record.seen).unwrap_or_default();
            if let Some(seen) = members.find(&name).and_then(|member| latest(seen, member)) {
                self.store.set_left(state, stream, false, seen)?;
            }
        }
        let known = state.outbox.listening_on(self.client, topic);
        if known.is_empty() {
            Ok(vec![self.store.stream(state, self.client, nobody, topic)?])
        } else {
            Ok(known)
        }
    }
}

impl Client {
    /// This client as a sender.
    fn as_publisher(&self) -> Publisher<'_> {
        Publisher { store: &self.instance.store, client: self.record.number, name: &self.record.name }
    }

    /// The streams for a message.
    pub(super) fn route(
        &self,
        state: &mut State,
        topic: &str,
        options: &Options,
        opened: &mut Vec<u32>,
    ) -> Result<Route, Error> {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if options.all {
            return self.route_to_all(&mut routes, state, topic, options.durability, opened);
        }
        if let Some(stream) = routes.to_one.get(topic) {
            return Ok(Route::One(*stream));
        }
        let stream = self.instance.store.stream(state, self.record.number, &Receiver::Anyone, topic)?;
        opened.push(stream);
        routes.to_one.insert(topic.to_owned(), stream);
        Ok(Route::One(stream))
    }
}

impl Client {
    fn route_to_all(
        &self,
        routes: &mut Routes,
        state: &mut State,
        topic: &str,
        durability: Durability,
        opened: &mut Vec<u32>,
    ) -> Result<Route, Error> {
        // What is held in memory is not kept for several: it goes to the first.
        let (cached, nobody) = match durability {
            Durability::Memory => (&mut routes.held_to_all, Receiver::Anyone),
            Durability::Sync | Durability::Interval => (&mut routes.to_all, Receiver::Later),
        };
        if let Some(receivers) = cached.get(topic) {
            return Ok(Route::All(receivers.clone()));
        }
        let streams = self.as_publisher().streams_to_all(state, &routes.members, topic, &nobody)?;
        opened.extend_from_slice(&streams);
        let has_receiver = |stream: &&u32| {
            let of = state.outbox.get(**stream).map(|stream| &stream.record.receiver);
            matches!(of, Some(Receiver::Client(_)))
        };
        let receivers =
            Receivers { count: streams.iter().filter(has_receiver).count(), streams: streams.into() };
        cached.insert(topic.to_owned(), receivers.clone());
        routes.published.insert(topic.to_owned());
        Ok(Route::All(receivers))
    }
}

#[cfg(test)]
impl Client {
    /// The members that it knows, with their topics and versions, and the streams of its store.
    pub(crate) fn describe_routes(&self) -> String {
        let (routes, state) = (self.routes.lock().unwrap(), self.instance.store.lock());
        let show = |member: &Member| format!("{} {:?} v{:x}", member.name, member.topics, member.version);
        let living: Vec<String> = routes.members.iter().map(show).collect();
        let away: Vec<String> = routes.members.away().map(show).collect();
        let stream = |record: &StreamRecord| {
            let left = if record.left { " left" } else { "" };
            format!("{:?} {}{left} v{:x}", record.receiver, record.topic, record.seen.version)
        };
        let streams: Vec<String> = state.outbox.iter().map(|of| stream(&of.record)).collect();
        format!("living {living:?}, away {away:?}, streams {streams:?}")
    }
}
