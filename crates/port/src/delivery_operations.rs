//! The operations of guaranteed delivery.

use std::sync::Arc;

use pinnace_delivery::{Client, Error};
use rustix::io::Errno;

use crate::arguments::deadline;
use crate::credit::Credit;
use crate::delivery::{self, IN_HAND};
use crate::entries::Entries;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::wire::Fields;

const START: u16 = 50;
const SEND: u16 = 51;
const SETTLE: u16 = 52;
const SUBSCRIBE: u16 = 53;
const UNSUBSCRIBE: u16 = 54;
const PENDING: u16 = 55;
const STATISTICS: u16 = 56;
const DRAIN: u16 = 57;
const CLOSE: u16 = 58;
const WAIT_LISTENERS: u16 = 59;
const WAIT_PENDING: u16 = 60;
const CLEAR_PENDING: u16 = 61;
const FORGET: u16 = 62;
const ADDRESSES: u16 = 63;
const NEW_BODY: u16 = 64;
const SEND_BODY: u16 = 65;
const DROP_BODY: u16 = 66;
const TOGETHER: u16 = 67;
const PENDING_BY_PEER: u16 = 68;
const ABOUT: u16 = 69;

/// Carries an operation out. None: the answer comes later.
pub fn handle(
    session: &mut Session,
    id: u32,
    operation: u16,
    mut of: Fields<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let number = of.u32()?;
    match operation {
        START => {
            if session.has_channel(number) {
                return Err(Refusal::Other(Errno::EXIST, "the channel is in use"));
            }
            delivery::begin(id, number, of, session.desk()).map(|()| None)
        }
        SEND => {
            channel_of(session, number)?.send(id, of.rest(), None);
            Ok(None)
        }
        NEW_BODY => {
            of.end()?;
            if session.has_channel(number) {
                return Err(Refusal::Other(Errno::EXIST, "the channel is in use"));
            }
            session.bodies.begin(number);
            Ok(Some(Vec::new()))
        }
        SEND_BODY => {
            let body = of.u32()?;
            channel_of(session, number)?;
            let body = session.bodies.take(body).ok_or(delivery::NO_BODY)?;
            channel_of(session, number)?.send(id, of.rest(), Some(body));
            Ok(None)
        }
        TOGETHER => {
            let (channel, bodies) = (session.deliveries.get_mut(&number), &mut session.bodies);
            channel.ok_or(CLOSED)?.send_together(id, of, bodies).map(|()| None)
        }
        DROP_BODY => {
            of.end()?;
            session.bodies.forget(number);
            Ok(Some(Vec::new()))
        }
        SETTLE => channel_of(session, number)?.settle(of).map(|()| Some(Vec::new())),
        PENDING | STATISTICS | ADDRESSES | PENDING_BY_PEER | ABOUT => {
            answer(&channel_of(session, number)?.client, operation, of).map(Some)
        }
        _ => {
            let client = channel_of(session, number)?.client.clone();
            let verdict = if operation == CLOSE { Some(of.u8()?) } else { None };
            let call = waiting(&client, operation, of)?;
            match verdict {
                // The call waits for its deliveries, and the channel stays, so that they can be settled later.
                Some(IN_HAND) => channel_of(session, number)?.credit = Credit::default(),
                Some(verdict) => session.end_delivery(number, verdict)?,
                None => {}
            }
            session.desk().run(id, move || call().map_err(Refusal::Delivery))?;
            Ok(None)
        }
    }
}

const CLOSED: Refusal = Refusal::Delivery(Error::Closed);

fn channel_of(session: &mut Session, number: u32) -> Result<&mut delivery::DeliveryChannel, Refusal> {
    session.deliveries.get_mut(&number).ok_or(CLOSED)
}

