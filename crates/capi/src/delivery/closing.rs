//! Lets those that close a client wait until other threads have left it, and until it has ended.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pinnace_delivery::Client;

use super::HANDLERS;

/// Clients that are closed but have not ended, by handle.
static CLOSING: Mutex<BTreeMap<usize, Arc<Closed>>> = Mutex::new(BTreeMap::new());

/// A client that is closed, and how far it is, with a condition variable to wait for that.
pub(super) struct Closed {
    core: Weak<Core>,
    /// How long closing waits for calls and handlers.
    pub(super) linger: Duration,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(PartialEq, PartialOrd)]
enum Stage {
    /// Calls or handlers of other threads are in progress.
    Used,
    /// All have returned.
    Left,
    Ended,
}

impl Closed {
    /// Returns false at the deadline.
    fn wait(&self, stage: Stage, until: Instant) -> bool {
        !self.changed.wait_while_until(&mut self.stage.lock(), |now| *now < stage, until).timed_out()
    }

    fn reach(&self, stage: Stage) {
        *self.stage.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits until other threads have left the client, and ends it in any case. Returns false if a call or a handler is
    /// still in progress.
    pub(super) fn end(&self, until: Instant, core: Option<Arc<Core>>) -> bool {
        let left = self.wait(Stage::Left, until);
        let mut done = true;
        if let Some(core) = core.or_else(|| self.core.upgrade()) {
            done = core.client.end_lingering(until);
        }
        // Another thread that drops it, or has left it just now, takes a limited time.
        left && self.wait(Stage::Ended, far()) && done
    }
}

/// No limit: the wait ends by itself.
pub(super) fn far() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}

/// What ends when all calls have left the client.
pub(super) struct Core {
    pub(super) client: Client,
    /// Dropped after the client.
    _ended: Mark,
    /// The client's handle and what its closers wait on; set by `begin`.
    closed: Arc<OnceLock<(usize, Arc<Closed>)>>,
}

/// Marks the client as ended when it is dropped.
struct Mark(Arc<OnceLock<(usize, Arc<Closed>)>>);

impl Drop for Mark {
    fn drop(&mut self) {
        let Some((handle, closed)) = self.0.get() else { return };
        CLOSING.lock().remove(handle);
        closed.reach(Stage::Ended);
    }
}

impl Core {
    pub(super) fn new(client: Client) -> Arc<Core> {
        let closed = Arc::<OnceLock<_>>::default();
        Arc::new(Core { client, _ended: Mark(closed.clone()), closed })
    }

    /// Registers the client of this handle as closing, and returns the object to wait on.
    pub(super) fn begin(self: &Arc<Core>, handle: *mut c_void) -> Arc<Closed> {
        let new = || Closed {
            core: Arc::downgrade(self),
            linger: self.client.handler_linger(),
            stage: Mutex::new(Stage::Used),
            changed: Condvar::new(),
        };
        let (handle, closed) = self.closed.get_or_init(|| (handle.addr(), Arc::new(new())));
        CLOSING.lock().insert(*handle, closed.clone());
        closed.clone()
    }

    /// The last call has left the client.
    pub(super) fn left(&self) {
        self.closed.get().into_iter().for_each(|(_, closed)| closed.reach(Stage::Left));
    }
}

impl Drop for Core {
    /// In a handler, the client's other handlers are not waited for: they may wait for this one.
    fn drop(&mut self) {
        if HANDLERS.try_with(Cell::get).is_ok_and(|handlers| handlers > 0) {
            self.client.end_lingering(Instant::now());
        }
    }
}

/// The object to wait on, if this client is closed but has not ended.
pub(super) fn of(handle: *mut c_void) -> Option<Arc<Closed>> {
    CLOSING.lock().get(&handle.addr()).cloned()
}
