//! How other threads reach a peer loop.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use pinnace_eventloop::Slot;

use super::network::Network;
use super::{Doorbell, Listening, LoopStatistics, PeerLoop};
use crate::registry::Members;
use crate::store::Store;

/// How long a caller waits for statistics: no longer than a scrape of metrics usually may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A request to the peer loop.
pub enum Command {
    /// Adds a client.
    Add(Box<Listening>),
    /// Removes a client, then signals `done`.
    Remove { client: u32, done: Sender<()> },
    /// The members that a client knows have changed.
    Members { client: u32, members: Arc<Members> },
    /// A stream was opened, or has new messages.
    Stream(u32),
    /// Some messages of a stream are no longer to be sent.
    Gone(u32),
    /// Sends what the peer loop knows of a client.
    Statistics { client: u32, done: Sender<LoopStatistics> },
}

/// Controls the peer loop, which ends when this is dropped.
pub struct Handle(Runner);

/// What runs the peer loop.
enum Runner {
    Thread(pinnace_eventloop::Handle<PeerLoop>),
    /// No thread: the simulator calls `Handle::step`.
    #[cfg(test)]
    Stepped(Box<stepped::Stepped>),
}

impl Handle {
    /// Runs a peer loop.
    pub fn start(
        slot: Slot<PeerLoop>,
        store: Arc<Store>,
        network: Arc<dyn Network>,
        doorbell: Arc<Doorbell>,
    ) -> Handle {
        Handle(Runner::Thread(slot.run(PeerLoop::new(store, network, doorbell))))
    }

    pub fn tell(&self, command: Command) {
        match &self.0 {
            Runner::Thread(handle) => handle.send(command),
            #[cfg(test)]
            Runner::Stepped(stepped) => stepped.tell(command),
        }
    }

    /// Removes a client; blocks until that is done, which includes the last acknowledgements.
    pub fn remove(&self, client: u32) {
        let (done, removed) = channel();
        self.tell(Command::Remove { client, done });
        #[cfg(test)]
        if let Runner::Stepped(stepped) = &self.0 {
            return stepped.step_over_disk();
        }
        // An error means that the peer loop has ended, and removed everything.
        let _ = removed.recv();
    }

    /// What the peer loop knows of a client.
    pub fn statistics(&self, client: u32) -> LoopStatistics {
        let (done, answer) = channel();
        self.tell(Command::Statistics { client, done });
        #[cfg(test)]
        if let Runner::Stepped(stepped) = &self.0 {
            stepped.step(Vec::new());
        }
        answer.recv_timeout(ANSWER_TIMEOUT).unwrap_or_default()
    }
}

/// A peer loop without a thread.
#[cfg(test)]
mod stepped {
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};
    use std::time::Instant;

    use pinnace_eventloop::{Next, Task};

    use super::super::inward::Inward;
    use super::super::network::Token;
    use super::*;
    use crate::environment::now;
    use crate::wire::Id;

    pub struct Stepped {
        peer_loop: Mutex<PeerLoop>,
        commands: Mutex<VecDeque<Command>>,
        doorbell: Arc<Doorbell>,
        store: Arc<Store>,
    }

    impl Stepped {
        pub fn tell(&self, command: Command) {
            self.commands.lock().unwrap_or_else(PoisonError::into_inner).push_back(command);
            self.doorbell.ring();
        }

        /// Does all that is due. Returns the time of the next deadline.
        pub fn step(&self, ready: Vec<Token>) -> Option<Instant> {
            let mut peer_loop = self.peer_loop.lock().unwrap_or_else(PoisonError::into_inner);
            ready.into_iter().for_each(|token| peer_loop.on_ready(token));
            loop {
                self.doorbell.clear();
                let commands =
                    std::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner));
                commands.into_iter().for_each(|command| peer_loop.on_command(command));
                match peer_loop.work() {
                    Next::Wait(until)
                        if !self.doorbell.is_rung() && until.is_none_or(|until| until > now()) =>
                    {
                        return until;
                    }
                    Next::Now | Next::Wait(_) => {}
                }
            }
        }

        /// Does all that is due, and what is due once that is on the disk.
        pub fn step_over_disk(&self) {
            self.step(Vec::new());
            self.store.log().step();
            self.step(Vec::new());
        }
    }

    impl Handle {
        pub fn stepped(store: Arc<Store>, network: Arc<dyn Network>, doorbell: Arc<Doorbell>) -> Handle {
            let peer_loop = Mutex::new(PeerLoop::new(store.clone(), network, doorbell.clone()));
            let commands = Mutex::default();
            Handle(Runner::Stepped(Box::new(Stepped { peer_loop, commands, doorbell, store })))
        }

        pub fn step(&self, ready: Vec<Token>) -> Option<Instant> {
            match &self.0 {
                Runner::Thread(_) => None,
                Runner::Stepped(stepped) => stepped.step(ready),
            }
        }

        /// How much each sender may still send to a client here, in bytes.
        pub fn outstanding_credit(&self) -> Vec<(Id, u64)> {
            let Runner::Stepped(stepped) = &self.0 else { return Vec::new() };
            let peer_loop = stepped.peer_loop.lock().unwrap_or_else(PoisonError::into_inner);
            peer_loop.inward.iter().flat_map(Inward::outstanding_credit).collect()
        }
    }
}
