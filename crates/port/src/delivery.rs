//! A client of guaranteed delivery as a channel: it delivers on credit, and confirms what it sends when that is on the
//! disk.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Delivery, Durability, NewMessage, NotAcked, Settlement, Ticket};
use pinnace_interface::{DeliveryOptions, KnownPeer};
use rustix::io::Errno;

use crate::answers::{Answer, Desk, Started, start};
use crate::arguments::{each_option, own_keys, public_key, text_of};
use crate::bodies::Bodies;
use crate::credit::Credit;
use crate::delivery_messages::{Parsed, encoded};
use crate::pipes::Output;
use crate::refusal::Refusal;
use crate::wire::{BATCH_MAX, Fields, Malformed, PART_MAX, begin_delivery, end_packet};

const UNKNOWN: Refusal = Refusal::Other(Errno::NOENT, "no such delivery, or it was settled");
const UNCONFIRMED: Refusal =
    Refusal::Other(Errno::INPROGRESS, "all of it is accepted, and not known to be on the disk");

/// The verdict for a delivery that its handler still works on.
pub const IN_HAND: u8 = 4;

pub const NO_BODY: Refusal = Refusal::Other(Errno::INVAL, "no whole body");

/// What is sent, by the request with this id.
struct Work {
    id: u32,
    arguments: Vec<u8>,
    what: Sending,
}

enum Sending {
    /// A message. Some: its body, which came in parts; None: it follows the other arguments.
    Message(Option<Vec<u8>>),
    /// Messages, with the acknowledgement of a delivery, which has this token; and the bodies that came in parts.
    Together(u64, Delivery, Vec<Vec<u8>>),
}

pub struct DeliveryChannel {
    pub client: Arc<Client>,
    pub credit: Credit,
    /// Deliveries that the client of the port has, by their tokens.
    handed: HashMap<u64, Delivery>,
    last_token: u64,
    work: Sender<Work>,
    pub is_held: bool,
}

impl DeliveryChannel {
    /// Its messages are sent by a thread of its own, because a send may wait for room, and confirmed by another one.
    pub fn new(number: u32, client: Arc<Client>, desk: &Desk) -> Result<DeliveryChannel, Refusal> {
        let (work, to_send) = channel::<Work>();
        let (sent, to_confirm) = channel::<(u32, Sent)>();
        let (sender, confirmer) = (client.clone(), client.clone());
        let (tells, confirms) = (desk.clone(), desk.clone());
        start("port-send", move || {
            for Work { id, arguments, what } in to_send {
                let fields = Fields::new(&arguments);
                let outcome = match what {
                    Sending::Message(body) => send(&sender, fields, body.as_deref()),
                    Sending::Together(token, delivery, bodies) => {
                        send_together(&sender, delivery, fields, &bodies).map_err(|(delivery, error)| {
                            if let Some(delivery) = delivery {
                                tells.put(Answer::NotAcked { channel: number, token, delivery });
                            }
                            error
                        })
                    }
                };
                match outcome {
                    Ok(what) if what.waits => drop(sent.send((id, what))),
                    Ok(what) => tells.done(id, Ok(what.values)),
                    Err(error) => tells.done(id, Err(error)),
                }
            }
        })?;
        start("port-confirm", move || {
            for (id, Sent { ticket, deadline, values, acknowledges, .. }) in to_confirm {
                let done = confirmer.wait(ticket, deadline).map_err(|error| match error {
                    _ if acknowledges => UNCONFIRMED,
                    error => Refusal::Delivery(error),
                });
                confirms.done(id, done.map(|()| values));
            }
        })?;
        Ok(DeliveryChannel {
            client,
            credit: Credit::default(),
            handed: HashMap::new(),
            last_token: 0,
            work,
            is_held: false,
        })
    }

    pub fn descriptor(&self) -> Result<RawFd, Refusal> {
        Ok(self.client.readiness().map_err(Refusal::Delivery)?.as_raw_fd())
    }

    /// Sends a message, which is answered when it is on the disk.
    pub fn send(&self, id: u32, arguments: &[u8], body: Option<Vec<u8>>) {
        self.pass(id, arguments, Sending::Message(body));
    }

