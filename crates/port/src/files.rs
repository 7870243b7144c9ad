//! Servers, clients and transfers of files. A transfer is a channel: it delivers its events on credit, and its request
//! is answered when it is over and they are delivered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};

use pinnace_files::client::{Client, Event, Transfer};
use pinnace_files::error::Error;
use pinnace_files::server::Server;
use rustix::io::Errno;

use crate::answers::{Answer, Desk, start};
use crate::credit::Credit;
use crate::events;
use crate::pipes::Output;
use crate::refusal::{Refusal, answer};
use crate::wire::{BATCH_MAX, begin_delivery, end_packet};

/// The most events that are taken at once; others have their turn then.
const EVENTS_MAX: usize = 1024;

/// The most octets of several events in one packet; the rest of it is for its kind and channel.
const MESSAGES_MAX: usize = BATCH_MAX - 16;

/// Begins a transfer. It may wait for the disk of this host.
pub type Begin = Box<dyn FnOnce(&Client) -> Transfer + Send>;

#[derive(Default)]
pub struct Files {
    servers: HashMap<u32, Server>,
    pub clients: HashMap<u32, Arc<Client>>,
    transfers: HashMap<u32, Running>,
}

/// A transfer as the port's client sees it.
struct Running {
    /// The channel of its client.
    client: u32,
    /// The request that is answered when it is over.
    id: u32,
    /// The kinds of events that are delivered, as bits.
    wanted: u32,
    credit: Credit,
    /// None: it has not begun.
    transfer: Option<Transfer>,
    /// An event that waits for credit.
    held: Option<Event>,
    is_cancelled: bool,
}

/// Tells the loop that a transfer may have events.
struct Doorbell {
    channel: u32,
    desk: Desk,
}

impl Wake for Doorbell {
    fn wake(self: Arc<Doorbell>) {
        self.desk.put(Answer::Events { channel: self.channel });
    }
}

/// What is next of a transfer.
enum Next {
    /// An event as a message, for which there is credit.
    Message(Vec<u8>),
    /// Nothing now.
    Wait,
    Over(Result<Vec<u8>, Refusal>),
}

impl Running {
    /// The next event that is wanted, as far as there is credit.
    fn next(&mut self, waker: &Waker) -> Option<Next> {
        let Some(transfer) = &self.transfer else { return Some(Next::Wait) };
        let event = match self.held.take() {
            Some(event) => event,
            None => match transfer.poll_event(&mut Context::from_waker(waker)) {
                Poll::Ready(Some(event)) => event,
                Poll::Ready(None) => return Some(Next::Over(Err(Refusal::Files(Error::Cancelled)))),
                Poll::Pending => return Some(Next::Wait),
            },
        };
        match event {
            Event::Ended(report) => return Some(Next::Over(Ok(events::report(&report)))),
            Event::Aborted(error) => return Some(Next::Over(Err(Refusal::Files(error)))),
            _ => {}
        }
        let kind = events::kind_of(&event)?;
        if self.is_cancelled || self.wanted & (1 << kind) == 0 {
            return None;
        }
        if !self.credit.is_left() {
            self.held = Some(event);
            return Some(Next::Wait);
        }
        let message = events::encoded(kind, &event);
        self.credit.use_for(message.len());
        Some(Next::Message(message))
    }
}

impl Files {
    pub fn has_channel(&self, number: u32) -> bool {
        self.servers.contains_key(&number)
            || self.clients.contains_key(&number)
            || self.transfers.contains_key(&number)
    }

    pub fn has_transfer(&self, number: u32) -> bool {
        self.transfers.contains_key(&number)
    }

    /// Returns the server's endpoints.
    pub fn add_server(&mut self, number: u32, server: Server) -> Vec<u8> {
        let mut values = Vec::new();
        for endpoint in server.endpoints() {
            values.extend_from_slice(&u32::try_from(endpoint.len()).unwrap_or(u32::MAX).to_be_bytes());
            values.extend_from_slice(endpoint.as_bytes());
        }
        self.servers.insert(number, server);
        values
    }

    pub fn server(&self, number: u32) -> Result<&Server, Refusal> {
        self.servers.get(&number).ok_or(Refusal::Other(Errno::NOENT, "no such server"))
    }

    /// Ends a server, and answers when its threads have ended.
    pub fn stop_server(&mut self, id: u32, number: u32, desk: &Desk) -> Result<(), Refusal> {
        self.server(number)?;
        let server = self.servers.remove(&number);
        Ok(desk.run(id, move || {
            drop(server);
            Ok(Vec::new())
        })?)
    }

