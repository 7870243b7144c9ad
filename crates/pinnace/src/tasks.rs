//! Async sending and receiving under any executor: futures that register a waker with the engine. They use no threads
//! but the context's own.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pinnace_engine::{Wait, WakerPlace};

use crate::kind::{Receives, Sends};
use crate::{Error, Kind, Message, Socket, Unsent};

/// Tries `attempt`. If it would have to wait, registers the task's waker and tries once more, because the state may
/// have changed in between.
fn poll<K: Kind, T>(
    socket: &Socket<K>,
    place: &mut Option<WakerPlace>,
    task: &mut Context<'_>,
    mut attempt: impl FnMut() -> Poll<T>,
) -> Poll<T> {
    if let Poll::Ready(outcome) = attempt() {
        return Poll::Ready(outcome);
    }
    if socket.engine().wake_task(place, task.waker()).is_err() {
        // No waker was registered because the socket is closed: the second attempt returns that error.
        task.waker().wake_by_ref();
    }
    attempt()
}

pub(crate) fn poll_recv<K: Receives>(
    socket: &Socket<K>,
    place: &mut Option<WakerPlace>,
    task: &mut Context<'_>,
) -> Poll<Result<Message, Error>> {
    let attempt = || match socket.recv_waiting(Wait::Never) {
        Err(Error::WouldBlock) => Poll::Pending,
        outcome => Poll::Ready(outcome),
    };
    poll(socket, place, task, attempt)
}

/// Receives one message; made by [`Socket::recv_async`]. Dropped before completion, it has received none.
#[must_use = "a future does nothing until it is awaited"]
pub struct Recv<'a, K: Receives> {
    socket: &'a Socket<K>,
    place: Option<WakerPlace>,
}

impl<'a, K: Receives> Recv<'a, K> {
    pub(crate) fn new(socket: &'a Socket<K>) -> Recv<'a, K> {
        Recv { socket, place: None }
    }
}

impl<K: Receives> Future for Recv<'_, K> {
    type Output = Result<Message, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        poll_recv(this.socket, &mut this.place, task)
    }
}

/// Sends one message; made by [`Socket::send_async`]. Dropped before completion, it has sent nothing.
#[must_use = "a future does nothing until it is awaited"]
pub struct Send<'a, K: Sends> {
    socket: &'a Socket<K>,
    message: Option<Message>,
    place: Option<WakerPlace>,
}

impl<'a, K: Sends> Send<'a, K> {
    pub(crate) fn new(socket: &'a Socket<K>, message: Message) -> Send<'a, K> {
        Send { socket, message: Some(message), place: None }
    }
}

impl<K: Sends> Future for Send<'_, K> {
    type Output = Result<(), Unsent>;

    /// # Panics
    /// If polled again after completion.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (socket, message) = (this.socket, &mut this.message);
        let attempt = || {
            let waiting = message.take().expect("a future is not polled after its end");
            match socket.send_waiting(waiting, Wait::Never) {
                Err(Unsent { error: Error::WouldBlock, message: unsent }) => {
                    *message = Some(unsent);
                    Poll::Pending
                }
                outcome => Poll::Ready(outcome),
            }
        };
        poll(socket, &mut this.place, task, attempt)
    }
}

/// The received messages as a `Stream`; made by [`Socket::stream`].
///
/// ```
/// # use pinnace::{Context, Pair};
/// use futures::{StreamExt, TryStreamExt};
/// # let context = Context::new()?;
/// # let (here, there) = (Pair::new(&context)?, Pair::new(&context)?);
/// # here.bind("inproc://streamed")?;
/// # there.connect("inproc://streamed")?;
/// # here.send("one")?;
/// # here.send("two")?;
/// let both: Vec<_> = pollster::block_on(there.stream().take(2).try_collect())?;
/// assert_eq!(both, ["one", "two"]);
/// # Ok::<(), pinnace::Error>(())
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Messages<'a, K: Receives> {
    socket: Option<&'a Socket<K>>,
    place: Option<WakerPlace>,
}

impl<'a, K: Receives> Messages<'a, K> {
    pub(crate) fn new(socket: &'a Socket<K>) -> Messages<'a, K> {
        Messages { socket: Some(socket), place: None }
    }
}

impl<K: Receives> Stream for Messages<'_, K> {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(socket) = this.socket else { return Poll::Ready(None) };
        match poll_recv(socket, &mut this.place, task) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(message)) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(Err(error)) => {
                this.socket = None;
                Poll::Ready((error != Error::Terminated).then_some(Err(error)))
            }
        }
    }
}

impl<K: Receives> fmt::Debug for Recv<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recv({:?})", self.socket)
    }
}

impl<K: Sends> fmt::Debug for Send<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Send({:?}, {:?})", self.socket, self.message)
    }
}

impl<K: Receives> fmt::Debug for Messages<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Messages({:?})", self.socket)
    }
}
