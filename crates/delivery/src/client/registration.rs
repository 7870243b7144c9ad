//! A client's place in its store and its peer loop.
//!
//! It outlasts the client while a delivery is in hand: an acknowledgement after the client was closed counts, and the
//! message is not handled again. A client of the same name that is started meanwhile ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::inbox::Inbox;
use crate::instance::{Instance, NameHold};

/// Held by a client and by each of its deliveries. Dropping the last one removes the client from its peer loop.
pub struct Registration {
    client: u32,
    instance: Arc<Instance>,
    pub inbox: Arc<Inbox>,
    /// The client has ended: only deliveries need this now.
    closed: AtomicBool,
    /// None: it has ended, and settling a delivery has no effect.
    hold: Mutex<Option<NameHold>>,
}

impl Registration {
    pub fn new(
        client: u32,
        hold: NameHold,
        instance: &Arc<Instance>,
        inbox: Arc<Inbox>,
    ) -> Arc<Registration> {
        let registration = Arc::new(Registration {
            client,
            instance: instance.clone(),
            inbox,
            closed: AtomicBool::new(false),
            hold: Mutex::default(),
        });
        let weak = Arc::downgrade(&registration);
        hold.may_end_by(move || weak.upgrade().is_some_and(|registration| registration.end_if_closed()));
        *registration.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        registration
    }

    /// The client has ended: the registration ends with its last delivery in hand.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.end_if_done();
    }

    /// Ends it if the client has ended, and no delivery is in hand. Called after each settlement: the inbox's lock
    /// orders it with `close`.
    pub fn end_if_done(&self) {
        if self.closed.load(Ordering::Relaxed) && self.inbox.in_hand() == 0 {
            self.end();
        }
    }

    pub fn has_ended(&self) -> bool {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns false if the client is open.
    fn end_if_closed(&self) -> bool {
        let closed = self.closed.load(Ordering::Relaxed);
        if closed {
            self.end();
        }
        closed
    }

    /// Logs what was handled, acknowledges it, and gives the name back.
    fn end(&self) {
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if hold.is_some() {
            self.inbox.make_void();
            self.instance.peer_loop.remove(self.client);
            *hold = None;
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}