    /// Begins a transfer with a client, in a thread.
    pub fn begin(&mut self, id: u32, to: To, begin: Begin, desk: &Desk) -> Result<(), Refusal> {
        let To { client: of, channel, wanted, credit } = to;
        let client = self.clients.get(&of).ok_or(Refusal::Other(Errno::NOENT, "no such client"))?.clone();
        let there = desk.clone();
        start("port-begin", move || {
            let transfer = begin(&client);
            there.put(Answer::Began { id, channel, transfer });
        })?;
        let (transfer, held, is_cancelled) = Default::default();
        let running = Running { client: of, id, wanted, credit, transfer, held, is_cancelled };
        self.transfers.insert(channel, running);
        Ok(())
    }

    /// A thread has begun a transfer.
    pub fn begun(&mut self, id: u32, number: u32, transfer: Transfer) {
        match self.transfers.get_mut(&number).filter(|running| running.id == id) {
            Some(running) => {
                if running.is_cancelled {
                    transfer.cancel();
                }
                running.transfer = Some(transfer);
            }
            // Its client was closed since.
            None => drop(start("port-end", move || end_all(&[transfer]))),
        }
    }

    /// False: there is no such transfer.
    pub fn grant(&mut self, number: u32, messages: u32, octets: u32) -> bool {
        let Some(running) = self.transfers.get_mut(&number) else { return false };
        running.credit.grant(messages, octets);
        true
    }

    /// Ends a transfer soon. Its events are dropped.
    pub fn cancel(&mut self, number: u32) -> Result<(), Refusal> {
        let running = self.transfers.get_mut(&number);
        let running = running.ok_or(Refusal::Other(Errno::NOENT, "no such transfer"))?;
        running.is_cancelled = true;
        if let Some(transfer) = &running.transfer {
            transfer.cancel();
        }
        Ok(())
    }

    /// Delivers at most one packet of a transfer's events, or answers if it is over. True: there may be more.
    pub fn deliver(&mut self, number: u32, output: &mut Output, desk: &Desk) -> bool {
        let Some(running) = self.transfers.get_mut(&number) else { return false };
        let waker = Waker::from(Arc::new(Doorbell { channel: number, desk: desk.clone() }));
        let (mut batch, mut may_have_more, mut over) = (Vec::new(), true, None);
        for _ in 0..EVENTS_MAX {
            match running.next(&waker) {
                None => {}
                Some(Next::Message(message)) => {
                    if batch.len() + message.len() > MESSAGES_MAX {
                        put_batch(number, &mut batch, output);
                        output.deliver(number, &message);
                        break;
                    }
                    batch.extend_from_slice(&message);
                }
                Some(Next::Wait) => {
                    may_have_more = false;
                    break;
                }
                Some(Next::Over(outcome)) => {
                    may_have_more = false;
                    over = Some(outcome);
                    break;
                }
            }
        }
        put_batch(number, &mut batch, output);
        if let Some(outcome) = over {
            let id = running.id;
            self.transfers.remove(&number);
            answer(output, id, outcome);
        }
        may_have_more
    }

    /// Ends a client with its transfers, and answers when they have ended.
    pub fn close_client(
        &mut self,
        id: u32,
        number: u32,
        output: &mut Output,
        desk: &Desk,
    ) -> Result<(), Refusal> {
        let client = self.clients.remove(&number).ok_or(Refusal::Other(Errno::NOENT, "no such client"))?;
        let ended: Vec<Running> = self
            .transfers
            .extract_if(|_, running| running.client == number)
            .map(|(_, ended)| ended)
            .collect();
        for running in &ended {
            answer(output, running.id, Err(Refusal::Files(Error::Cancelled)));
        }
        let transfers: Vec<Transfer> = ended.into_iter().filter_map(|running| running.transfer).collect();
        Ok(desk.run(id, move || {
            end_all(&transfers);
            drop((transfers, client));
            Ok(Vec::new())
        })?)
    }

    /// Ends everything in a thread, which disconnects when it has.
    pub fn end(self) -> Receiver<()> {
        let (ends, ended) = channel();
        let Files { servers, clients, transfers } = self;
        let transfers: Vec<Transfer> =
            transfers.into_values().filter_map(|running| running.transfer).collect();
        let end = move || {
            end_all(&transfers);
            drop((transfers, clients, servers, ends));
        };
        let _ = start("port-end", end);
        ended
    }
}

/// Where a transfer is to be told.
pub struct To {
    /// The channel of the client.
    pub client: u32,
    pub channel: u32,
    /// The kinds of events, as bits.
    pub wanted: u32,
    pub credit: Credit,
}

fn put_batch(number: u32, batch: &mut Vec<u8>, output: &mut Output) {
    if !batch.is_empty() {
        let at = begin_delivery(&mut output.buffer, number);
        output.buffer.append(batch);
        end_packet(&mut output.buffer, at);
    }
}

/// Cancels transfers, and waits until they have ended.
fn end_all(transfers: &[Transfer]) {
    transfers.iter().for_each(Transfer::cancel);
    transfers.iter().for_each(|transfer| while transfer.next_event().is_some() {});
}
