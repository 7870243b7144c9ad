//! The socket's ends of its pipes: one outgoing and one incoming queue to a peer.
//!
//! A pipe leads to a link (a connection, or the attempt at one), or to another socket of the same context
//! (inproc). Patterns see no difference: they push frames and commit, pop frames, and are told when a pipe
//! becomes readable or writable. What has to be done outside the socket's lock (writing to the kernel,
//! reading on, letting bodies go) is left in `Pipes::chores`.
//!
//! Rules that patterns keep:
//! - `push` follows `has_room` at a message's first frame, and ends with `commit` at its last (or
//!   `rollback`); `begin` is all three for a message of one frame;
//! - before a pipe is left out of the list of writable pipes, `want_room` must have said that there is none;
//! - before a pipe is left out of the list of readable ones, `park` must have said that there is nothing;
//! - a body is taken out of its frame to be handed on or kept, never to be dropped: what is left in the frame
//!   is let go with the lock open, because a free function of the application may run then, and call the
//!   socket. One that was kept and is not wanted any more goes to `discard`.

mod end;
mod outgoing;

use std::sync::Arc;

use pinnace_ring::{Body, COMMAND, Frame, MORE, NoMemory, prefetch};
use smallvec::SmallVec;

use crate::drops::{Drops, Reason};
use crate::hub::{Hub, Mail};
use crate::label::Label;
use crate::link::{self, Link, Next};
use crate::peer::About;
use crate::stats::{self, Traffic};
pub(crate) use end::Far;
pub use end::Pipe;
pub use outgoing::Outgoing;

/// A pipe of one socket. It is used again after the pipe's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PipeId(pub u32);

/// Something to be done once the socket's lock is open again.
pub(crate) enum Chore {
    /// Write what has gathered.
    Flush(Arc<Link>),
    /// Wait a little for the kernel to take more.
    Pace(Arc<Link>),
    /// There is room again for what the link reads.
    ReadOn(Arc<Link>),
    /// Let go of a body that nobody wanted: its owner's code may run.
    Drop(Body),
    /// Let go of a pipe that has ended, and of what nobody received from it.
    Part(Box<Pipe>),
    /// End the connection of a pipe once what was sent into it is written, and make no other.
    HangUp(PipeId),
    /// Have a socket read its mail, since no thread may be inside it: the one at the other end of a new inproc pipe, to
    /// send what it sends first, or this one (`Unlinked`).
    Visit(Arc<Hub>),
    /// More has come in than one call takes: look again.
    LookAgain(PipeId),
    /// A message was put into a pipe without a connection. Mail may say that it has one by now: read it, or nobody
    /// writes the message before the socket's next call.
    Unlinked,
}

/// Few, mostly, and without memory of their own then.
pub(crate) type Chores = SmallVec<[Chore; 2]>;

/// All pipes of one socket.
#[derive(Default)]
pub struct Pipes {
    list: Vec<Option<Box<Pipe>>>,
    pub(crate) chores: Chores,
    /// Something was received since the last send: then a send is an answer, and leaves at once.
    pub(crate) turned: bool,
    /// What goes with the message that is being sent.
    pub sending: Label,
    /// What came with the message that was received last, where the pattern says so.
    pub received: Label,
    /// Where the frame that was received last came from.
    origin: Origin,
    /// Messages of the socket that were lost.
    pub(crate) drops: Drops,
    /// What pipes that are gone have moved: in, out.
    past: (Traffic, Traffic),
    /// How many pipes there have been.
    count: u64,
}

