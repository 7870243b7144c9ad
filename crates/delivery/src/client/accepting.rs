//! Accepts messages into the store: the waits for room, for the turn of a stream, and for an id.

use std::sync::MutexGuard;
use std::time::Duration;

use super::content::{Content, ToSend};
use super::routes::Route;
use super::{Client, Durability, Ticket};
use crate::Error;
use crate::environment::now;
use crate::log::{LogError, Urgency};
use crate::peer_loop::Command;
use crate::signal::Patience;
use crate::store::{IdState, Sending, SentId, State};
use crate::wire::COST;

/// The pause before a guard file is tried again for which there was no room.
const GUARD_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What has become of a message.
#[derive(Debug, Clone, Copy)]
enum Acceptance {
    InBatch(u64),
    /// A message with its id was sent before.
    Before(SentId),
}

/// Returns true if earlier builds would lose or damage the message. Without a receiver it is kept for those to come.
pub(super) fn needs_guard(content: &Content<'_>, route: &Route) -> bool {
    content.needs_guard() || route.receivers() == 0
}

impl Client {
    pub(super) fn send_with(&self, message: &ToSend<'_>, patience: Patience<'_>) -> Result<Ticket, Error> {
        let (content, durability) = (message.content(self.pack_from), message.options.durability);
        let store = &self.instance.store;
        if content.len() as u64 > store.log().largest() && durability != Durability::Memory {
            return Err(Error::TooLarge);
        }
        let urgency = match durability {
            Durability::Sync => Urgency::Sync,
            Durability::Interval | Durability::Memory => Urgency::Interval,
        };
        let (state, route) = self.with_room(patience, |state, opened| {
            let route = self.route(state, message.topic, message.options, opened)?;
            let needs_guard = durability != Durability::Memory && needs_guard(&content, &route);
            Ok((route, needs_guard))
        })?;
        let sending = message.sending(self.record.number, &route, (content.flags, &[]), urgency);
        let accepted = match content.parts() {
            _ if durability == Durability::Memory => self.hold(state, &sending, &content, patience)?,
            1 => {
                let (flags, body) = content.part(0);
                self.accept(state, &Sending { flags, body: &body, ..sending }, true, patience)?
            }
            _ => self.accept_parts(state, &sending, &content, patience)?,
        };
        Ok(match accepted {
            Acceptance::InBatch(batch) => Ticket::of(batch, route.receivers()),
            Acceptance::Before(sent) => sent.into(),
        })
    }