    /// Acknowledges a delivery and sends messages in one step. It takes the bodies that they name.
    pub fn send_together(&mut self, id: u32, mut of: Fields<'_>, bodies: &mut Bodies) -> Result<(), Refusal> {
        let token = of.u64()?;
        let messages = parsed(of)?;
        let named = messages.iter().filter_map(|message| message.body);
        let bodies: Option<Vec<Vec<u8>>> = named.map(|number| bodies.take(number)).collect();
        let bodies = bodies.ok_or(NO_BODY)?;
        let delivery = self.handed.remove(&token).ok_or(UNKNOWN)?;
        self.pass(id, of.rest(), Sending::Together(token, delivery, bodies));
        Ok(())
    }

    fn pass(&self, id: u32, arguments: &[u8], what: Sending) {
        // The thread lives as long as this channel.
        let _ = self.work.send(Work { id, arguments: arguments.to_vec(), what });
    }

    /// Takes a delivery back that was not acknowledged.
    pub fn put_back(&mut self, token: u64, delivery: Delivery) {
        self.handed.insert(token, delivery);
    }

    /// Delivers at most one packet, as far as there is credit. False: nothing more is there.
    pub fn deliver(&mut self, number: u32, output: &mut Output) -> bool {
        let at = begin_delivery(&mut output.buffer, number);
        let begin = output.buffer.len();
        let mut large = None;
        let mut may_have_more = true;
        while self.credit.is_left() && output.buffer.len() - at < BATCH_MAX {
            let delivery = match self.client.try_recv() {
                Ok(Some(delivery)) => delivery,
                outcome => {
                    may_have_more = false;
                    if outcome.is_err() {
                        // It receives no more, and its descriptor stays readable.
                        self.credit = Credit::default();
                    }
                    break;
                }
            };
            self.last_token += 1;
            let message = encoded(self.last_token, &delivery);
            self.handed.insert(self.last_token, delivery);
            self.credit.use_for(message.len());
            if message.len() > PART_MAX {
                large = Some(message);
                break;
            }
            if output.buffer.len() > begin && output.buffer.len() - at + message.len() > BATCH_MAX {
                end_packet(&mut output.buffer, at);
                output.deliver(number, &message);
                return true;
            }
            output.buffer.extend_from_slice(&message);
        }
        if output.buffer.len() == begin {
            output.buffer.truncate(at);
        } else {
            end_packet(&mut output.buffer, at);
        }
        if let Some(message) = large {
            output.deliver(number, &message);
            return true;
        }
        may_have_more
    }

    /// Settles a delivery.
    pub fn settle(&mut self, mut of: Fields<'_>) -> Result<(), Refusal> {
        let (token, verdict, delay) = (of.u64()?, of.u8()?, of.i32()?);
        of.end()?;
        if verdict == IN_HAND {
            self.handed.get(&token).ok_or(UNKNOWN)?.in_progress();
            return Ok(());
        }
        let settlement = settlement(verdict, delay)?;
        settle(self.handed.remove(&token).ok_or(UNKNOWN)?, settlement);
        Ok(())
    }

    /// Settles all that is not settled.
    pub fn settle_all(&mut self, verdict: u8) -> Result<(), Refusal> {
        let settlement = settlement(verdict, -1)?;
        self.handed.drain().for_each(|(_, delivery)| settle(delivery, settlement));
        Ok(())
    }
}

/// What a verdict says. None: the delivery is given back.
fn settlement(verdict: u8, delay: i32) -> Result<Option<Settlement>, Refusal> {
    Ok(Some(match verdict {
        0 => Settlement::Ack,
        1 => Settlement::Nack(u64::try_from(delay).ok().map(Duration::from_millis)),
        2 => Settlement::Terminate,
        3 => return Ok(None),
        5 => Settlement::Fail,
        _ => return Err(Refusal::Other(Errno::INVAL, "no such verdict")),
    }))
}

fn settle(delivery: Delivery, settlement: Option<Settlement>) {
    match settlement {
        Some(settlement) => delivery.settle(settlement),
        None => delivery.give_back(),
    }
}

/// What was sent, and is answered.
struct Sent {
    ticket: Ticket,
    /// It is answered when it is on the disk, and not before.
    waits: bool,
    deadline: Option<Instant>,
    values: Vec<u8>,
    /// A delivery was acknowledged by it.
    acknowledges: bool,
}

