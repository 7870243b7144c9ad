//! Clients that were removed: their last progress is logged, and acknowledged once it is on the disk.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::inward::Inward;
use super::{PeerLoop, TURN};
use crate::environment::now;

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
        let removed: Vec<Inward> =
            self.inward.extract_if(.., |inward| inward.client.number == client).collect();
        for mut inward in removed {
            let batch = inward.note_last(&self.store);
            self.leaving.push(Leaving { inward, batch, until: now() + LAST_WORD, done: done.clone() });
        }
        self.outward.remove_client(client);
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
