//! The sleep of a caller that waits for an event count alone.

use std::sync::Arc;
use std::time::Instant;

use pinnace_ring::{EventCount, Ticket};
use pinnace_sys::sleep::{Sleep, Slept};

use super::pending_sleep;
use crate::error::Error;

/// The prepared sleep of a caller until the event count is notified.
pub(crate) struct EventSleep {
    event: Arc<EventCount>,
    ticket: Option<Ticket>,
    pub(crate) sleep: Sleep,
}

impl EventSleep {
    pub(crate) fn new(event: &Arc<EventCount>, ticket: Ticket, deadline: Option<Instant>) -> EventSleep {
        let sleep = EventCount::sleep(event.clone(), |event| event, &ticket, deadline);
        EventSleep { event: event.clone(), ticket: Some(ticket), sleep }
    }

    pub(crate) fn end(self, slept: Slept) -> Result<(), Error> {
        if slept == Slept::TimedOut { Ok(()) } else { pending_sleep::outcome(slept) }
    }
}

impl Drop for EventSleep {
    fn drop(&mut self) {
        self.ticket.take().into_iter().for_each(|ticket| self.event.cancel(ticket));
    }
}