/// Where a frame came from.
#[derive(Default)]
enum Origin {
    #[default]
    Nowhere,
    Pipe(PipeId),
    /// From a pipe that may be gone.
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
            if pipe.rx.is_stopped() {
                let mut left = Vec::new();
                self.drops.add(Reason::Unread, pipe.drain(&mut left));
                left.into_iter().for_each(|body| self.discard(body));
            }
            let (received, sent) = stats::past(&pipe);
            self.past.0.add_past(received);
            self.past.1.add_past(sent);
            self.chores.push(Chore::Part(pipe));
        }
    }

    /// The pipe, while it is there.
    #[inline(always)]
    pub fn get(&mut self, id: PipeId) -> Option<&mut Pipe> {
        self.list.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// What pipes that are gone have moved: in, out.
    pub(crate) fn past(&self) -> (Traffic, Traffic) {
        self.past
    }

    /// A frame that was popped was none of a message: a subscription, say.
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
        self.get(id).is_some_and(|pipe| !pipe.ended && pipe.tx.has_room())
    }

    /// Asks for a `writable` call when there is room again. True: there is room now.
    pub fn want_room(&mut self, id: PipeId) -> bool {
        self.get(id).is_some_and(|pipe| !pipe.ended && pipe.tx.want_room())
    }

    /// Puts a frame in; it is seen after `commit`. Pipes that are not there take it and drop it.
    #[inline(always)]
    pub fn push(&mut self, id: PipeId, frame: &Outgoing<'_>, more: bool) -> Result<(), NoMemory> {
        self.get(id).map_or(Ok(()), |pipe| pipe.push(frame, more))
    }

    /// A message is soon going to be begun in the pipe `next`, and after that one in `later`: what that takes is
    /// brought into the cache.
    #[inline(always)]
    pub fn foresee(&self, next: PipeId, later: PipeId) {
        if let Some(Some(pipe)) = self.list.get(later.0 as usize) {
            prefetch(&raw const **pipe, size_of::<Pipe>());
        }
        if let Some(Some(pipe)) = self.list.get(next.0 as usize) {
            pipe.foresee();
        }
    }

    /// Puts the first frame of a message in, and commits it unless there are more. False: the pipe has no room for it.
    #[inline(always)]
    pub fn begin(&mut self, id: PipeId, frame: &Outgoing<'_>, more: bool) -> Result<bool, NoMemory> {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return Ok(false) };
        if pipe.ended || !pipe.tx.has_room() {
            return Ok(false);
        }
        if more {
            return pipe.push(frame, true).map(|()| true);
        }
        pipe.push_last(frame)?;
        let turned = std::mem::take(&mut self.turned);
        if pipe.outlet.is_some() {
            self.show_newest(id);
        } else {
            pipe.show(turned, &mut self.chores);
        }
        Ok(true)
    }

    /// Puts a command in (its body, as it goes on the wire to a 3.1 peer) as a message of its own, and sends
    /// it.
    pub fn push_command(&mut self, id: PipeId, body: &[u8]) -> Result<(), NoMemory> {
        let Some(pipe) = self.get(id) else { return Ok(()) };
        pipe.tx.push(COMMAND, body)?;
        pipe.commands_out += 1;
        self.commit(id);
        Ok(())
    }

    /// Commands that were pushed before and are not written are for an earlier connection than the pipe has
    /// now: they are not sent.
    pub fn restart_commands(&mut self, id: PipeId) -> Result<(), NoMemory> {
        match self.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(Some(link))) if link.config.connection > 0 => {
                let restart = link::restart(link.config.connection);
                self.push_command(id, &restart)
            }
            _ => Ok(()),
        }
    }

    /// Reads what the peer has sent, ahead of whoever would do so otherwise. False: nothing can come that way.
    pub fn read_ahead(&mut self, id: PipeId) -> bool {
        match self.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(Some(link))) => link.try_read(),
            _ => return false,
        }
        true
    }

    /// What was pushed is a message now.
    #[inline(always)]
    pub fn commit(&mut self, id: PipeId) {
        let turned = std::mem::take(&mut self.turned);
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return };
        pipe.tx.close();
        if pipe.outlet.is_some() {
            return self.show_newest(id);
        }
        pipe.show(turned, &mut self.chores);
    }

    /// As `Pipe::show`, where a message takes the place of the one before.
    #[cold]
    fn show_newest(&mut self, id: PipeId) {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return };
        let Some(outlet) = &mut pipe.outlet else { return };
        pipe.tx.show_quietly();
        let mut left = Vec::new();
        let passed = outlet.pass_on(&mut left);
        left.into_iter().for_each(|body| put_off(&mut self.chores, body));
        match &pipe.far {
            Far::Link(None) => self.chores.push(Chore::Unlinked),
            Far::Link(Some(link)) => match link.after_newest() {
                Next::Unlinked => self.chores.push(Chore::Unlinked),
                Next::Flush => self.chores.push(Chore::Flush(link.clone())),
                Next::Nothing | Next::Pace => {}
            },
            Far::Socket { hub, pipe: far } if passed.told => hub.post(Mail::Readable(*far)),
            Far::Socket { .. } => {}
        }
        self.count_drop(Some(id), Reason::Conflated, passed.replaced);
        self.count_drop(Some(id), Reason::NoMemory, passed.no_memory);
    }

    /// Ends the connection of a pipe once what was sent into it is written. Nothing more is sent into it.
    pub fn hang_up(&mut self, id: PipeId) {
        let Some(pipe) = self.get(id) else { return };
        if !pipe.ended {
            pipe.ended = !matches!(pipe.far, Far::Socket { .. }); // Over inproc the socket itself sees to it.
            self.chores.push(Chore::HangUp(id));
        }
    }

    /// Has the socket look at a pipe again that it has not read to its end.
    pub fn look_again(&mut self, id: PipeId) {
        self.chores.push(Chore::LookAgain(id));
    }

    /// Takes back what was pushed and not committed.
    pub fn rollback(&mut self, id: PipeId) {
        if let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) {
            pipe.rollback(&mut |body| put_off(&mut self.chores, body));
        }
    }

    /// Lets go of a body that a pattern has kept.
    pub fn discard(&mut self, body: Body) {
        put_off(&mut self.chores, body);
    }

    /// The flags of the next frame that came in.
    #[inline(always)]
    pub fn peek(&mut self, id: PipeId) -> Option<u8> {
        let pipe = self.get(id)?;
        match pipe.rx.peek() {
            None if pipe.inlet.as_mut()?.refill() => pipe.rx.peek(),
            flags => flags,
        }
    }

    /// Hands the next frame that came in to `reader`. A body that it leaves is let go when the lock is open.
    #[inline(always)]
    pub fn pop<R>(&mut self, id: PipeId, reader: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return None };
        if pipe.inlet.is_some() {
            return self.pop_newest(id, reader);
        }
        let result = pipe.rx.pop_leaving(|body| put_off(&mut self.chores, body), reader)?;
        if pipe.rx.take_room_wanted() {
            self.tell_of_room(id);
        }
        self.turned = true;
        self.origin = Origin::Pipe(id);
        Some(result)
    }

    /// As `pop`, where only the newest message is kept.
    #[cold]
    fn pop_newest<R>(&mut self, id: PipeId, reader: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return None };
        let inlet = pipe.inlet.as_mut()?;
        let mut left = Vec::new();
        let dropped = inlet.freshen(&mut pipe.rx, &mut left);
        let mut more = false;
        let result = pipe.rx.pop_leaving(
            |body| left.push(body),
            |frame| {
                more = frame.flags() & MORE != 0;
                reader(frame)
            },
        );
        inlet.received(more);
        left.into_iter().for_each(|body| put_off(&mut self.chores, body));
        self.count_drop(Some(id), Reason::Conflated, dropped);
        if result.is_some() {
            self.turned = true;
            self.origin = Origin::Pipe(id);
        }
        result
    }

    /// The frame that is being handed out is, or belongs to, one of this pipe.
    pub fn came_from(&mut self, id: PipeId) {
        self.origin = Origin::Pipe(id);
    }

    /// The frame that is being handed out was popped before, and its peer was this.
    pub fn came_from_peer(&mut self, about: Option<Arc<About>>) {
        self.origin = Origin::Peer(about);
    }

    /// What is known of the peer that the frame received last came from; None over inproc.
    pub fn about(&mut self) -> Option<Arc<About>> {
        match &self.origin {
            Origin::Nowhere => None,
            Origin::Pipe(id) => self.get(*id)?.peer.about.clone(),
            Origin::Peer(about) => about.clone(),
        }
    }

    /// Messages were lost, on the way to or from a pipe's peer where that is known.
    #[cold]
    pub fn count_drop(&mut self, id: Option<PipeId>, reason: Reason, messages: u64) {
        let mut drops = Drops::default();
        drops.add(reason, messages);
        self.count_drops(id, &drops);
    }

    /// The same, for several reasons.
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

    /// Tells who waits at the other end that there is room.
    #[cold]
    pub(crate) fn tell_of_room(&mut self, id: PipeId) {
        let Some(Some(pipe)) = self.list.get_mut(id.0 as usize) else { return };
        match &pipe.far {
            Far::Link(Some(link)) => self.chores.push(Chore::ReadOn(link.clone())),
            Far::Link(None) => {}
            Far::Socket { hub, pipe: far } => hub.post(Mail::Writable(*far)),
        }
    }

    /// Drops the rest of the message whose first frames were popped.
    pub fn skip_message(&mut self, id: PipeId) {
        while self.pop(id, |frame| frame.flags() & MORE != 0) == Some(true) {}
    }

    /// Asks for a `readable` call when something comes in. False: there is something now. An ended pipe stays
    /// readable until it is empty; then `park` is true, and the caller forgets it.
    pub fn park(&mut self, id: PipeId) -> bool {
        self.get(id).is_none_or(|pipe| pipe.rx.park() && pipe.inlet.as_mut().is_none_or(|inlet| inlet.park()))
    }
}

/// Puts off the end of a body until the lock is open, where somebody else's code runs then. Without memory for
/// that it ends here: a free function that calls the socket is the rarer trouble.
#[cold]
fn put_off(chores: &mut Chores, body: Body) {
    if body.has_owner() && chores.try_reserve(1).is_ok() {
        chores.push(Chore::Drop(body));
    }
}
