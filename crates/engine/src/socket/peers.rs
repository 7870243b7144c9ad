//! Functions that libzmq lacks: cutting off one peer, and waiting until peers are connected, have subscribed, have
//! received our subscriptions, or have ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_zmtp::{Version, command};

use super::{Core, Socket};
use crate::error::Error;
use crate::link::{Link, RECEIPT};
use crate::pipe::{Far, PipeId};

impl Socket {
    /// Closes the connection of a peer, given its number in the statistics. Messages that have arrived can still be
    /// received. We reconnect to a peer that we had connected to; a peer that had connected to us may come back.
    /// Errors: Unreachable if there is no such peer, or no connection to it.
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

    /// Waits until `count` peers are connected; `timeout` None: no limit. Errors: WouldBlock at the timeout.
    pub fn wait_peers(self, count: usize, timeout: Option<Duration>) -> Result<(), Error> {
        self.wait_until(timeout, |core| Ok(core.peers().len() >= count))
    }

    /// Waits until `count` peers get messages with this topic prefix or group. Errors: WouldBlock at the timeout,
    /// NotSupported unless PUB, XPUB or RADIO.
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

    /// Waits until a publisher is connected, and all connected publishers have all subscriptions or groups made so
    /// far. Errors: WouldBlock at the timeout; NotSupported unless SUB, XSUB or DISH, and for publishers before ZMTP
    /// 3.0, which cannot confirm.
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

    /// Waits until `count` peers have come and gone, and all their messages were received.
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
        let mut waiter = self.lock()?.waiter();
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
    /// The pipes of connected peers.
    pub(crate) fn peers(&mut self) -> Vec<PipeId> {
        let mut ids: Vec<_> = self.pipes.ids().collect();
        ids.retain(|&id| self.pipes.get(id).is_some_and(|pipe| pipe.up && !pipe.ended));
        ids
    }

    fn pipe_numbered(&mut self, number: u64) -> Option<PipeId> {
        let mut ids = self.pipes.ids().collect::<Vec<_>>().into_iter();
        ids.find(|&id| self.pipes.get(id).is_some_and(|pipe| pipe.number == number))
    }

    /// Returns true if the peer has answered a PING sent after the subscriptions. Sends the PING if this connection
    /// has not had one. Over inproc the subscriptions are in the peer's pipe already, which is enough.
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
