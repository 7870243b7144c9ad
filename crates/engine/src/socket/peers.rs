//! What libzmq's users ask for and do not get: to part with one peer, and to wait until peers are there, until they
//! have subscribed, until a subscription is installed at the publishers, until producers have ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_zmtp::{Version, command};

use super::{Core, Socket, Waiter};
use crate::error::Error;
use crate::link::{Link, RECEIPT};
use crate::pipe::{Far, PipeId};

impl Socket {
    /// Cuts a peer off, by its number in the statistics. What it has sent can still be received. A peer that we have
    /// connected to is connected to again; one that has connected to us may come back. Errors: Unreachable where
    /// there is no such peer, or no connection to it.
    pub fn kick(self, number: u64) -> Result<(), Error> {
        self.call(false, |core| {
            let id = core.pipe_numbered(number).ok_or(Error::Unreachable)?;
            let Some(pipe) = core.pipes.get(id).filter(|pipe| !pipe.ended) else {
                return Err(Error::Unreachable);
            };
            match &pipe.far {
                Far::Link(None) => Err(Error::Unreachable),
                Far::Link(Some(link)) => {
                    link.cut();
                    Ok(())
                }
                Far::Socket { .. } => {
                    core.leave(id);
                    Ok(())
                }
            }
        })
    }

    /// Waits until `count` peers are there; None waits for ever. Errors: WouldBlock when the time is over.
    pub fn wait_peers(self, count: usize, timeout: Option<Duration>) -> Result<(), Error> {
        self.wait_until(timeout, |core| Ok(core.peers().len() >= count))
    }

    /// Waits until `count` peers get messages that begin with `topic`, or of that group. For PUB, XPUB and RADIO;
    /// others: NotSupported.
    pub fn wait_subscribers(
        self,
        topic: &[u8],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        self.wait_until(timeout, |core| {
            if !core.kind.keeps_subscriptions && !core.kind.keeps_groups {
                return Err(Error::NotSupported);
            }
            Ok(core.pattern.subscribers(&mut core.pipes, topic) >= count)
        })
    }

    /// Waits until a publisher is there, and each that is has all subscriptions made so far, or all groups. For SUB,
    /// XSUB and DISH; others, and publishers before ZMTP 3.0, which cannot tell: NotSupported.
    pub fn wait_subscribed(self, timeout: Option<Duration>) -> Result<(), Error> {
        let mut asked = HashMap::new();
        self.wait_until(timeout, |core| {
            if !core.kind.sends_subscriptions {
                return Err(Error::NotSupported);
            }
            let peers = core.peers();
            let mut all = !peers.is_empty();
            for id in peers {
                all &= core.has_receipt(id, &mut asked)?;
            }
            Ok(all)
        })
    }

    /// Waits until `count` peers have come and gone again, and all that they sent was received.
    pub fn wait_ended(self, count: u64, timeout: Option<Duration>) -> Result<(), Error> {
        self.wait_until(timeout, |core| {
            core.sweep();
            Ok(core.ended_peers() >= count)
        })
    }

    fn wait_until(
        self,
        timeout: Option<Duration>,
        mut is_so: impl FnMut(&mut Core) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut waiter = Waiter::new(&*self.lock()?);
        loop {
            waiter.flush();
            waiter.observe();
            if self.call(false, &mut is_so)? {
                return Ok(());
            }
            waiter.flush();
            waiter.wait(deadline, false)?;
        }
    }
}

impl Core {
    /// How many peers have come and gone again, all of whose messages were received.
    pub(crate) fn ended_peers(&self) -> u64 {
        self.ended_peers + self.hub.vanished()
    }

    /// The pipes whose peers are there.
    pub(crate) fn peers(&mut self) -> Vec<PipeId> {
        let mut ids: Vec<_> = self.pipes.ids().collect();
        ids.retain(|&id| self.pipes.get(id).is_some_and(|pipe| pipe.up && !pipe.ended));
        ids
    }

    fn pipe_numbered(&mut self, number: u64) -> Option<PipeId> {
        let mut ids = self.pipes.ids().collect::<Vec<_>>().into_iter();
        ids.find(|&id| self.pipes.get(id).is_some_and(|pipe| pipe.number == number))
    }

    /// Whether the peer has answered a PING that was sent behind the subscriptions; sends one where that was not done
    /// on this connection yet. A publisher of the same process has what lies in its pipe.
    fn has_receipt(&mut self, id: PipeId, asked: &mut HashMap<u64, (Arc<Link>, u64)>) -> Result<bool, Error> {
        let Some(pipe) = self.pipes.get(id) else { return Ok(true) };
        let Far::Link(Some(link)) = &pipe.far else { return Ok(true) };
        if link.config.version < Version::V3_0 {
            return Err(Error::NotSupported);
        }
        let (link, number) = (link.clone(), pipe.number);
        if let Some((asked_of, receipt)) = asked.get(&number)
            && Arc::ptr_eq(asked_of, &link)
        {
            return Ok(link.has_receipt(*receipt));
        }
        let receipt = link.new_receipt();
        let context = [&RECEIPT[..], &receipt.to_be_bytes()].concat();
        self.pipes.push_command(id, &command::ping(&context))?;
        asked.insert(number, (link, receipt));
        Ok(false)
    }
}
