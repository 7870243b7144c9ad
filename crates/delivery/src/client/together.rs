//! Consuming and producing in one step: an acknowledgement, and the messages that follow from it, in one batch of the
//! log.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::MutexGuard;
use std::time::Instant;

use super::accepting::needs_guard;
use super::content::{Content, ToSend};
use super::routes::Route;
use super::{Client, Delivery, Durability, Options, Ticket};
use crate::Error;
use crate::inbox::Message;
use crate::log::{LogError, Urgency};
use crate::signal::Patience;
use crate::store::{IdState, Sending, State};

/// A message for [`Client::ack_and_send`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NewMessage<'a> {
    pub topic: &'a str,
    pub body: &'a [u8],
    pub options: Options<'a>,
}

/// Why a delivery was not acknowledged together with messages.
pub struct NotAcked {
    /// The delivery, which is still to be settled; no message was sent. None: the acknowledgement and the messages were
    /// accepted, and whether they are on the disk is not known.
    pub delivery: Option<Box<Delivery>>,
    pub error: Error,
}

impl fmt::Debug for NotAcked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_accepted = self.delivery.is_none();
        f.debug_struct("NotAcked").field("error", &self.error).field("is_accepted", &is_accepted).finish()
    }
}

impl fmt::Display for NotAcked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotAcked {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Drops the delivery, if there is one: it has failed, and is delivered again.
impl From<NotAcked> for Error {
    fn from(not: NotAcked) -> Error {
        not.error
    }
}

/// A checked message, with what is stored of it.
struct Prepared<'a> {
    message: &'a ToSend<'a>,
    content: &'a Content<'a>,
    parts: Vec<(u8, Cow<'a, [u8]>)>,
}

impl Client {
    /// Acknowledges a delivery of this client and sends messages, in one step: a crash of this process or of the
    /// machine leaves all of it or nothing. Without messages it acknowledges alone. Ok: it is on this machine's disk;
    /// if there are messages, and all are [`Durability::Interval`], it will be.
    ///
    /// No message leaves this machine before the acknowledgement is on its disk. The call waits for room and for the
    /// disk until the earliest deadline of the messages. A message whose [id](Options::id) was sent before is not
    /// stored again, and does not keep the others and the acknowledgement from being recorded.
    ///
    /// Errors, with the delivery, which is still to be settled: those of [`send`](Client::send) for each message;
    /// TooLargeTogether; Together, for [`Durability::Memory`] and for another client's delivery; Void, nothing was sent
    /// since the acknowledgement would not count. Without the delivery: TimedOut and Failed, while it waited for the
    /// disk; a message that is sent again then needs an id.
    ///
    /// ```
    /// # use pinnace_delivery::{Client, NewMessage};
    /// # let dir = tempfile::tempdir()?;
    /// # let registry = format!("dir://{}", dir.path().join("registry").display());
    /// # let start = |name: &str, topic: &str| {
    /// #     Client::builder(name, topic).data_dir(dir.path().join(name)).registry(&registry).start()
    /// # };
    /// # let (billing, shop, printer) =
    /// #     (start("billing", "orders")?, start("shop", "offers")?, start("printer", "invoices")?);
    /// # shop.send_to("orders", b"3 pinnaces")?;
    /// let order = billing.recv(None)?;
    /// let invoice = [b"invoice: ", order.body()].concat();
    /// let message = NewMessage { topic: "invoices", body: &invoice, ..NewMessage::default() };
    /// billing.ack_and_send(order, &[message])?;
    /// # assert_eq!(printer.recv(None)?.body(), b"invoice: 3 pinnaces");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ack_and_send(&self, delivery: Delivery, messages: &[NewMessage<'_>]) -> Result<(), NotAcked> {
        let ticket = self.ack_and_send_async(delivery, messages)?;
        let waits = |message: &NewMessage<'_>| message.options.durability == Durability::Sync;
        if messages.is_empty() || messages.iter().any(waits) {
            let waited = self.wait(ticket, deadline_of(messages));
            waited.map_err(|error| NotAcked { delivery: None, error })?;
        }
        Ok(())
    }