/// Begins to send.
fn send(client: &Client, of: Fields<'_>, body: Option<&[u8]>) -> Result<Sent, Refusal> {
    let message = Parsed::new(of)?;
    if message.body.is_some() {
        return Err(Refusal::Other(Errno::INVAL, "the body of a single message is not among its properties"));
    }
    if body.is_some() && !message.rest.is_empty() {
        return Err(Malformed::Long.into());
    }
    let options = message.options();
    let sent = client.send_async(message.topic, body.unwrap_or(message.rest), &options);
    let ticket = sent.map_err(Refusal::Delivery)?;
    let receivers = u32::try_from(ticket.receivers()).unwrap_or(u32::MAX);
    let waits = options.durability == Durability::Sync;
    let values = receivers.to_be_bytes().to_vec();
    Ok(Sent { ticket, waits, deadline: options.deadline, values, acknowledges: false })
}

/// Messages, each with its length before it.
fn parsed(mut of: Fields<'_>) -> Result<Vec<Parsed<'_>>, Refusal> {
    let mut messages = Vec::new();
    while !of.is_empty() {
        let message = Parsed::new(Fields::new(of.bytes()?))?;
        if message.body.is_some() && !message.rest.is_empty() {
            return Err(Malformed::Long.into());
        }
        messages.push(message);
    }
    Ok(messages)
}

/// Begins to acknowledge a delivery together with messages. `bodies`: of those that name one.
fn send_together(
    client: &Client,
    delivery: Delivery,
    of: Fields<'_>,
    bodies: &[Vec<u8>],
) -> Result<Sent, (Option<Box<Delivery>>, Refusal)> {
    let parsed = match parsed(of) {
        Ok(parsed) => parsed,
        Err(error) => return Err((Some(Box::new(delivery)), error)),
    };
    let mut bodies = bodies.iter();
    let messages: Vec<NewMessage<'_>> = parsed
        .iter()
        .map(|message| {
            let body = message.body.and_then(|_| bodies.next()).map_or(message.rest, Vec::as_slice);
            NewMessage { topic: message.topic, body, options: message.options() }
        })
        .collect();
    // As Client::ack_and_send: without messages, the acknowledgement is waited for.
    let waits =
        messages.is_empty() || messages.iter().any(|message| message.options.durability == Durability::Sync);
    let deadline = messages.iter().filter_map(|message| message.options.deadline).min();
    match client.ack_and_send_async(delivery, &messages) {
        Ok(ticket) => Ok(Sent { ticket, waits, deadline, values: Vec::new(), acknowledges: true }),
        Err(NotAcked { delivery, error }) => Err((delivery, Refusal::Delivery(error))),
    }
}

/// Starts a client in a thread. The arguments: name, topic, then options by their names.
pub fn begin(id: u32, channel: u32, of: Fields<'_>, desk: &Desk) -> Result<(), Refusal> {
    let (options, desk) = (options(of)?, desk.clone());
    Ok(start("port-start", move || {
        let name = options.name.clone();
        // It goes to the client of the port as the log.
        let builder = options.builder().on_error(move |error| eprintln!("delivery, {name}: {error}"));
        let outcome = builder.start().map_err(Refusal::Delivery);
        let outcome = outcome.map(|client| Started::Delivery(Arc::new(client)));
        desk.put(Answer::Started { id, channel, outcome });
    })?)
}

fn options(mut of: Fields<'_>) -> Result<DeliveryOptions, Refusal> {
    let mut options = DeliveryOptions::new(of.text()?, of.text()?);
    each_option(of, |key, value| {
        let mut fields = Fields::new(value);
        match key {
            b"topic" => options.topics.push(text_of(value)?.to_owned()),
            b"peer" => {
                let (name, endpoint) = (fields.text()?.to_owned(), fields.text()?.to_owned());
                let mut topics = Vec::new();
                while !fields.is_empty() {
                    topics.push(fields.text()?.to_owned());
                }
                options.peers.push(KnownPeer { name, endpoint, topics });
            }
            b"cert" => options.curve = Some(own_keys(value)?),
            b"trust" => {
                let (name, file) = (fields.text()?, fields.bytes()?);
                options.trusted.push((name.to_owned(), public_key(file)?));
            }
            key => options.set(key, value).map_err(Refusal::Unset)?,
        }
        Ok(())
    })?;
    Ok(options)
}
