//! Serves the links of a socket: those that the poll set reports, and those with input that it does not report.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_sys::poll::Batch;

use super::Mailbox;
use crate::io::Command;
use crate::link::Link;
use crate::ownership::Leader;

impl Mailbox {
    /// Serves the links that the poll set reported. `leads`: the leading caller calls this.
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
            self.notify_served();
        }
    }

    /// Continues reading where one turn was not enough (`read_again`).
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

    /// Tells waiting callers that a thread other than the leader has served connections. Callers may wait for
    /// something that needs no notice (room, `Link::pace`), and sleep until a leader has served.
    pub(crate) fn notify_served(&self) {
        if self.event.notify() {
            self.wake_leader();
        }
    }

    /// Suppresses the wake-ups by the peers of `links`, until `resume_wakeups` or until the caller sleeps at a
    /// doorbell: the caller polls the memory itself. It must have entered `ownership`.
    pub(crate) fn suppress_wakeups(&self, links: &[Arc<Link>]) {
        links.iter().for_each(|link| link.suppress_wakeups());
        self.wakeups_suppressed.store(true, Ordering::SeqCst);
    }

    /// Peers wake us again. Data that they wrote meanwhile is read at the next turn of the serving thread. A caller
    /// does this before it sleeps elsewhere than at a doorbell, or leaves the polling to others.
    #[inline]
    pub(crate) fn resume_wakeups(&self) {
        if self.wakeups_suppressed.load(Ordering::SeqCst) {
            self.resume_suppressed();
        }
    }

    fn resume_suppressed(&self) {
        if self.wakeups_suppressed.swap(false, Ordering::SeqCst) {
            self.for_each_link(|link| {
                if !link.resume_wakeups() {
                    link.mailbox.read_again(link);
                }
            });
        }
    }

    /// Has a link read again at the next turn of the serving thread.
    pub(crate) fn read_again(self: &Arc<Mailbox>, link: &Link) {
        let Some(token) = link.token() else { return };
        if link.reads_again.swap(true, Ordering::SeqCst) {
            return; // Already queued.
        }
        self.to_read.lock().push(token);
        self.has_to_read.store(true, Ordering::SeqCst);
        match self.ownership.leader() {
            Leader::InSet => self.signal.wake(),
            Leader::Awake => {} // The leader checks `has_unread` before it sleeps.
            Leader::Nobody if self.ownership.is_taken() => {
                self.pollers.wake();
                self.pollers.notify();
            }
            Leader::AtDoorbell | Leader::Nobody => self.have_io_read_on(),
        }
    }

    /// True if links wait to be read. The leader checks this after it has published where it sleeps.
    pub(crate) fn has_unread(&self) -> bool {
        self.has_to_read.load(Ordering::SeqCst)
    }

    /// Has the I/O thread continue reading.
    pub(crate) fn have_io_read_on(self: &Arc<Mailbox>) {
        self.io.get().iter().for_each(|io| io.send(Command::ReadOn(self.clone())));
    }
}
