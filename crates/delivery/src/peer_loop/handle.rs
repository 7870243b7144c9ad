//! How other threads reach a peer loop.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use pinnace_engine::Error;
use pinnace_eventloop::EventLoop;

use super::network::{Network, Token};
use super::{Doorbell, Listening, LoopStatistics, PeerLoop, Published};
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
pub struct Handle {
    runner: Runner,
    published: Arc<Published>,
}

/// What runs the peer loop.
enum Runner {
    Thread(pinnace_eventloop::Handle<Command>),
    /// No thread: the simulator calls `Handle::step`.
    #[cfg(test)]
    Stepped(Box<stepped::Stepped>),
}

impl Handle {
    /// Starts the peer loop's thread.
    pub fn start(
        events: EventLoop<Token>,
        store: Arc<Store>,
        network: Arc<dyn Network>,
        doorbell: Arc<Doorbell>,
    ) -> Result<Handle, Error> {
        let published = Arc::default();
        let task = PeerLoop::new(store, network, doorbell, Arc::clone(&published));
        let runner = Runner::Thread(events.start("pinnace-peers", task)?);
        Ok(Handle { runner, published })
    }

    pub fn tell(&self, command: Command) {
        match &self.runner {
            Runner::Thread(handle) => handle.send(command),
            #[cfg(test)]
            Runner::Stepped(stepped) => stepped.tell(command),
        }
    }

    /// Removes a client; blocks until that is done.
    pub fn remove(&self, client: u32) {
        let (done, removed) = channel();
        self.tell(Command::Remove { client, done });
        #[cfg(test)]
        if let Runner::Stepped(stepped) = &self.runner {
            stepped.step(Vec::new());
        }
        // An error means that the peer loop has ended, and removed everything.
        let _ = removed.recv();
    }

    /// What the peer loop knows of a client. If it does not answer, because a callback of an application runs on its
    /// thread: what it knew before that callback.
    pub fn statistics(&self, client: u32) -> LoopStatistics {
        let calling_back = self.published.of(client).filter(|_| self.published.is_calling_back());
        if let Some(known) = calling_back {
            return known;
        }
        let (done, answer) = channel();
        self.tell(Command::Statistics { client, done });
        #[cfg(test)]
        if let Runner::Stepped(stepped) = &self.runner {
            stepped.step(Vec::new());
        }
        answer.recv_timeout(ANSWER_TIMEOUT).ok().or_else(|| self.published.of(client)).unwrap_or_default()
    }
}

/// A peer loop without a thread.
#[cfg(test)]
mod stepped {
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};
    use std::time::Instant;

    use pinnace_eventloop::{Next, Task};

    use super::*;
    use crate::environment::now;

    pub struct Stepped {
        peer_loop: Mutex<PeerLoop>,
        commands: Mutex<VecDeque<Command>>,
        doorbell: Arc<Doorbell>,
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
    }

    impl Handle {
        pub fn stepped(store: Arc<Store>, network: Arc<dyn Network>, doorbell: Arc<Doorbell>) -> Handle {
            let published = Arc::default();
            let peer_loop = PeerLoop::new(store, network, doorbell.clone(), Arc::clone(&published));
            let (peer_loop, commands) = (Mutex::new(peer_loop), Mutex::default());
            let runner = Runner::Stepped(Box::new(Stepped { peer_loop, commands, doorbell }));
            Handle { runner, published }
        }

        pub fn step(&self, ready: Vec<Token>) -> Option<Instant> {
            match &self.runner {
                Runner::Thread(_) => None,
                Runner::Stepped(stepped) => stepped.step(ready),
            }
        }
    }
}
