//! Checks the settings of a client.

use super::disk::LEAST;
use super::{Builder, Presence};
use crate::Error;
use crate::inbox::Retry;
use crate::registry::{Member, is_of_several_hosts, is_reachable};
use crate::wire::NAME_MAX;

impl Builder {
    /// Checks each setting, and that they are consistent.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Retry { first, most, .. } = self.retry;
        let mut words = self.topics.iter().chain([&self.name, &self.topic]);
        match () {
            () if self.name.is_empty() || words.any(|word| word.len() > NAME_MAX) => Err(Error::Name),
            () if self.disk_limit.is_some_and(|bytes| bytes < LEAST) => {
                Err(Error::Setting("disk_limit must be at least 4 MiB"))
            }
            () if self.largest == 0 => Err(Error::Setting("max_body must be at least 1 byte")),
            () if first > most => Err(Error::Setting("retry: the first wait is longer than the longest")),
            () if self.peers.iter().any(|peer| peer.name == self.name) => {
                Err(Error::Setting("a peer has the client's own name"))
            }
            () if self.is_out_of_reach() => Err(Error::Setting(
                "the registry is for several hosts: listen on an address that they can reach, or advertise one",
            )),
            () => Ok(()),
        }?;
        if let Some(endpoint) = &self.advertised {
            pinnace_engine::check_endpoint(endpoint).map_err(Error::Endpoint)?;
        }
        for peer in &self.peers {
            let Member { name, endpoint, topics, .. } = peer;
            if name.is_empty() || topics.iter().chain([name]).any(|word| word.len() > NAME_MAX) {
                return Err(Error::Name);
            }
            let unreachable = |error| Error::Unreachable { peer: name.clone(), error };
            pinnace_engine::check_endpoint(endpoint).map_err(unreachable)?;
        }
        Ok(())
    }

    /// Returns true if clients of other hosts will find this one and cannot connect to it.
    fn is_out_of_reach(&self) -> bool {
        let endpoint = self.advertised.as_ref().or(self.endpoint.as_ref());
        self.presence == Presence::Member
            && self.registry_url().is_some_and(|url| is_of_several_hosts(&url))
            && !endpoint.is_some_and(|endpoint| is_reachable(endpoint))
    }
}
