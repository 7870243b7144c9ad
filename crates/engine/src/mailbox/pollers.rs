//! The callers that wait for a socket among others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pinnace_sys::wake::WakeFd;

use crate::waiting::PollerRegistration;

#[derive(Default)]
pub(crate) struct Pollers {
    /// Calls of `poll`; woken like callers that sleep in the socket.
    calls: Mutex<Vec<Arc<WakeFd>>>,
    /// Registrations of pollers (`poller`), which are told of every change.
    registrations: Mutex<Vec<Arc<PollerRegistration>>>,
    has_registrations: AtomicBool,
}

impl Pollers {
    pub(crate) fn add_call(&self, wake: &Arc<WakeFd>) {
        self.calls.lock().push(wake.clone());
    }

    pub(crate) fn remove_call(&self, wake: &Arc<WakeFd>) {
        let mut calls = self.calls.lock();
        if let Some(index) = calls.iter().position(|other| Arc::ptr_eq(other, wake)) {
            calls.swap_remove(index);
        }
    }

    /// Wakes the calls of `poll`.
    pub(super) fn wake(&self) {
        self.calls.lock().iter().for_each(|wake| wake.signal());
    }

    /// True if a poller has this socket registered.
    pub(crate) fn has_registrations(&self) -> bool {
        self.has_registrations.load(Ordering::SeqCst)
    }

    /// Tells the pollers that the socket's state may have changed.
    pub(crate) fn notify(&self) {
        if self.has_registrations() {
            self.registrations.lock().iter().for_each(|registration| registration.tell());
        }
    }

    pub(crate) fn register(&self, registration: &Arc<PollerRegistration>) {
        self.registrations.lock().push(registration.clone());
        self.has_registrations.store(true, Ordering::SeqCst);
    }

    /// Removes a poller's registration. True: others remain.
    pub(crate) fn unregister(&self, registration: &Arc<PollerRegistration>) -> bool {
        let mut registrations = self.registrations.lock();
        registrations.retain(|other| !Arc::ptr_eq(other, registration));
        self.has_registrations.store(!registrations.is_empty(), Ordering::SeqCst);
        !registrations.is_empty()
    }
}
