//! A sender that does not wait for the disk after each message.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use pinnace::delivery::{Client, Error, Options, Ticket};

use crate::peer::TOPIC;

/// Maximum of unresolved tickets; beyond it, the sender waits for the oldest.
const TICKETS: usize = 50_000;

pub struct Pipeline<'a> {
    sender: &'a Client,
    options: Options<'static>,
    body: Vec<u8>,
    tickets: VecDeque<Ticket>,
}

impl<'a> Pipeline<'a> {
    pub fn new(sender: &'a Client, size: u64, options: Options<'static>) -> Pipeline<'a> {
        let (body, tickets) = (vec![b'.'; size as usize], VecDeque::with_capacity(TICKETS + 1));
        Pipeline { sender, options, body, tickets }
    }

    /// Sends messages with these numbers.
    pub fn send(&mut self, numbers: RangeInclusive<u64>) -> Result<(), Error> {
        for number in numbers {
            self.body[..8].copy_from_slice(&number.to_le_bytes());
            self.tickets.push_back(self.sender.send_async(TOPIC, &self.body, &self.options)?);
            if self.tickets.len() > TICKETS {
                self.tickets.pop_front().map_or(Ok(()), |ticket| self.sender.wait(ticket, None))?;
            }
        }
        Ok(())
    }

    /// Waits until every ticket is resolved.
    pub fn resolve(&mut self) -> Result<(), Error> {
        self.tickets.drain(..).try_for_each(|ticket| self.sender.wait(ticket, None))
    }
}
