//! The threads on which all peer loops of a process run.

use pinnace_engine::Error;
use pinnace_eventloop::{EventLoop, Slot, WeakLoop};

use super::PeerLoop;
use crate::process::PerProcess;

/// The most threads; more stores share them.
const THREADS_MAX: usize = 4;

static RUNNING: PerProcess<Vec<WeakLoop<PeerLoop>>> = PerProcess::new();

/// A place for a peer loop: on a thread of its own as long as there are few, then on the thread that has fewest.
/// Errors: as of `EventLoop::start`.
pub fn slot() -> Result<Slot<PeerLoop>, Error> {
    RUNNING.with(|running| {
        let loops: Vec<EventLoop<PeerLoop>> = running.iter().filter_map(WeakLoop::upgrade).collect();
        let least = loops.iter().min_by_key(|events| events.slots());
        if let Some(least) = least.filter(|least| least.slots() == 0 || loops.len() == THREADS_MAX) {
            return Ok(least.slot());
        }
        let started = EventLoop::start("pinnace-peers")?;
        *running = loops.iter().chain([&started]).map(EventLoop::downgrade).collect();
        Ok(started.slot())
    })
}
