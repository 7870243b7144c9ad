//! Messages to one: each stream of them is shared by the clients that listen on its topic.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pinnace_stream::RangeSet;

use super::PeerLoop;
use super::outward::{HeldBack, Report, SharedStream};
use crate::Error;
use crate::environment::now;
use crate::log::LogError;
use crate::properties::ordering_key_in;
use crate::registry::Lasting;
use crate::store::records::Receiver;
use crate::store::{Cause, Wanted};
use crate::wire::BEGINS;

/// The peer loop copies messages for a receiver without the feature while fewer than this many are pending for it.
const FEW: u64 = 64;
/// Bytes of bodies copied at once, unless the only message is larger.
const COPY_BYTES: usize = 64 << 10;

impl PeerLoop {
    /// Finds the receivers of a shared stream.
    pub(super) fn find_sharers(&mut self, stream: u32) {
        let state = self.store.lock();
        let Some(of) = state.outbox.get(stream) else { return };
        let (client, topic) = (of.record.client, of.record.topic.clone());
        let sender = state.clients[client as usize].clone();
        drop(state);
        let Some((_, members)) = self.members.iter().find(|(other, _)| *other == client) else { return };
        let members = members.clone();
        let others = |name: &&str| *name != sender.name;
        // Until the registry has answered, each receiver may be one of this topic.
        let has_answered = members.iter().chain(members.away()).next().is_some();
        let is_of_topic = |name: &str| match members.find(name) {
            Some(member) => member.listens_on(&topic),
            None => !has_answered,
        };
        let mut known = self.store.lock().known_receivers(client);
        known.retain(|name| is_of_topic(name));
        self.outward.begin_sharing(&self.store, stream, &known);
        for member in members.of_topic(&topic).filter(|member| others(&member.name.as_str())) {
            if let Some(peer) = self.connect(&sender, stream, &member.name, &member.endpoint) {
                self.outward.share(&self.store, stream, peer);
            }
        }
        for (peer, load) in self.outward.loads(stream) {
            let name = self.outward.peer(peer).map(|peer| peer.name.clone()).unwrap_or_default();
            // A receiver that the registry does not show may live: a registry can lose its entry.
            let Some(member) = members.find(&name).filter(|member| !member.listens_on(&topic)) else {
                continue;
            };
            self.outward.stop_sharing(stream, peer);
            if member.lasting == Lasting::Forgotten {
                self.outward.forget_receiver(&self.store, stream, peer);
            } else if load > 0 {
                // It may have started at another address, and is to report what it has.
                self.connect(&sender, stream, &name, &member.endpoint);
            }
        }
        self.move_at = Some(now());
    }

    /// Handles a Held: what a receiver has of a shared stream.
    pub(super) fn was_reported(&mut self, index: usize, stream: u32, report: &Report, done: &RangeSet) {
        let last = report.held.last().max(done.last());
        if !self.store.lock().may_have_given(stream, last) {
            return self.part(index);
        }
        // A failure of the log is reported elsewhere.
        let _ = self.store.mark_reported(&mut self.store.lock(), stream, done);
        let name = self.outward.peer(index).map(|peer| (peer.client, peer.name.clone()));
        if let Some((client, name)) = name {
            let _ = self.store.may_have_some(&mut self.store.lock(), client, &name);
        }
        self.outward.reported(&self.store, stream, index, report);
        self.outward.finished(&self.store, stream, Some((index, done)));
    }

    /// Handles an Ack.
    pub(super) fn was_acknowledged(&mut self, index: usize, stream: u32, done: &RangeSet) {
        let Some(name) = self.outward.peer(index).map(|peer| peer.name.clone()) else { return };
        let mut state = self.store.lock();
        if !state.may_have_given(stream, done.last()) {
            // The store would ignore all of it.
            return;
        }
        // A failure of the log is reported elsewhere.
        let _ = self.store.acknowledge(&mut state, stream, &name, done);
        drop(state);
        self.outward.finished(&self.store, stream, Some((index, done)));
    }

    /// Frees messages of receivers that were away for too long, and tells clients which messages wait for receivers.
    /// Returns when to call it again.
    pub(super) fn free_shared(&mut self) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for at in 0..self.inward.len() {
            let (client, patience) = (self.inward[at].client.number, self.inward[at].patience);
            let due = self.outward.free_shared(&self.store, client, patience);
            let (held_back, tell_at) = self.outward.take_held_back(&self.store, client);
            for HeldBack { topic, receivers } in held_back {
                let error = Error::HeldBack { topic, receivers, reassign_after: patience };
                self.notify(client, &error);
            }
            next = next.into_iter().chain(due).chain(tell_at).min();
        }
        next
    }

    /// Copies messages of shared streams for receivers that do not know shared streams.
    pub(super) fn copy_for_older(&mut self) {
        for (stream, peer) in self.outward.older() {
            // Without room now, it is tried again.
            let _ = self.copy_some(stream, peer);
        }
    }

    fn copy_some(&mut self, stream: u32, index: usize) -> Result<(), LogError> {
        let Some(peer) = self.outward.peer(index) else { return Ok(()) };
        let receiver = Receiver::Client(peer.name.clone());
        let (last, own, topic, client) = {
            let state = self.store.lock();
            let Some(of) = state.outbox.get(stream) else { return Ok(()) };
            let (client, topic) = (of.record.client, of.record.topic.clone());
            let own = state.outbox.find(client, &receiver, &topic);
            let pending = own.and_then(|own| state.outbox.get(own)).map_or(0, |own| own.pending());
            if pending >= FEW {
                return Ok(());
            }
            (of.record.last, own, topic, client)
        };
        let keeps_keys = self.outward.shared.get(&stream).is_some_and(SharedStream::has_receivers);
        let has_key = Cell::new(false);
        let skipped = self.outward.skipped_of(&self.store, stream);
        let first = skipped.next_missing(0);
        if first > last {
            return Ok(());
        }
        let wanted = Wanted {
            range: first..=last,
            enough_bytes: COPY_BYTES,
            filter: &|entry| {
                // A message with an ordering key goes to a receiver that gets all of them.
                if entry.flags & BEGINS != 0 {
                    has_key.set(ordering_key_in(entry.flags, entry.body).is_some());
                }
                !(skipped.contains(entry.seq) || keeps_keys && has_key.get())
            },
        };
        let found = self.store.messages(stream, &wanted)?;
        if found.list.is_empty() {
            return Ok(());
        }
        let own = match own {
            Some(own) => own,
            None => self.store.stream(&mut self.store.lock(), client, &receiver, &topic)?,
        };
        self.store.transfer(&mut self.store.lock(), stream, &found, own, Cause::Reassigned)?;
        self.outward.finished(&self.store, stream, None);
        self.outward.resume_shared(&self.store, stream);
        self.find(own);
        Ok(())
    }

    /// When shared streams and streams to receivers that are away are to be looked at again.
    pub(super) fn look_again(&mut self, wait: Option<Duration>) {
        let next = self.free_shared();
        self.move_at = wait.map(|wait| now() + wait).into_iter().chain(next).min();
    }
}
