//! Executor tasks that wait for a socket: each leaves a waker, which is woken when something may have changed.
//!
//! A task leaves its waker, retries its operation, and only then suspends. A wake-up guarantees nothing. All waiting
//! tasks are woken, so a task that has lost interest does not hold up the others.
//!
//! Wakers run the executor's code. The I/O thread runs them, because it alone is known to hold no lock at that point.
//! While tasks use a socket, the I/O thread also serves the connections, as it does for watched descriptors.

use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

use super::Socket;
use crate::error::Error;
use crate::mailbox::WakerPlace;
use crate::waiting::Waiter;

impl Socket {
    /// Registers `waker` to be woken once when something may have changed, and flushes unwritten data. The caller
    /// keeps `place` from call to call, and retries its operation before it suspends.
    pub fn wake_task(self, place: &mut Option<WakerPlace>, waker: &Waker) -> Result<(), Error> {
        let (mailbox, io) = {
            let core = self.lock()?;
            (core.mailbox.clone(), core.io.clone())
        };
        mailbox.level_watcher_of(&io);
        if mailbox.ownership.is_taken() {
            // Waiting callers do not take ownership again (`Mailbox::has_descriptor`).
            mailbox.ownership.reclaim(&io, &mailbox, false);
        }
        place.get_or_insert_with(|| WakerPlace::new(&mailbox)).leave(waker);
        fence(Ordering::SeqCst); // A later notice finds the waker; an earlier one is found by the caller's retry.
        Waiter::of(mailbox).flush();
        Ok(())
    }
}
