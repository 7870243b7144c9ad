//! The socket's ends of its pipes. A pipe has one outgoing and one incoming queue to a peer.
//!
//! A pipe leads to a link (a connection, or the attempt at one), or to another socket of the same context (inproc).
//! Patterns see no difference: they push frames and commit, pop frames, and are called when a pipe becomes readable
//! or writable. Work that must be done outside the socket's lock (writing to the kernel, reading on, dropping bodies)
//! goes to `Pipes::deferred`.
//!
//! Rules for patterns:
//! - `has_room` precedes `push` of a message's first frame, and `commit` (or `rollback`) follows the last. `begin`
//!   does all three for a message of one frame;
//! - a pipe may leave the list of writable pipes only after `want_room` has returned false;
//! - a pipe may leave the list of readable pipes only after `park` has returned true;
//! - a body is taken out of its frame only to be handed on or kept, never to be dropped. A body left in the frame is
//!   dropped after the lock is released, because a free function of the application may run then, and call the
//!   socket. A kept body that is no longer needed goes to `discard`.

mod end;
mod outgoing;
mod traffic;

use std::sync::Arc;

use pinnace_ring::{Body, COMMAND, Frame, MORE, NoMemory, prefetch};
use smallvec::SmallVec;

use crate::drops::{Drops, Reason};
use crate::label::Label;
use crate::link::{self, AfterCommit, Link};
use crate::mailbox::{Mailbox, Notice};
use crate::peer::About;
pub(crate) use end::Far;
pub use end::Pipe;
pub use outgoing::Outgoing;
pub use traffic::Traffic;
pub(crate) use traffic::traffic;

/// A pipe of one socket. The id is reused after the pipe's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PipeId(pub u32);

/// Work to be done after the socket's lock is released.
pub(crate) enum Deferred {
    /// Write the unwritten messages.
    Flush(Arc<Link>),
    /// Wait briefly for the kernel to take more.
    Pace(Arc<Link>),
    /// The link's incoming queue has room again.
    ReadOn(Arc<Link>),
    /// Drop a body that was not taken: its owner's code may run.
    Drop(Body),
    /// Drop a pipe that has ended, and the messages in it that were not received.
    Part(Box<Pipe>),
    /// End a pipe's connection once what was sent into it is written, and do not reconnect.
    HangUp(PipeId),
    /// Have a socket handle its notices, as there may be no thread inside it: the other socket of a new inproc pipe,
    /// so that it sends its first messages, or this socket (`Unlinked`).
    Visit(Arc<Mailbox>),
    /// The pattern has not read a pipe to its end: post `Readable` again.
    LookAgain(PipeId),
    /// A message was put into a pipe without a connection. If a notice says that it has one by now, handle it;
    /// otherwise the message stays unwritten until the socket's next call.
    Unlinked,
}

/// Mostly few, and then without a heap allocation.
pub(crate) type DeferredList = SmallVec<[Deferred; 2]>;

/// All pipes of one socket.
#[derive(Default)]
pub struct Pipes {
    list: Vec<Option<Box<Pipe>>>,
    pub(crate) deferred: DeferredList,
    /// A message was received since the last send. So the next send is an answer, and is written at once.
    pub(crate) received_since_send: bool,
    /// The label of the message that is being sent.
    pub sending: Label,
    /// The label of the message received last, if the pattern sets it.
    pub received: Label,
    /// The origin of the frame received last.
    origin: FrameOrigin,
    /// The socket's lost messages.
    pub(crate) drops: Drops,
    /// Traffic of the pipes that have ended: in, out.
    past: (Traffic, Traffic),
    /// The number of pipes created so far.
    count: u64,
}

/// The origin of a frame.
#[derive(Default)]
enum FrameOrigin {
    #[default]
    Nowhere,
    Pipe(PipeId),
    /// A pipe that may have ended.
    Peer(Option<Arc<About>>),
}

impl Pipes {
    pub(crate) fn insert(&mut self, id: PipeId, mut pipe: Pipe) {
        let index = id.0 as usize;
        self.count += 1;
        pipe.number = self.count;
        if self.list.len() <= index {
            self.list.resize_with(index + 1, || None);
        }
        self.list[index] = Some(Box::new(pipe));
    }

    pub(crate) fn remove(&mut self, id: PipeId) {
        if let Some(mut pipe) = self.list.get_mut(id.0 as usize).and_then(Option::take) {
            if pipe.rx.queue.is_stopped() {
                let mut left = Vec::new();
                self.drops.add(Reason::Unread, pipe.drain(&mut left));
                left.into_iter().for_each(|body| self.discard(body));
            }
            let (received, sent) = traffic::past(&pipe);
            self.past.0.add_past(received);
            self.past.1.add_past(sent);
            self.deferred.push(Deferred::Part(pipe));
        }
    }