/// What a client knows without waiting.
fn answer(client: &Client, operation: u16, mut of: Fields<'_>) -> Result<Vec<u8>, Refusal> {
    let topic = if operation == ADDRESSES { of.text()? } else { "" };
    of.end()?;
    Ok(match operation {
        PENDING => client.pending().to_be_bytes().to_vec(),
        ADDRESSES => client.addresses_of(topic).join("\n").into_bytes(),
        PENDING_BY_PEER => pending_by_peer(client),
        ABOUT => about(client),
        _ => {
            let mut values = Vec::new();
            // What the library writes can be read.
            let json = serde_json::from_str(&client.statistics().to_json()).unwrap_or_default();
            Entries::new(&mut values).json("", &json);
            values
        }
    })
}

/// Its values are those of the answer.
type Call = Box<dyn FnOnce() -> Result<Vec<u8>, Error> + Send>;

/// A call that may wait.
fn waiting(client: &Arc<Client>, operation: u16, mut of: Fields<'_>) -> Result<Call, Refusal> {
    let client = client.clone();
    let call: Call = match operation {
        SUBSCRIBE | UNSUBSCRIBE => {
            let topic = of.text()?.to_owned();
            let listens = operation == SUBSCRIBE;
            Box::new(move || {
                none(if listens { client.subscribe(&topic) } else { client.unsubscribe(&topic) })
            })
        }
        DRAIN => {
            let until = deadline(of.i32()?);
            Box::new(move || none(client.drain(until)))
        }
        CLOSE => {
            let until = deadline(of.i32()?);
            Box::new(move || none(client.close(until)))
        }
        WAIT_LISTENERS => {
            let (topic, count, until) = (of.text()?.to_owned(), of.u32()? as usize, deadline(of.i32()?));
            Box::new(move || none(client.wait_listeners(&topic, count, until)))
        }
        WAIT_PENDING => {
            let (most, until) = (of.u64()?, deadline(of.i32()?));
            Box::new(move || none(client.wait_pending(most, until)))
        }
        CLEAR_PENDING => {
            let topic = of.text()?.to_owned();
            Box::new(move || client.clear_pending(&topic).map(|count| count.to_be_bytes().to_vec()))
        }
        FORGET => {
            let name = of.text()?.to_owned();
            Box::new(move || none(client.forget(&name)))
        }
        _ => return Err(Refusal::Other(Errno::NOSYS, "unknown operation")),
    };
    of.end()?;
    Ok(call)
}

/// An answer without values.
fn none(outcome: Result<(), Error>) -> Result<Vec<u8>, Error> {
    outcome.map(|()| Vec::new())
}

/// A list of entries: for each topic and receiver, how many messages are not acknowledged.
fn pending_by_peer(client: &Client) -> Vec<u8> {
    let mut values = Vec::new();
    let mut entries = Entries::new(&mut values);
    for (index, pending) in client.pending_by_peer().iter().enumerate() {
        let of = |name: &str| format!("{index}.{name}");
        if let Some(receiver) = &pending.receiver {
            entries.text(&of("receiver"), receiver.as_bytes());
        }
        entries.text(&of("topic"), pending.topic.as_bytes());
        entries.number(&of("messages"), pending.messages);
        entries.number(&of("bytes"), pending.bytes);
        if let Some(oldest) = pending.oldest_ms {
            entries.number(&of("oldest_ms"), oldest);
        }
    }
    values
}

/// Entries about a client.
fn about(client: &Client) -> Vec<u8> {
    let mut values = Vec::new();
    let mut entries = Entries::new(&mut values);
    entries.text("name", client.name().as_bytes());
    entries.text("endpoint", client.endpoint().as_bytes());
    entries.text("store_id", client.store_id().as_bytes());
    entries.number("in_hand", client.in_hand() as u64);
    if let Some(address) = client.metrics_address() {
        entries.text("metrics", address.to_string().as_bytes());
    }
    if let Some(error) = client.registry_error() {
        entries.text("registry_error", error.to_string().as_bytes());
    }
    values
}
