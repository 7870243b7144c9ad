//! Blocking send and receive.

use std::fmt;
use std::time::Duration;

use pinnace_engine::{Label, Outgoing, Wait};

use crate::kind::{Receives, Sends};
use crate::socket::deadline;
use crate::tasks::{Messages, Recv, Send};
use crate::{Error, Frame, Message, Socket};

/// A message that was not sent, and the error. No part of it was sent.
///
/// ```
/// use pinnace::{Context, Error, Push};
/// let context = Context::new()?;
/// let push = Push::new(&context)?;
/// let unsent = push.try_send(["kept", "whole"]).unwrap_err(); // No peer is there.
/// assert_eq!(unsent.error, Error::WouldBlock);
/// assert_eq!(unsent.message, ["kept", "whole"]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    /// The error.
    pub error: Error,
    /// The message, which can be sent again.
    pub message: Message,
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not sent: {}", self.error)
    }
}

impl std::error::Error for Unsent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Unsent> for Error {
    fn from(unsent: Unsent) -> Error {
        unsent.error
    }
}

impl<K: Sends> Socket<K> {
    /// Sends a message, all its frames or none. It waits for room as long as SNDTIMEO allows (without limit by
    /// default). Success means accepted; the peer receives the message later.
    ///
    /// Errors: WouldBlock on timeout, State (not allowed now by the pattern), Unreachable, Terminated, Interrupted by a
    /// signal; Invalid for a message without frames, or of several frames if the type allows only one.
    pub fn send(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_waiting(message.into(), Wait::AsSet)
    }

    /// Sends a message if there is room now; otherwise returns WouldBlock.
    pub fn try_send(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_waiting(message.into(), Wait::Never)
    }

    /// As [`send`](Self::send), but waits at most `timeout`.
    pub fn send_timeout(&self, message: impl Into<Message>, timeout: Duration) -> Result<(), Unsent> {
        self.send_waiting(message.into(), Wait::Until(deadline(timeout)))
    }

    /// Sends frames as one message, as `send` does.
    ///
    /// ```
    /// # use pinnace::{Context, Pair};
    /// # let context = Context::new()?;
    /// # let (here, there) = (Pair::new(&context)?, Pair::new(&context)?);
    /// # here.bind("inproc://frames")?;
    /// # there.connect("inproc://frames")?;
    /// here.send_multipart(["a", "b", "c"].iter().map(|text| text.to_uppercase()))?;
    /// assert_eq!(there.recv()?, ["A", "B", "C"]);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn send_multipart<F: Into<Frame>>(&self, frames: impl IntoIterator<Item = F>) -> Result<(), Unsent> {
        self.send(Message::from_iter(frames))
    }

    /// Sends a message from an async task, under any executor. Nothing is sent before it is awaited; if dropped before
    /// completion, nothing was sent.
    ///
    /// ```
    /// # use pinnace::{Context, Pair};
    /// # let context = Context::new()?;
    /// # let (here, there) = (Pair::new(&context)?, Pair::new(&context)?);
    /// # here.bind("inproc://awaited")?;
    /// # there.connect("inproc://awaited")?;
    /// pollster::block_on(async {
    ///     here.send_async("hello").await?;
    ///     assert_eq!(there.recv_async().await?, "hello");
    ///     Ok::<(), pinnace::Error>(())
    /// })?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn send_async(&self, message: impl Into<Message>) -> Send<'_, K> {
        Send::new(self, message.into())
    }

    pub(crate) fn send_waiting(&self, mut message: Message, wait: Wait) -> Result<(), Unsent> {
        let raw = self.engine();
        message.iter_mut().for_each(Frame::prepare);
        message
            .lend(|frames, label| send(raw, frames, label, wait))
            .map_err(|error| Unsent { error, message })
    }

    /// Sends borrowed bytes as a message of one frame, without allocating a [`Message`]. It waits as
    /// [`send`](Self::send) does, and has the same errors.
    ///
    /// ```
    /// # use pinnace::{Context, Pair};
    /// # let context = Context::new()?;
    /// # let (here, there) = (Pair::new(&context)?, Pair::new(&context)?);
    /// # here.bind("inproc://bytes")?;
    /// # there.connect("inproc://bytes")?;
    /// let mut sum = 0;
    /// for number in 0..10_u32 {
    ///     here.send_bytes(&number.to_le_bytes())?;
    ///     there.recv_with(|frame| sum += frame.len())?;
    /// }
    /// assert_eq!(sum, 40);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn send_bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        self.engine().send_message(&mut [Outgoing::Bytes(bytes)], Wait::AsSet)
    }
}

