//! Serving the links of a socket: what the poll set tells of, and what it does not know of.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_sys::poll::Batch;

use super::{Hub, WAKE_TOKEN};
use crate::lease::Leader;
use crate::link::Link;

impl Hub {
    /// Does what the poll set said can be done. The signal for the caller that leads there is that caller's to
    /// clear: it would sleep on if another did.
    pub(crate) fn serve(&self, ready: &Batch, leads: bool) {
        let mut served = false;
        for one in ready.iter() {
            if one.token == WAKE_TOKEN {
                if let Some(set) = self.poll_set()
                    && (leads || self.lease.leader() != Leader::InSet)
                {
                    set.wake.clear();
                    if !leads && self.lease.leader() == Leader::InSet {
                        set.wake.signal(); // It has come there meanwhile, and this may have been for it.
                    }
                }
                continue;
            }
            if let Some(link) = self.link_by_token(one.token) {
                link.serve(&one);
                served = true;
            }
        }
        if self.has_to_read.load(Ordering::Acquire) && self.has_to_read.swap(false, Ordering::AcqRel) {
            let tokens = std::mem::take(&mut *self.to_read.lock());
            for token in tokens {
                if let Some(link) = self.link_by_token(token) {
                    link.reads_again.store(false, Ordering::SeqCst);
                    link.read();
                }
            }
        }
        // Others may wait for what needs no mail (room, `Link::pace`), and sleep until a leader has served.
        if served && !leads && self.event.notify() && self.lease.leader() == Leader::InSet {
            self.poll_set().iter().for_each(|set| set.wake.signal());
        }
    }

    /// Peers of these links need not wake us from here on, until `rouse`, or until the caller sleeps by a bell: it
    /// looks by itself. It has entered the lease.
    pub(crate) fn hush(&self, links: &[Arc<Link>]) {
        links.iter().for_each(|link| link.hush());
        self.hushed.store(true, Ordering::SeqCst);
    }

    /// Peers wake us again. What they have written meanwhile is read at the next turn of whoever serves. Whoever
    /// sleeps elsewhere than by a bell, or leaves it to others to look, does this before.
    pub(crate) fn rouse(&self) {
        if self.hushed.load(Ordering::SeqCst) && self.hushed.swap(false, Ordering::SeqCst) {
            self.for_each_link(|link| {
                if !link.rouse() {
                    self.read_again(link);
                }
            });
        }
    }

    /// Has a link read on at the next turn of whoever serves.
    pub(crate) fn read_again(&self, link: &Link) {
        let (Some(token), Some(set)) = (link.token(), self.poll_set.get()) else { return };
        if link.reads_again.swap(true, Ordering::SeqCst) {
            return; // That is to come.
        }
        self.to_read.lock().push(token);
        self.has_to_read.store(true, Ordering::Release);
        set.wake.signal();
    }
}