    /// Waits until no other thread sends parts of a message with this id. Returns the message with it that was sent
    /// before. None: the time is over.
    fn wait_for_id<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        patience: Patience<'_>,
    ) -> Option<(MutexGuard<'a, State>, Option<SentId>)> {
        let Some(id) = &sending.id else { return Some((state, None)) };
        loop {
            match state.sent.state_of(sending.client, id) {
                IdState::New => return Some((state, None)),
                IdState::Sent(sent) => return Some((state, Some(sent))),
                IdState::Underway => state = self.instance.store.wait_for_progress(state, patience)?,
            }
        }
    }

    /// Waits until no message is in the middle of its parts in the streams, and none with this id anywhere.
    #[inline]
    fn wait_for_turn<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        patience: Patience<'_>,
    ) -> Result<(MutexGuard<'a, State>, Option<SentId>), Error> {
        match sending.id.is_none() && !state.is_in_parts(sending.streams) {
            true => Ok((state, None)),
            false => self.wait_longer_for_turn(state, sending, patience),
        }
    }

    fn wait_longer_for_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        patience: Patience<'_>,
    ) -> Result<(MutexGuard<'a, State>, Option<SentId>), Error> {
        loop {
            state =
                self.instance.store.wait_for_end(state, sending.streams, patience).ok_or(Error::TimedOut)?;
            let (again, sent) = self.wait_for_id(state, sending, patience).ok_or(Error::TimedOut)?;
            // The streams may have been taken while the lock was released.
            if sent.is_some() || !again.is_in_parts(sending.streams) {
                return Ok((again, sent));
            }
            state = again;
        }
    }

    /// What `find` finds once there is room for the streams that it opens, and a guard file if it asks for one.
    pub(super) fn with_room<R>(
        &self,
        patience: Patience<'_>,
        find: impl FnMut(&mut State, &mut Vec<u32>) -> Result<(R, bool), Error>,
    ) -> Result<(MutexGuard<'_, State>, R), Error> {
        let mut opened = Vec::new();
        let found = self.find_with_room(patience, &mut opened, find);
        // Tell the peer loop even if this message fails: the streams exist now.
        opened.into_iter().for_each(|stream| self.instance.peer_loop.tell(Command::Stream(stream)));
        found
    }

    fn find_with_room<R>(
        &self,
        patience: Patience<'_>,
        opened: &mut Vec<u32>,
        mut find: impl FnMut(&mut State, &mut Vec<u32>) -> Result<(R, bool), Error>,
    ) -> Result<(MutexGuard<'_, State>, R), Error> {
        let store = &self.instance.store;
        loop {
            let mut state = store.lock();
            match find(&mut state, opened) {
                Ok((_, true)) if !store.log().is_guarded() => {
                    drop(state);
                    self.guard_with_room(patience)?;
                }
                Ok((found, _)) => return Ok((state, found)),
                Err(Error::NoRoom(_)) if store.drop_taken(&mut state) => {}
                Err(Error::NoRoom(_)) => {
                    drop(state);
                    self.wait_for_room(patience)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps earlier builds from opening the store, once there is room for the file.
    fn guard_with_room(&self, patience: Patience<'_>) -> Result<(), Error> {
        let store = &self.instance.store;
        loop {
            match store.log().guard() {
                Err(LogError::NoRoom(_)) if !patience.is_over() => {
                    let until = patience.until(Some(now() + GUARD_AGAIN_AFTER));
                    drop(store.wait_for_progress(store.lock(), until));
                }
                guarded => return Ok(guarded?),
            }
        }
    }

    /// Accepts a message of several parts, once there is room.
    fn accept_parts<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        content: &Content<'_>,
        patience: Patience<'_>,
    ) -> Result<Acceptance, Error> {
        let (store, streams) = (&self.instance.store, sending.streams);
        let (mut state, before) = self.wait_for_turn(state, sending, patience)?;
        if let Some(before) = before {
            return Ok(Acceptance::Before(before));
        }
        store.begin_parts(&mut state, streams);
        if let Some(id) = &sending.id {
            state.sent.begin(sending.client, id);
        }
        drop(state);
        let (mut sent, mut accepted) = (Ok(Acceptance::InBatch(0)), 0);
        for part in 0..content.parts() {
            let (flags, body) = content.part(part);
            sent = self.accept(store.lock(), &Sending { flags, body: &body, ..*sending }, false, patience);
            if sent.is_err() {
                break;
            }
            accepted += 1;
        }
        let left = if sent.is_ok() { 0 } else { accepted };
        let mut state = store.lock();
        if let Some(id) = &sending.id {
            state.sent.end(sending.client, id);
        }
        store.end_parts(&mut state, streams, left)?;
        sent
    }

    /// Accepts a message that is held in memory, once there is room.
    fn hold<'a>(
        &self,
        state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        content: &Content<'_>,
        patience: Patience<'_>,
    ) -> Result<Acceptance, Error> {
        let (store, parts) = (&self.instance.store, content.parts());
        let cost = (content.len() as u64 + parts as u64 * COST) * sending.streams.len() as u64;
        let most = self.memory_limit.saturating_sub(cost);
        let state = store.wait_for_memory(state, most, patience).ok_or_else(|| self.memory_shortage())?;
        let (mut state, before) = self.wait_for_turn(state, sending, patience)?;
        if let Some(before) = before {
            return Ok(Acceptance::Before(before));
        }
        // Under the lock: a client that ends drops what it holds after it.
        self.check_open()?;
        let mut is_news = false;
        for part in 0..parts {
            let (flags, body) = content.part(part);
            is_news |= store.hold(&mut state, &Sending { flags, body: &body, ..*sending });
        }
        drop(state);
        if is_news {
            self.instance.doorbell.ring();
        }
        Ok(Acceptance::InBatch(0))
    }

    /// Accepts a message, or a part of one that has begun, once there is room. `whole`: it is not a part.
    fn accept<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        whole: bool,
        patience: Patience<'_>,
    ) -> Result<Acceptance, Error> {
        let store = &self.instance.store;
        loop {
            while !store.log().is_calm() {
                drop(state);
                store.log().wait_until_calm(patience)?;
                state = store.lock();
            }
            if whole {
                let (again, before) = self.wait_for_turn(state, sending, patience)?;
                if let Some(before) = before {
                    return Ok(Acceptance::Before(before));
                }
                state = again;
            }
            match store.accept(&mut state, sending) {
                Ok(accepted) => return Ok(Acceptance::InBatch(accepted.batch)),
                Err(LogError::NoRoom(_)) if store.drop_taken(&mut state) => continue,
                Err(LogError::NoRoom(_)) => drop(state),
                Err(error) => return Err(error.into()),
            }
            self.wait_for_room(patience)?;
            state = store.lock();
        }
    }
}
