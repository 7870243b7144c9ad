//! Clients that were removed: their last progress is logged, and acknowledged once it is on the disk.

use std::collections::HashSet;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::inward::Inward;
use super::{PeerLoop, TURN};
use crate::environment::now;
use crate::store::records::Receiver;

/// How long a client waits for its last acknowledgements: first for the disk, then for sending.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A client that was removed.
pub struct Leaving {
    inward: Inward,
    /// The batch with its last progress; None: it has none.
    batch: Option<u64>,
    until: Instant,
    /// Told when it has left.
    done: Sender<()>,
}

impl Leaving {
    pub fn until(&self) -> Instant {
        self.until
    }
}

impl PeerLoop {
    pub(super) fn remove(&mut self, client: u32, done: &Sender<()>) {
        // Log and acknowledge handled messages.
        let _ = self.note_handled();
        self.members.retain(|(other, _)| *other != client);
        self.unreachable.retain(|(other, _), _| *other != client);
        let state = self.store.lock();
        self.in_use.retain(|stream| state.outbox.get(*stream).is_some_and(|of| of.record.client != client));
        drop(state);
        let removed: Vec<Inward> =
            self.inward.extract_if(.., |inward| inward.client.number == client).collect();
        for mut inward in removed {
            let batch = inward.note_last(&self.store);
            self.leaving.push(Leaving { inward, batch, until: now() + LAST_WORD, done: done.clone() });
        }
        // Without the record, the next opening waits until these receivers have reported.
        let _ = self.store.end_with(client, &self.busy_receivers(client));
        self.outward.remove_client(client);
    }

    /// The receivers that may have messages to one that a client has sent.
    fn busy_receivers(&self, client: u32) -> HashSet<String> {
        let state = self.store.lock();
        let own = state.outbox.iter().filter(|of| of.record.client == client);
        let shared: Vec<(u32, bool)> = own
            .filter(|of| matches!(of.record.receiver, Receiver::Anyone))
            .map(|of| (of.record.number, of.pending() > 0))
            .collect();
        let known = state.known_receivers(client);
        drop(state);
        let mut busy = HashSet::new();
        for (stream, is_pending) in shared {
            match self.outward.shared.get(&stream) {
                Some(shared) => busy.extend(shared.unreported().iter().cloned()),
                // Its receivers were not looked for.
                None if is_pending => busy.extend(known.iter().cloned()),
                None => {}
            }
            let loaded = self.outward.loads(stream).into_iter().filter(|(_, load)| *load > 0);
            let peers = loaded.filter_map(|(index, _)| self.outward.peers.get(index)?.as_ref());
            busy.extend(peers.map(|peer| peer.name.clone()));
        }
        busy
    }

    /// Ends the clients whose last progress is on the disk, or waited too long for it.
    pub(super) fn end_leaving(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let progress = self.store.log().progress();
        let durable = progress.as_ref().map_or(0, |(_, durable)| *durable);
        let is_over = |leaving: &mut Leaving| {
            progress.is_err() || leaving.until <= now() || leaving.batch.is_none_or(|batch| batch <= durable)
        };
        let over: Vec<Leaving> = self.leaving.extract_if(.., is_over).collect();
        for Leaving { mut inward, batch, done, .. } in over {
            inward.say_last(&self.store, durable, batch.is_some(), LAST_WORD);
            drop(inward);
            // An error means that nobody waits.
            let _ = done.send(());
        }
    }

    /// Takes frames for a client that was removed. Its senders send them again.
    pub(super) fn ignore(&mut self, client: u32) -> bool {
        let leaving = self.leaving.iter_mut().find(|leaving| leaving.inward.client.number == client);
        leaving.is_some_and(|leaving| leaving.inward.ignore(TURN))
    }
}
