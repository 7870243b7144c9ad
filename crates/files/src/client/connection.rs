//! The thread that has the client's socket: it receives for the dialogue, and sends for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinnace_engine::{Body, Outgoing, Socket};
use pinnace_eventloop::{Doorbell, Next, Task};

use crate::outbox::Outbox;
use crate::server::taken;
use crate::sockets::OwnSocket;

/// Frames that are received, and those that are sent, in one turn of the loop.
const TURN: usize = 64;
const SENT: usize = 16;

/// When a frame is tried again for which there is no room, or no connection: the first time, and the longest pause
/// after several.
const RETRY: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(50);

/// The names of events of failed handshakes begin with this.
const FAILED: &str = "handshake_failed";

/// What the threads of the socket and of the dialogue share.
pub struct Shared {
    /// None in a simulation.
    socket: Option<Socket>,
    pub outbox: Outbox,
    received: Mutex<ReceivedFrames>,
    received_max: usize,
    /// Wakes the thread of the dialogue, and that of the socket.
    dialogue: Arc<Doorbell>,
    connection: Arc<Doorbell>,
}

#[derive(Default)]
struct ReceivedFrames {
    frames: VecDeque<Body>,
    bytes: usize,
    /// Frames were dropped.
    is_overfull: bool,
}

/// The next frame for the dialogue.
pub enum Received {
    Frame(Body),
    /// The server has sent more than it may at once.
    TooMuch,
}

impl Shared {
    /// `received_max`: the most octets that wait for the dialogue.
    pub fn new(
        received_max: usize,
        dialogue: Arc<Doorbell>,
        connection: Arc<Doorbell>,
        socket: Option<Socket>,
    ) -> Shared {
        let (outbox, received) = Default::default();
        Shared { socket, outbox, received, received_max, dialogue, connection }
    }

    /// Whether the server has ended a handshake: it expects another key, password or mechanism.
    pub fn has_failed_handshakes(&self) -> bool {
        let stats = self.socket.and_then(|socket| socket.stats().ok());
        stats.is_some_and(|stats| {
            stats.events.iter().any(|(name, count)| count > 0 && name.starts_with(FAILED))
        })
    }

    fn received(&self) -> MutexGuard<'_, ReceivedFrames> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn deliver(&self, frame: Body) {
        let mut received = self.received();
        match received.bytes + frame.len() > self.received_max {
            true => received.is_overfull = true,
            false => {
                received.bytes += frame.len();
                received.frames.push_back(frame);
            }
        }
    }

    /// The next frame that was received.
    pub fn receive(&self) -> Option<Received> {
        let mut received = self.received();
        let Some(frame) = received.frames.pop_front() else {
            return std::mem::take(&mut received.is_overfull).then_some(Received::TooMuch);
        };
        received.bytes -= frame.len();
        Some(Received::Frame(frame))
    }

    /// Has the frames sent that the dialogue has made.
    pub fn send(&self) {
        if self.outbox.is_to_be_told() {
            self.connection.ring();
        }
    }
}

/// The socket.
pub struct Connection {
    socket: OwnSocket,
    shared: Arc<Shared>,
    /// When a frame is tried again for which there was no room, and the pause after that.
    retry_at: Option<Instant>,
    pause: Duration,
}

impl Connection {
    pub fn new(socket: OwnSocket, shared: Arc<Shared>) -> Connection {
        Connection { socket, shared, retry_at: None, pause: RETRY }
    }

    /// Sends the next frame. False: there is none, or no room for it.
    fn send_next(&mut self) -> bool {
        let outbox = &self.shared.outbox;
        let Some(frame) = outbox.pop() else { return false };
        if let Err(pinnace_engine::Error::WouldBlock) =
            self.socket.send(Outgoing::Body(frame.clone()), false, false)
        {
            outbox.put_back(frame);
            self.retry_at = Some(Instant::now() + self.pause);
            self.pause = (2 * self.pause).min(RETRY_MAX);
            return false;
        }
        self.pause = RETRY;
        if outbox.is_freed() {
            self.shared.dialogue.ring();
        }
        true
    }
}

impl Task for Connection {
    type Token = ();
    type Command = ();

    fn on_ready(&mut self, (): ()) {
        for _ in 0..TURN {
            let mut frame: Option<Body> = None;
            match self.socket.recv(false, &mut |part| frame = Some(taken(part))) {
                Ok(false) => {}
                // No command has several frames.
                Ok(true) => continue,
                Err(_) => return,
            }
            if let Some(frame) = frame {
                self.shared.deliver(frame);
                self.shared.dialogue.ring();
            }
        }
    }

    fn on_command(&mut self, (): ()) {}

    fn work(&mut self) -> Next {
        self.retry_at = None;
        for _ in 0..SENT {
            if !self.send_next() {
                return Next::Wait(self.retry_at);
            }
        }
        Next::Now
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        while self.send_next() {}
    }
}
