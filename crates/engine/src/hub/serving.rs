//! Serving the links of a socket: what the poll set tells of, and what it does not know of.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_sys::poll::Batch;

use super::Hub;
use crate::lease::Leader;
use crate::link::Link;
use crate::reactor::Command;

impl Hub {
    /// Does what the poll set said can be done.
    pub(crate) fn serve(&self, ready: &Batch, leads: bool) {
        let mut served = false;
        for one in ready.iter() {
            if let Some(link) = self.link_by_token(one.token) {
                link.serve(&one);
                served = true;
            }
        }
        self.serve_unread();
        if served && !leads {
            self.tell_of_service();
        }
    }

    /// Reads on where one turn was not enough (`read_again`).
    pub(crate) fn serve_unread(&self) {
        if self.has_to_read.load(Ordering::Acquire) && self.has_to_read.swap(false, Ordering::AcqRel) {
            let tokens = std::mem::take(&mut *self.to_read.lock());
            for token in tokens {
                if let Some(link) = self.link_by_token(token) {
                    link.reads_again.store(false, Ordering::SeqCst);
                    link.read();
                }
            }
        }
    }

    /// Connections were served, and not by the caller that leads. Callers may wait for what needs no mail (room,
    /// `Link::pace`), and sleep until a leader has served.
    pub(crate) fn tell_of_service(&self) {
        if self.event.notify() {
            self.wake_leader();
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
                    link.hub.read_again(link);
                }
            });
        }
    }

    /// Has a link read on at the next turn of whoever serves.
    pub(crate) fn read_again(self: &Arc<Hub>, link: &Link) {
        let Some(token) = link.token() else { return };
        if link.reads_again.swap(true, Ordering::SeqCst) {
            return; // That is to come.
        }
        self.to_read.lock().push(token);
        self.has_to_read.store(true, Ordering::SeqCst);
        match self.lease.leader() {
            Leader::InSet => self.signal.wake(),
            Leader::Awake => {} // It looks once more before it sleeps (`has_unread`).
            Leader::Nobody if self.lease.is_taken() => {
                self.pollers.lock().iter().for_each(|poller| poller.signal());
                self.tell_watches();
            }
            Leader::AtBell | Leader::Nobody => self.have_io_read_on(),
        }
    }

    /// Whether links are to be read on. A caller that leads looks after it has said where it sleeps.
    pub(crate) fn has_unread(&self) -> bool {
        self.has_to_read.load(Ordering::SeqCst)
    }

    /// Has the I/O thread read on.
    pub(crate) fn have_io_read_on(self: &Arc<Hub>) {
        self.io.get().iter().for_each(|io| io.send(Command::ReadOn(self.clone())));
    }
}
