//! Listening endpoints: each accepted connection performs its handshake as an entry of its own.

use std::time::{Duration, Instant};

use pinnace_sys::poll::Interest;
use pinnace_sys::{Errno, OwnedFd, net};

use super::session::{Accepted, Session, Shaken};
use super::{Entry, Reactor};
use crate::events::Event;
use crate::io::{ConnectionSide, Listener};
use crate::monitor::{self, At};
use crate::transports;

/// Maximum number of connections accepted in one call.
const ACCEPT_MAX: usize = 64;
/// How long a listener pauses when there is no descriptor or memory for another connection.
const REST: Duration = Duration::from_millis(50);
/// Maximum number of accepted connections in a handshake per I/O thread; further ones wait in the backlog.
const SHAKING_MAX: usize = 16_384;

impl Reactor {
    pub(super) fn listen(&mut self, listener: Box<Listener>) {
        let token = listener.token;
        // It fails only for lack of memory; then the timer retries.
        if self.io.poller().add(&listener.bound, token, Interest::READ).is_err() {
            self.timers.set(token, Instant::now() + REST);
        }
        self.entries.insert(token, Entry::Listener(listener));
    }

    pub(super) fn listen_again(&mut self, token: u64) {
        if let Some(Entry::Listener(listener)) = self.entries.get(&token) {
            let fd = &listener.bound;
            if self.io.poller().modify(fd, token, Interest::READ).is_err() {
                let _ = self.io.poller().add(fd, token, Interest::READ);
            }
        }
    }

    pub(super) fn accept(&mut self, token: u64) {
        for _ in 0..ACCEPT_MAX {
            let Some(Entry::Listener(listener)) = self.entries.get(&token) else { return };
            let shaking =
                self.entries.values().filter(|e| matches!(e, Entry::Accepted(_))).take(SHAKING_MAX).count();
            let accepted =
                if shaking < SHAKING_MAX { net::accept(&listener.bound) } else { Err(Errno::MFILE) };
            match accepted {
                Ok(fd) => self.welcome(token, fd),
                Err(Errno::AGAIN) => return,
                // The peer gave up, or the network failed: try the next connection.
                Err(Errno::CONNABORTED | Errno::PROTO | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
                // The listener was shut down, and the command that ends it is on its way. A hang-up cannot be
                // masked.
                Err(Errno::INVAL) => {
                    let _ = self.io.poller().remove(&listener.bound);
                    return;
                }
                Err(error) => {
                    let value = error.raw_os_error() as u32;
                    let (mailbox, endpoint) = (&listener.owner.mailbox, &listener.bound.endpoint);
                    monitor::emit(mailbox, Event::AcceptFailed, value, At::Bound(endpoint));
                    let _ = self.io.poller().modify(&listener.bound, token, Interest::NONE);
                    self.timers.set(token, Instant::now() + REST);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, listener_token: u64, fd: OwnedFd) {
        let Some(Entry::Listener(listener)) = self.entries.get(&listener_token) else { return };
        let (owner, endpoint) = (listener.owner.clone(), listener.bound.endpoint.clone());
        let fit = match transports::admits(&fd, &owner.options) {
            true => transports::tune(&fd, &endpoint, &owner.options),
            false => Err(Errno::ACCESS),
        };
        if let Err(error) = fit {
            let value = error.raw_os_error() as u32;
            monitor::emit(&owner.mailbox, Event::AcceptFailed, value, At::Bound(&endpoint));
            return;
        }
        let ends = transports::ends(&fd, &endpoint, true);
        monitor::emit_fd(&owner.mailbox, Event::Accepted, &fd, At::Between(&ends));
        if owner.is_raw() {
            let shaken = Shaken::raw(fd, &owner.options);
            self.attach(&owner, shaken, &ends, listener_token, ConnectionSide::Accepted);
            return;
        }
        let token = self.io.token();
        let session = match Session::new(fd, &owner, &listener.bound.layers, ConnectionSide::Accepted) {
            Ok(session) => Box::new(session),
            Err(refusal) => return refusal.emit(&owner.mailbox, At::Between(&ends)),
        };
        if self.io.poller().add(&session.stream, token, session.interest()).is_err() {
            return;
        }
        self.shake_until(token, &owner);
        let accepted = Accepted { owner, listener: listener_token, ends, session: Some(session) };
        self.entries.insert(token, Entry::Accepted(Box::new(accepted)));
        self.accepted_ready(token); // The peer waits for our greeting.
    }
}