    /// As `ack_and_send`, without waiting for the disk; [`wait`](Client::wait) does, with the ticket. An error has the
    /// delivery.
    pub fn ack_and_send_async(
        &self,
        delivery: Delivery,
        messages: &[NewMessage<'_>],
    ) -> Result<Ticket, NotAcked> {
        match self.begin_together(&delivery, messages) {
            Ok(batch) => {
                delivery.end_acknowledged();
                Ok(Ticket::of(batch, 0))
            }
            Err(error) => Err(NotAcked { delivery: Some(Box::new(delivery)), error }),
        }
    }

    /// Returns the batch.
    fn begin_together(&self, delivery: &Delivery, messages: &[NewMessage<'_>]) -> Result<u64, Error> {
        self.check_open()?;
        let Some(inbound) = delivery.message().filter(|_| !delivery.is_void()) else {
            return Err(Error::Void);
        };
        if !delivery.is_of(&self.registration) {
            return Err(Error::Together("the delivery is another client's"));
        }
        if messages.iter().any(|message| message.options.durability == Durability::Memory) {
            return Err(Error::Together(
                "a message that is sent with an acknowledgement must be stored: Durability::Memory is not possible",
            ));
        }
        let checked = messages
            .iter()
            .map(|message| self.check(message.topic, message.body, &message.options, self.deduplicate_for));
        let checked = checked.collect::<Result<Vec<ToSend<'_>>, Error>>()?;
        let contents: Vec<Content<'_>> =
            checked.iter().map(|message| message.content(self.pack_from)).collect();
        let prepared: Vec<Prepared<'_>> = checked.iter().zip(&contents).map(Prepared::new).collect();
        let patience = self.patience(deadline_of(messages));
        self.or_closed(self.accept_together(inbound, &prepared, patience))
    }

    /// Accepts all in one batch, once there is room and no message is in the middle of its parts in the streams.
    fn accept_together(
        &self,
        inbound: &Message,
        prepared: &[Prepared<'_>],
        patience: Patience<'_>,
    ) -> Result<u64, Error> {
        let (store, of, done) =
            (&self.instance.store, inbound.parts.first().frame.origin.of, inbound.numbers());
        loop {
            store.log().wait_until_calm(patience)?;
            let (mut state, routes) = self.routes_with_room(prepared, patience)?;
            let streams: Vec<u32> = routes.iter().flat_map(Route::streams).copied().collect();
            if state.is_in_parts(&streams) {
                drop(store.wait_for_end(state, &streams, patience).ok_or(Error::TimedOut)?);
                continue;
            }
            let Some(new) = self.new_ones(&state, prepared)? else {
                drop(store.wait_for_progress(state, patience).ok_or(Error::TimedOut)?);
                continue;
            };
            let number = self.record.number;
            let sendings: Vec<Sending<'_>> = prepared
                .iter()
                .zip(&routes)
                .zip(new)
                .filter(|(_, is_new)| *is_new)
                .flat_map(|((one, route), _)| one.sendings(number, route))
                .collect();
            let record = || store.accept_together(&mut state, &sendings, &of, &done);
            match self.inbox.ack_recorded(inbound, record).ok_or(Error::Void)? {
                Ok(accepted) => return Ok(accepted.batch),
                Err(LogError::NoRoom(_)) if store.drop_taken(&mut state) => {}
                Err(LogError::NoRoom(_)) => {
                    drop(state);
                    self.wait_for_room(patience)?;
                }
                Err(LogError::TooLarge) => {
                    return Err(Error::TooLargeTogether(store.log().largest_together()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The streams of the messages, once there is room for those that are opened.
    fn routes_with_room(
        &self,
        prepared: &[Prepared<'_>],
        patience: Patience<'_>,
    ) -> Result<(MutexGuard<'_, State>, Vec<Route>), Error> {
        self.with_room(patience, |state, opened| {
            let (mut routes, mut guards) = (Vec::with_capacity(prepared.len()), false);
            for one in prepared {
                let route = self.route(state, one.message.topic, one.message.options, opened)?;
                guards |= needs_guard(one.content, &route);
                routes.push(route);
            }
            Ok((routes, guards))
        })
    }

    /// Which messages are new: not sent before with their id, and not one of the earlier ones here. None: another
    /// thread sends parts of one of them.
    fn new_ones(&self, state: &State, prepared: &[Prepared<'_>]) -> Result<Option<Vec<bool>>, Error> {
        let (mut new, mut digests) = (Vec::with_capacity(prepared.len()), HashSet::new());
        for one in prepared {
            let Some(id) = &one.message.id else {
                new.push(true);
                continue;
            };
            match state.sent.state_of(self.record.number, id) {
                IdState::New => new.push(digests.insert(id.digest)),
                IdState::Sent(sent) if sent.is_volatile => {
                    return Err(Error::Together(
                        "a message with this id was sent before with Durability::Memory",
                    ));
                }
                IdState::Sent(_) => new.push(false),
                IdState::Underway => return Ok(None),
            }
        }
        Ok(Some(new))
    }
}

impl<'a> Prepared<'a> {
    fn new((message, content): (&'a ToSend<'a>, &'a Content<'a>)) -> Prepared<'a> {
        Prepared { message, content, parts: (0..content.parts()).map(|part| content.part(part)).collect() }
    }

    /// Its parts, for the store.
    fn sendings<'s>(&'s self, client: u32, route: &'s Route) -> impl Iterator<Item = Sending<'s>> {
        // All of it is synced, also of `Durability::Interval`: the peer loop sends what is written, and without the
        // acknowledgement on the disk a power cut would have the messages sent again.
        let sending = move |(flags, body): &'s (u8, Cow<'a, [u8]>)| {
            self.message.sending(client, route, (*flags, body), Urgency::Sync)
        };
        self.parts.iter().map(sending)
    }
}

/// The earliest deadline.
fn deadline_of(messages: &[NewMessage<'_>]) -> Option<Instant> {
    messages.iter().filter_map(|message| message.options.deadline).min()
}
