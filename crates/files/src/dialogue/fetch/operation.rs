//! A fetch as an operation: how it begins, goes on and ends.

use std::time::Instant;

use super::Fetch;
use crate::dialogue::Event;
use crate::dialogue::events::Reporter;
use crate::dialogue::operation::{Asks, Operation, Reply};
use crate::dialogue::plain_follow::PlainFollow;
use crate::error::Error;
use crate::transfer::arrivals::Wanted;
use crate::wire::{Cheezburger, Mode, Request};

impl Operation for Fetch {
    fn begin(&mut self, asks: &mut Asks) {
        (self.open, self.is_listing, self.is_listed) = (0, false, false);
        self.names.clear();
        self.in_use.clear();
        self.arrivals.reset();
        self.unpacker.reset();
        let path = self.path.clone();
        if self.follows {
            let digests = self.checksum;
            return self.ask(asks, Request { digests, ..Request::new(0, Mode::Follow, &path) });
        }
        let known = self.arrivals.known(&path);
        // What is wrong with the place shows when the file begins.
        let wanted = self.arrivals.want(&path, None);
        let mode = match wanted {
            Ok(Wanted::Parts { .. }) if self.is_dry => Mode::Fetch,
            Ok(wanted @ Wanted::Parts { .. }) => return self.ask_for(asks, &path, wanted),
            Ok(Wanted::Values) if !self.is_dry => Mode::Values,
            _ => Mode::Fetch,
        };
        let known = known.map(|own| (own.size, own.mtime_ns)).filter(|_| !self.checksum);
        self.ask(asks, Request { known, ..Request::new(0, mode, &path) });
    }

    fn on_reply(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64 {
        self.reporter.note_answer();
        let settled = match self.unpacker.unpack(reply) {
            Ok(None) => self.handle(reply, asks),
            Ok(Some(plain)) => {
                let burger = Cheezburger { chunk: &plain, ..reply.burger };
                self.handle(&Reply { burger, ..*reply }, asks)
            }
            Err(error) => self.fail_chunk(reply, asks, error),
        };
        self.unpacker.credit_of(settled)
    }

    fn is_over(&self) -> bool {
        self.open == 0 && self.in_use.due().is_none()
    }

    fn due(&self) -> Option<Instant> {
        self.in_use.due()
    }

    fn on_due(&mut self, now: Instant, asks: &mut Asks) -> u64 {
        self.in_use.take_due(now).iter().for_each(|filename| self.retry(filename, asks));
        let settled = self.rest_if_done(asks);
        self.unpacker.credit_of(settled)
    }

    fn abort(&mut self, error: Error) -> u64 {
        let settled = self.unpacker.credit_of(self.arrivals.unsettled());
        self.arrivals.reset();
        self.reporter.tell(Event::Aborted(error));
        settled
    }

    fn waits_for_server(&mut self, error: &dyn Fn() -> Error) -> bool {
        self.follows && self.reporter.note_loss(error)
    }

    fn follow_plainly(&mut self) -> Option<PlainFollow> {
        let reporter = Reporter::new(self.reporter.events.clone());
        let outcome = self.follows.then(|| {
            self.arrivals.reset();
            PlainFollow::new(&self.path, self.arrivals.place(), self.arrivals.selection(), reporter)
        });
        match outcome? {
            Ok(follow) => Some(follow),
            Err((mut reporter, error)) => {
                reporter.fail(&self.path, error);
                reporter.end();
                None
            }
        }
    }
}
