//! What handlers return.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use super::Delivery;

/// How a handler settles its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Handled: it is not delivered again ([`Delivery::ack`]).
    Ack,
    /// Failed: it is delivered next of its stream again, after a pause of the stream.
    Fail,
    /// It is delivered again after this delay, or by default after a growing pause; later messages of its stream pass
    /// it ([`Delivery::nack`]).
    Nack(Option<Duration>),
    /// Given up: its sender keeps it as a dead letter ([`Delivery::terminate`]).
    Terminate,
}

/// What a handler of [`Client::run`](super::Client::run) and [`Client::listen`](super::Client::listen) may return.
///
/// | it returns | the message | then |
/// | --- | --- | --- |
/// | `()` | is handled | the next message |
/// | `Result<(), E>` | Ok: is handled; Err: has failed | the next message |
/// | [`Settlement`] | is settled so | the next message |
/// | `ControlFlow<B>` | is handled | Break: the handler is not called any more |
/// | `(Settlement, ControlFlow<B>)` | is settled so | Break: the handler is not called any more |
///
/// ```
/// use pinnace_delivery::{Client, Delivery, Settlement};
///
/// fn handle(delivery: &Delivery) -> Settlement {
///     match std::str::from_utf8(delivery.body()) {
///         Ok("later") => Settlement::Nack(None),
///         Ok(_) => Settlement::Ack,
///         Err(_) => Settlement::Terminate,
///     }
/// }
/// # fn listen(client: &Client) -> Result<(), pinnace_delivery::Error> {
/// client.listen(handle)
/// # }
/// ```
pub trait HandlerResult {
    /// The value with which it ends the handling.
    type Value;

    /// How the message is settled, and whether the next one is handled.
    fn into_parts(self) -> (Settlement, ControlFlow<Self::Value>);
}

impl HandlerResult for () {
    type Value = Infallible;

    fn into_parts(self) -> (Settlement, ControlFlow<Infallible>) {
        Settlement::Ack.into_parts()
    }
}

impl<E> HandlerResult for Result<(), E> {
    type Value = Infallible;

    fn into_parts(self) -> (Settlement, ControlFlow<Infallible>) {
        let settlement = if self.is_ok() { Settlement::Ack } else { Settlement::Fail };
        settlement.into_parts()
    }
}

impl HandlerResult for Settlement {
    type Value = Infallible;

    fn into_parts(self) -> (Settlement, ControlFlow<Infallible>) {
        (self, ControlFlow::Continue(()))
    }
}

impl<B> HandlerResult for ControlFlow<B> {
    type Value = B;

    fn into_parts(self) -> (Settlement, ControlFlow<B>) {
        (Settlement::Ack, self)
    }
}

impl<B> HandlerResult for (Settlement, ControlFlow<B>) {
    type Value = B;

    fn into_parts(self) -> (Settlement, ControlFlow<B>) {
        self
    }
}

impl Delivery {
    /// Settles it as a handler's result does.
    pub fn settle(self, settlement: Settlement) {
        match settlement {
            Settlement::Ack => self.ack(),
            Settlement::Fail => drop(self),
            Settlement::Nack(delay) => self.nack(delay),
            Settlement::Terminate => self.terminate(),
        }
    }
}
