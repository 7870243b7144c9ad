//! RADIO: each message goes to all peers that have joined its group (RFC 48).
//!
//! In the queues and on the wire a message is two frames: the group and the body. Sending never blocks: a peer at its
//! high-water mark misses the message, which is counted, and the others are not affected. With ZMQ_XPUB_NODROP
//! sending blocks instead until all peers have room.
//!
//! Groups match exactly. Joining a group twice has no further effect, and one LEAVE ends it. JOIN and LEAVE take
//! effect as they arrive. If a peer's connection is lost, its groups stay until its pipe ends, so that it misses
//! nothing if it reconnects. All other input from peers is dropped and counted.

use pinnace_ring::{COMMAND, Frame};
use pinnace_zmtp::command::{self, Command, MAX_GROUP};

use super::Pattern;
use crate::drops::{Drops, Reason};
use crate::error::{Error, Invalid};
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Added, Fair, Spread, Subscriptions};

#[derive(Default)]
pub(super) struct Radio {
    groups: Subscriptions,
    /// Pipes that get the messages of every group.
    all: Vec<PipeId>,
    fair: Fair,
    spread: Spread,
}

impl Radio {
    /// Reads the input of all readable pipes.
    fn drain(&mut self, pipes: &mut Pipes) {
        let groups = &mut self.groups;
        self.fair.drain(pipes, |fair, pipes, id, first| {
            let (mut drops, mut is_command) = (Drops::default(), true);
            let _ = fair.recv(pipes, &mut |frame| match read(&frame) {
                Read::Join(group) if group.len() > MAX_GROUP => drops.add(Reason::Limit, 1),
                Read::Join(group) if groups.add(id, group) == Added::Refused => drops.add(Reason::Limit, 1),
                Read::Leave(group) => _ = groups.remove(id, group),
                Read::Message => {
                    drops.add(Reason::Unwanted, u64::from(first));
                    is_command = false;
                }
                Read::Join(_) | Read::OtherCommand => {}
            });
            if is_command {
                pipes.was_command(id);
            }
            pipes.count_drops(Some(id), &drops);
            true
        });
    }
}

impl Pattern for Radio {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        match pipes.get(id) {
            Some(pipe) if pipe.takes_all => self.all.push(id),
            _ => self.groups.add_pipe(id),
        }
        self.fair.add(id);
        self.drain(pipes);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.drain(pipes);
        self.forget(id);
    }

    fn removed(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.remove(id);
        self.forget(id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
        self.drain(pipes);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if more {
            return Err(Error::Invalid(Invalid::MultipartMessage));
        }
        self.drain(pipes);
        let group = std::mem::take(&mut pipes.sending.group);
        let sent = self.send_to(pipes, &group, frame);
        pipes.sending.group = group;
        sent
    }

    fn recv(&mut self, _pipes: &mut Pipes, _sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        Err(Error::NotSupported)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        true
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.drain(pipes);
        false
    }

    fn subscribers(&mut self, pipes: &mut Pipes, topic: &[u8]) -> usize {
        self.drain(pipes);
        let mut found = Vec::new();
        self.groups.find_exact(topic, &mut found);
        found.len() + self.all.len()
    }

    fn configure(&mut self, options: &Options) {
        self.spread.set_nodrop(options.xpub.nodrop);
    }
}

impl Radio {
    fn forget(&mut self, id: PipeId) {
        self.groups.remove_pipe(id, None);
        self.all.retain(|&other| other != id);
    }

    fn send_to(&mut self, pipes: &mut Pipes, group: &[u8], frame: &mut Outgoing<'_>) -> Result<(), Error> {
        let targets = self.spread.targets();
        self.groups.find_exact(group, targets);
        targets.extend_from_slice(&self.all);
        if targets.len() > 1 {
            frame.share()?;
        }
        self.spread.admit(pipes)?;
        self.spread.send(pipes, &mut Outgoing::Bytes(group), true)?;
        self.spread.send(pipes, frame, false)
    }
}

/// The meaning of a frame from a peer.
enum Read<'a> {
    Join(&'a [u8]),
    Leave(&'a [u8]),
    OtherCommand,
    Message,
}

fn read<'a>(frame: &'a Frame<'_>) -> Read<'a> {
    if frame.flags() & COMMAND == 0 {
        return Read::Message;
    }
    match command::parse(frame.data()) {
        Ok(Command::Join(group)) => Read::Join(group),
        Ok(Command::Leave(group)) => Read::Leave(group),
        _ => Read::OtherCommand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;
    use crate::pipe::{Far, Pipe};
    use crate::queue::{QueueMode, direction};
    use pinnace_ring::{Limits, MORE, queue};

    /// A pipe with `takes_all` gets every group's messages as two frames, group and body, like a pipe that has
    /// joined.
    #[test]
    fn some_pipes_get_every_group() {
        let (mut radio, mut pipes) = (Radio::default(), Pipes::default());
        let limits = Limits { messages: 0, ahead_bytes: 0 };
        let mut far_ends = Vec::new();
        for (id, takes_all) in [(PipeId(0), false), (PipeId(1), true)] {
            let [(tx, out), (from, rx)] = [(), ()].map(|()| direction(QueueMode::All, || queue(limits)));
            let (out, mut from) = (out.queue, from.queue);
            from.push(COMMAND, b"\x04JOINjoined").unwrap();
            from.commit();
            let mut pipe = Pipe::new(tx, rx, Far::Link(None), Peer::default(), true);
            pipe.takes_all = takes_all;
            pipes.insert(id, pipe);
            radio.attached(&mut pipes, id);
            far_ends.push((out, from));
        }
        for group in ["joined", "other"] {
            pipes.sending.group = group.into();
            radio.send(&mut pipes, &mut Outgoing::Bytes(b"body"), false).unwrap();
        }
        let mut sent = |index: usize| {
            let mut frames = Vec::new();
            let out = &mut far_ends[index].0;
            while let Some(frame) = out.pop(|frame| (frame.flags(), frame.data().to_vec())) {
                frames.push(frame);
            }
            frames
        };
        let one = |group: &str| [(MORE, group.into()), (0, b"body".to_vec())];
        assert_eq!(sent(0), one("joined"));
        assert_eq!(sent(1), [one("joined"), one("other")].concat());
        radio.ended(&mut pipes, PipeId(1));
        radio.send(&mut pipes, &mut Outgoing::Bytes(b"body"), false).unwrap();
        assert!(sent(1).is_empty());
    }
}