    /// The pipe, if it exists.
    #[inline(always)]
    pub fn get(&mut self, id: PipeId) -> Option<&mut Pipe> {
        self.list.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Traffic of the pipes that have ended: in, out.
    pub(crate) fn past(&self) -> (Traffic, Traffic) {
        self.past
    }

    /// Counts a popped frame that was a command, not part of a message: a subscription, say.
    pub fn was_command(&mut self, id: PipeId) {
        if let Some(pipe) = self.get(id) {
            pipe.commands_in += 1;
        }
    }

    /// The ids of all pipes.
    pub fn ids(&self) -> impl Iterator<Item = PipeId> + '_ {
        let there = self.list.iter().enumerate().filter(|(_, pipe)| pipe.is_some());
        there.map(|(index, _)| PipeId(index as u32))
    }

    /// Whether a message can be sent into the pipe.
    #[inline(always)]
    pub fn has_room(&mut self, id: PipeId) -> bool {
        self.get(id).is_some_and(|pipe| !pipe.ended && pipe.tx.queue.has_room())
    }

    /// Asks for a `writable` call when there is room. True: there is room already, and no call follows.
    pub fn want_room(&mut self, id: PipeId) -> bool {
        self.get(id).is_some_and(|pipe| !pipe.ended && pipe.tx.queue.want_room())
    }

    /// Puts a frame in, which becomes visible with `commit`. A pipe that does not exist drops the frame.
    #[inline(always)]
    pub fn push(&mut self, id: PipeId, frame: &Outgoing<'_>, more: bool) -> Result<(), NoMemory> {
        self.get(id).map_or(Ok(()), |pipe| pipe.push(frame, more))
    }

    /// Prefetches what the next message into `next` needs, and the pipe of a message after that, `later`.
    #[inline(always)]
    pub fn prefetch_next(&self, next: PipeId, later: PipeId) {
        if let Some(Some(pipe)) = self.list.get(later.0 as usize) {
            prefetch(&raw const **pipe, size_of::<Pipe>());
        }
        if let Some(Some(pipe)) = self.list.get(next.0 as usize) {
            pipe.prefetch_next();
        }
    }

    /// Puts the first frame of a message in, and commits if it is the only one. False: the pipe has no room.
    #[inline(always)]
    pub fn begin(&mut self, id: PipeId, frame: &Outgoing<'_>, more: bool) -> Result<bool, NoMemory> {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return Ok(false) };
        if pipe.ended || !pipe.tx.queue.has_room() {
            return Ok(false);
        }
        if more {
            return pipe.push(frame, true).map(|()| true);
        }
        pipe.push_last(frame)?;
        let received_since_send = std::mem::take(&mut self.received_since_send);
        if pipe.tx.keeps_newest() {
            self.publish_newest(id);
        } else {
            pipe.publish(received_since_send, &mut self.deferred);
        }
        Ok(true)
    }

    /// Sends a command as a message of its own. `body`: the command's body in its wire form for a 3.1 peer.
    pub fn push_command(&mut self, id: PipeId, body: &[u8]) -> Result<(), NoMemory> {
        let Some(pipe) = self.get(id) else { return Ok(()) };
        pipe.tx.queue.push(COMMAND, body)?;
        pipe.commands_out += 1;
        self.commit(id);
        Ok(())
    }

