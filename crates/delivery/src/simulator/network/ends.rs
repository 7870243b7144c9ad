//! The ends of the simulated network's connections, as the peer loop uses them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pinnace_engine::{Error, Outgoing};

use super::{BoundListener, ConnectionId, Key, LinkId, LinkState, Process, SimulatedNetwork, Wires};
use crate::environment::simulated::elapsed;
use crate::peer_loop::Keyring;
use crate::peer_loop::network::{Arrival, Listener, Network, PeerLink, Target};

/// The network as one process uses it.
pub struct NetworkAccess {
    network: SimulatedNetwork,
    process: Process,
}

struct SimulatedLink {
    network: SimulatedNetwork,
    id: LinkId,
}

struct SimulatedListener {
    network: SimulatedNetwork,
    endpoint: String,
    process: Process,
}

impl NetworkAccess {
    pub fn new(network: SimulatedNetwork, process: Process) -> NetworkAccess {
        NetworkAccess { network, process }
    }
}

impl Network for NetworkAccess {
    fn listen(
        &self,
        client: u32,
        endpoint: &str,
        _keys: Option<&Arc<Keyring>>,
    ) -> Result<(Box<dyn Listener>, String), Error> {
        let mut state = self.network.lock();
        if !state.dead.contains(&self.process) {
            if state.listeners.contains_key(endpoint) {
                return Err(Error::System(98)); // EADDRINUSE
            }
            let listening = BoundListener { process: self.process, client, arrived: VecDeque::new() };
            state.listeners.insert(endpoint.to_owned(), listening);
        }
        let (network, process) = (self.network.clone(), self.process);
        let listener = SimulatedListener { network, endpoint: endpoint.to_owned(), process };
        Ok((Box::new(listener), endpoint.to_owned()))
    }

    fn link(&self, peer: Target<'_>) -> Result<Box<dyn PeerLink>, Error> {
        let mut state = self.network.lock();
        let id = LinkId::from(state.next_number());
        if !state.dead.contains(&self.process) {
            let linked = LinkState {
                process: self.process,
                index: peer.index,
                endpoint: Some(peer.endpoint.to_owned()),
                hello: peer.hello,
                connection: None,
                connect_at: elapsed(),
                unsent: VecDeque::new(),
                arrived: VecDeque::new(),
            };
            state.links.insert(id, linked);
        }
        Ok(Box::new(SimulatedLink { network: self.network.clone(), id }))
    }
}

impl PeerLink for SimulatedLink {
    fn send(&self, frame: Outgoing<'_>) -> Result<(), Error> {
        let bytes = match &frame {
            Outgoing::Bytes(bytes) => bytes.to_vec(),
            Outgoing::Body(body) => body.to_vec(),
        };
        let mut state = self.network.lock();
        match state.links.get(&self.id).map(|link| link.connection) {
            Some(Some(connection)) => state.send_to_listener(connection, bytes),
            Some(None) => {
                if let Some(link) = state.links.get_mut(&self.id) {
                    link.unsent.push_back(bytes);
                }
            }
            None => {}
        }
        Ok(())
    }

    fn recv(&self, into: &mut Vec<u8>) -> bool {
        let mut state = self.network.lock();
        let Some(link) = state.links.get_mut(&self.id) else { return false };
        let Some(frame) = link.arrived.pop_front() else { return false };
        into.extend_from_slice(&frame);
        if !link.arrived.is_empty() {
            let ready = (link.process, Key::Out(link.index));
            state.ready.insert(ready);
        }
        true
    }

    fn connect(&self, endpoint: &str) -> Result<(), Error> {
        let mut state = self.network.lock();
        if let Some(link) = state.links.get_mut(&self.id) {
            (link.endpoint, link.connect_at) = (Some(endpoint.to_owned()), elapsed());
        }
        Ok(())
    }

    fn disconnect(&self, endpoint: &str) {
        let mut state = self.network.lock();
        let Some(link) = state.links.get_mut(&self.id) else { return };
        let connection = link.connection;
        if link.endpoint.as_deref() == Some(endpoint) {
            link.endpoint = None;
        }
        let is_of = |number: &ConnectionId| {
            state.connections.get(number).is_some_and(|connection| connection.endpoint == endpoint)
        };
        if let Some(number) = connection.filter(is_of) {
            state.end_silently(number);
            if let Some(link) = state.links.get_mut(&self.id) {
                link.connection = None;
                link.unsent.clear();
            }
        }
    }

    fn set_hello(&self, hello: Vec<u8>) -> Result<(), Error> {
        if let Some(link) = self.network.lock().links.get_mut(&self.id) {
            link.hello = hello;
        }
        Ok(())
    }
}

impl Drop for SimulatedLink {
    fn drop(&mut self) {
        let mut state = self.network.lock();
        if let Some(Some(number)) = state.links.get(&self.id).map(|link| link.connection) {
            state.end_silently(number);
        }
        state.links.remove(&self.id);
    }
}

impl SimulatedListener {
    fn own<'a>(&self, state: &'a mut Wires) -> Option<&'a mut BoundListener> {
        state.listeners.get_mut(&self.endpoint).filter(|listener| listener.process == self.process)
    }
}

impl Listener for SimulatedListener {
    fn recv(&self) -> Option<Arrival> {
        let mut state = self.network.lock();
        let own = self.own(&mut state)?;
        let (from, frame) = own.arrived.pop_front()?;
        if !own.arrived.is_empty() {
            let ready = (own.process, Key::In(own.client));
            state.ready.insert(ready);
        }
        Some(Arrival { from, about: None, bytes: frame.into() })
    }

    fn send(&self, to: u32, frame: &[u8]) -> Result<(), Error> {
        let mut state = self.network.lock();
        if self.own(&mut state).is_some() {
            state.send_to_link(to, frame.to_vec());
        }
        Ok(())
    }

    fn disconnect_peer(&self, peer: u32) {
        self.network.lock().lose(peer);
    }

    fn set_linger(&self, _linger: Duration) {}
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        let mut state = self.network.lock();
        if self.own(&mut state).is_some() {
            let endpoint = &self.endpoint;
            let of: Vec<ConnectionId> = state
                .connections
                .iter()
                .filter(|(_, connection)| connection.endpoint == *endpoint)
                .map(|(number, _)| *number)
                .collect();
            for number in of {
                // With its linger, what was said last arrives.
                let said = state
                    .connections
                    .get_mut(&number)
                    .map(|one| (one.link, std::mem::take(&mut one.to_link)));
                if let Some((link, said)) = said {
                    said.into_iter().for_each(|(_, frame)| state.arrive_at_link(link, frame));
                }
                state.lose(number);
            }
            state.listeners.remove(&self.endpoint);
        }
    }
}
