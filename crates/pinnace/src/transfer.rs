//! Sending and receiving, by threads that wait.

use std::fmt;
use std::time::Duration;

use pinnace_engine::{Label, Outgoing, Wait};

use crate::kind::{Receives, Sends};
use crate::socket::deadline;
use crate::tasks::{Messages, Recv, Send};
use crate::{Error, Frame, Message, Socket};

/// A message that was not sent, and why. Nothing of it has left.
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
    /// Why.
    pub error: Error,
    /// The message, to be sent again perhaps.
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
    /// Sends a message, all its frames or none of them. It waits for room, as long as SNDTIMEO says: for ever, unless
    /// it was set. Sent means accepted; the peer gets it later.
    ///
    /// Errors: WouldBlock when the time is over, State (not now, by the pattern's rules), Unreachable, Terminated,
    /// Interrupted by a signal; Invalid for a message without frames, or of more than one where the type has one.
    pub fn send(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_waiting(message.into(), Wait::AsSet)
    }

    /// Sends a message if there is room now; else the error is WouldBlock.
    pub fn try_send(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_waiting(message.into(), Wait::Never)
    }

    /// As [`send`](Self::send), for so long at most.
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

    /// Sends a message, for a task of any executor. Nothing is sent until it is awaited; dropped before its end, it has
    /// sent nothing.
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

    /// Sends bytes that stay yours as a message of one frame, with nothing in between: no memory is taken for it. It
    /// waits as [`send`](Self::send) does, and has the same errors.
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
    /// Receives a message. It waits for one, as long as RCVTIMEO says: for ever, unless it was set.
    ///
    /// Errors: WouldBlock when the time is over, State (not now, by the pattern's rules), Terminated, Interrupted by a
    /// signal. Nothing is lost by any of them.
    pub fn recv(&self) -> Result<Message, Error> {
        self.recv_waiting(Wait::AsSet)
    }

    /// Receives a message if one is there; else WouldBlock.
    pub fn try_recv(&self) -> Result<Message, Error> {
        self.recv_waiting(Wait::Never)
    }

    /// As [`recv`](Self::recv), for so long at most.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Message, Error> {
        self.recv_waiting(Wait::Until(deadline(timeout)))
    }

    /// Receives a message where it lies: `read` is given each of its frames, and nothing is copied nor kept of who sent
    /// it. The socket is locked meanwhile, so `read` should be short: other threads wait for it, a call on this very
    /// socket is an error (Reentered), and a panic may leave the high-water mark one short. Errors: as
    /// [`recv`](Self::recv); then `read` was not called.
    pub fn recv_with(&self, mut read: impl FnMut(&[u8])) -> Result<(), Error> {
        self.engine().recv_frames(Wait::AsSet, &mut |frame| read(frame.data()))
    }

    /// Receives a message, for a task of any executor. Dropped before its end, it has taken none.
    pub fn recv_async(&self) -> Recv<'_, K> {
        Recv::new(self)
    }

    /// All messages that come, for a thread that waits for each. It ends with the context, or with an error.
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

    /// All messages that come, as a `Stream` of the crate `futures`. It ends with the context, or with an error.
    pub fn stream(&self) -> Messages<'_, K> {
        Messages::new(self)
    }

    pub(crate) fn recv_waiting(&self, wait: Wait) -> Result<Message, Error> {
        let raw = self.engine();
        Message::receive(|sink| raw.recv_message(wait, sink))
    }
}

/// The messages that come; from [`Socket::iter`].
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