    /// Commands that were pushed before and are still unwritten belong to an earlier connection of the pipe, and are
    /// not sent.
    pub fn restart_commands(&mut self, id: PipeId) -> Result<(), NoMemory> {
        match self.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(Some(link))) if link.config.connection > 0 => {
                let restart = link::restart(link.config.connection);
                self.push_command(id, &restart)
            }
            _ => Ok(()),
        }
    }

    /// Reads what the peer has sent, before the thread that serves the connection does. False: the pipe has no link
    /// to read.
    pub fn read_ahead(&mut self, id: PipeId) -> bool {
        match self.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(Some(link))) => link.try_read(),
            _ => return false,
        }
        true
    }

    /// Publishes the pushed frames as a message.
    #[inline(always)]
    pub fn commit(&mut self, id: PipeId) {
        let received_since_send = std::mem::take(&mut self.received_since_send);
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return };
        pipe.tx.queue.close();
        if pipe.tx.keeps_newest() {
            return self.publish_newest(id);
        }
        pipe.publish(received_since_send, &mut self.deferred);
    }

    /// As `Pipe::publish`, for a pipe that keeps only the newest message.
    #[cold]
    fn publish_newest(&mut self, id: PipeId) {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return };
        let mut left = Vec::new();
        let passed = pipe.tx.publish_newest(&mut left);
        left.into_iter().for_each(|body| put_off(&mut self.deferred, body));
        match &pipe.far {
            Far::Link(None) => self.deferred.push(Deferred::Unlinked),
            Far::Link(Some(link)) => match link.after_newest() {
                AfterCommit::Unlinked => self.deferred.push(Deferred::Unlinked),
                AfterCommit::Flush => self.deferred.push(Deferred::Flush(link.clone())),
                AfterCommit::Nothing | AfterCommit::Pace => {}
            },
            Far::Socket { mailbox, pipe: far } if passed.told => mailbox.post(Notice::Readable(*far)),
            Far::Socket { .. } => {}
        }
        self.count_drop(Some(id), Reason::Conflated, passed.replaced);
        self.count_drop(Some(id), Reason::NoMemory, passed.no_memory);
    }

    /// Ends a pipe's connection once what was sent into it is written. Nothing more can be sent into it.
    pub fn hang_up(&mut self, id: PipeId) {
        let Some(pipe) = self.get(id) else { return };
        if !pipe.ended {
            pipe.ended = !matches!(pipe.far, Far::Socket { .. }); // Over inproc the socket itself does this.
            self.deferred.push(Deferred::HangUp(id));
        }
    }

    /// Has the socket check a pipe again that it has not read to its end.
    pub fn look_again(&mut self, id: PipeId) {
        self.deferred.push(Deferred::LookAgain(id));
    }

    /// Removes the uncommitted frames from the queue.
    pub fn rollback(&mut self, id: PipeId) {
        if let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) {
            pipe.rollback(&mut |body| put_off(&mut self.deferred, body));
        }
    }

    /// Drops a body that a pattern has kept.
    pub fn discard(&mut self, body: Body) {
        put_off(&mut self.deferred, body);
    }

    /// The flags of the next incoming frame.
    #[inline(always)]
    pub fn peek(&mut self, id: PipeId) -> Option<u8> {
        self.get(id)?.rx.peek()
    }

    /// Passes the next incoming frame to `reader`. A body left in the frame is dropped after the lock is released.
    #[inline(always)]
    pub fn pop<R>(&mut self, id: PipeId, reader: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return None };
        if pipe.rx.keeps_newest() {
            return self.pop_newest(id, reader);
        }
        let result = pipe.rx.queue.pop_leaving(|body| put_off(&mut self.deferred, body), reader)?;
        if pipe.rx.queue.take_room_wanted() {
            self.tell_of_room(id);
        }
        self.received_since_send = true;
        self.origin = FrameOrigin::Pipe(id);
        Some(result)
    }

    /// As `pop`, for a pipe that keeps only the newest message.
    #[cold]
    fn pop_newest<R>(&mut self, id: PipeId, reader: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return None };
        let mut left = Vec::new();
        let (result, dropped) = pipe.rx.pop_newest(&mut left, reader);
        left.into_iter().for_each(|body| put_off(&mut self.deferred, body));
        self.count_drop(Some(id), Reason::Conflated, dropped);
        if result.is_some() {
            self.received_since_send = true;
            self.origin = FrameOrigin::Pipe(id);
        }
        result
    }

    /// Records that the frame handed out now is, or belongs to, one of this pipe.
    pub fn came_from(&mut self, id: PipeId) {
        self.origin = FrameOrigin::Pipe(id);
    }

    /// Records that the frame handed out now was popped before, from this peer.
    pub fn came_from_peer(&mut self, about: Option<Arc<About>>) {
        self.origin = FrameOrigin::Peer(about);
    }

    /// The properties of the peer that sent the frame received last; None over inproc.
    pub fn about(&mut self) -> Option<Arc<About>> {
        match &self.origin {
            FrameOrigin::Nowhere => None,
            FrameOrigin::Pipe(id) => self.get(*id)?.peer.about.clone(),
            FrameOrigin::Peer(about) => about.clone(),
        }
    }

    /// Counts lost messages, also for the pipe to or from the peer if it is known.
    #[cold]
    pub fn count_drop(&mut self, id: Option<PipeId>, reason: Reason, messages: u64) {
        let mut drops = Drops::default();
        drops.add(reason, messages);
        self.count_drops(id, &drops);
    }

    /// As `count_drop`, for several reasons.
    #[cold]
    pub fn count_drops(&mut self, id: Option<PipeId>, drops: &Drops) {
        if drops.total() == 0 {
            return;
        }
        self.drops.absorb(drops);
        if let Some(pipe) = id.and_then(|id| self.get(id)) {
            pipe.drops.get_or_insert_default().absorb(drops);
        }
    }

    /// Tells the other end, which waits for room, that there is room.
    #[cold]
    pub(crate) fn tell_of_room(&mut self, id: PipeId) {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return };
        match &pipe.far {
            Far::Link(Some(link)) => self.deferred.push(Deferred::ReadOn(link.clone())),
            Far::Link(None) => {}
            Far::Socket { mailbox, pipe: far } => mailbox.post(Notice::Writable(*far)),
        }
    }

    /// Drops the rest of a message after its first frames were popped.
    pub fn skip_message(&mut self, id: PipeId) {
        while self.pop(id, |frame| frame.flags() & MORE != 0) == Some(true) {}
    }

    /// Asks for a `readable` call when a frame comes in. False: there is one already. An ended pipe stays readable
    /// until it is empty; then `park` returns true, and the caller forgets the pipe.
    pub fn park(&mut self, id: PipeId) -> bool {
        self.get(id).is_none_or(|pipe| pipe.rx.park())
    }
}

/// Defers dropping a body with an owner until the lock is released, since the owner's code runs then. Without memory
/// for that the body is dropped here: that is an error only if its free function calls this socket.
#[cold]
fn put_off(deferred: &mut DeferredList, body: Body) {
    if body.has_owner() && deferred.try_reserve(1).is_ok() {
        deferred.push(Deferred::Drop(body));
    }
}