fn send(
    raw: pinnace_engine::Socket,
    frames: &mut [Outgoing<'_>],
    label: &Label,
    wait: Wait,
) -> Result<(), Error> {
    match frames {
        [one] if !label.is_blank() => {
            raw.send_labelled(std::mem::replace(one, Outgoing::Bytes(&[])), label, false, wait)
        }
        _ => raw.send_message(frames, wait),
    }
}

impl<K: Receives> Socket<K> {
    /// Receives a message. It waits for one as long as RCVTIMEO allows (without limit by default).
    ///
    /// Errors: WouldBlock on timeout, State (not allowed now by the pattern), Terminated, Interrupted by a signal. None
    /// of them loses a message.
    pub fn recv(&self) -> Result<Message, Error> {
        self.recv_waiting(Wait::AsSet)
    }

    /// Receives a message if one is available; otherwise returns WouldBlock.
    pub fn try_recv(&self) -> Result<Message, Error> {
        self.recv_waiting(Wait::Never)
    }

    /// As [`recv`](Self::recv), but waits at most `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Message, Error> {
        self.recv_waiting(Wait::Until(deadline(timeout)))
    }

    /// Receives a message in place: `read` is called with each of its frames. Nothing is copied, and the sender's
    /// properties are not kept. The socket is locked meanwhile, so `read` should be short: other threads wait for it, a
    /// call on the same socket is an error (Reentered), and a panic may leave the high-water mark off by one. Errors:
    /// as [`recv`](Self::recv); `read` was then not called.
    pub fn recv_with(&self, mut read: impl FnMut(&[u8])) -> Result<(), Error> {
        self.engine().recv_frames(Wait::AsSet, &mut |frame| read(frame.data()))
    }

    /// Receives a message in an async task. If dropped before completion, none was received.
    pub fn recv_async(&self) -> Recv<'_, K> {
        Recv::new(self)
    }

    /// A blocking iterator over received messages. It ends when the context is terminated, or after an error.
    ///
    /// ```
    /// # use pinnace::{Context, Pair};
    /// # let context = Context::new()?;
    /// # let (here, there) = (Pair::new(&context)?, Pair::new(&context)?);
    /// # here.bind("inproc://each")?;
    /// # there.connect("inproc://each")?;
    /// # here.send("one")?;
    /// # here.send("two")?;
    /// for message in there.iter().take(2) {
    ///     println!("{:?}", message?);
    /// }
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<'_, K> {
        Iter(Some(self))
    }

    /// The received messages as a `Stream` of the crate `futures`. It ends when the context is terminated, or after an
    /// error.
    pub fn stream(&self) -> Messages<'_, K> {
        Messages::new(self)
    }

    pub(crate) fn recv_waiting(&self, wait: Wait) -> Result<Message, Error> {
        let raw = self.engine();
        Message::receive(|sink| raw.recv_message(wait, sink))
    }
}

/// Iterates over received messages; made by [`Socket::iter`].
#[derive(Debug)]
pub struct Iter<'a, K: Receives>(Option<&'a Socket<K>>);

impl<K: Receives> Iterator for Iter<'_, K> {
    type Item = Result<Message, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0?.recv() {
            Err(Error::Terminated) => None,
            Err(error) => {
                self.0 = None;
                Some(Err(error))
            }
            message => Some(message),
        }
    }
}

impl<'a, K: Receives> IntoIterator for &'a Socket<K> {
    type Item = Result<Message, Error>;
    type IntoIter = Iter<'a, K>;

    fn into_iter(self) -> Iter<'a, K> {
        self.iter()
    }
}
