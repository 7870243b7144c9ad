//! Messages: one frame or several, sent and received as one unit.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pinnace_engine::{About, Label, Outgoing};

use crate::{Error, Frame};

/// A message: its frames, to which it dereferences, and what is known of its sender.
///
/// It converts from text, bytes, or a list of either, and compares with the same.
///
/// ```
/// use pinnace::Message;
/// let mut message = Message::from(["weather", "rainy"]);
/// assert_eq!(message.len(), 2);
/// assert_eq!(message[1].text(), Some("rainy"));
/// message.push("all day");
/// assert_eq!(message, ["weather", "rainy", "all day"]);
/// assert_eq!(message.pop_front().unwrap(), "weather");
/// assert_eq!(Message::from("one frame"), "one frame");
/// ```
#[derive(Clone, Default)]
pub struct Message {
    frames: Frames,
    about: Option<Arc<About>>,
    label: Label,
}

#[derive(Clone)]
enum Frames {
    One(Frame),
    Many(Vec<Frame>),
}

impl Default for Frames {
    fn default() -> Frames {
        Frames::Many(Vec::new())
    }
}

impl Message {
    /// A message without frames. At least one has to be added before it can be sent.
    pub fn new() -> Message {
        Message::default()
    }

    /// Adds a frame at the end.
    pub fn push(&mut self, frame: impl Into<Frame>) {
        self.list().push(frame.into());
    }

    /// Adds a frame at the front, such as an envelope.
    pub fn push_front(&mut self, frame: impl Into<Frame>) {
        self.list().insert(0, frame.into());
    }

    /// Removes and returns the first frame, such as an envelope.
    pub fn pop_front(&mut self) -> Option<Frame> {
        let list = self.list();
        if list.is_empty() { None } else { Some(list.remove(0)) }
    }

    /// Removes and returns the last frame.
    pub fn pop(&mut self) -> Option<Frame> {
        self.list().pop()
    }

    /// The frames.
    pub fn frames(&self) -> &[Frame] {
        self
    }

    /// The first frame as text; the whole text of a single-frame message. None if there is no frame or it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.first().and_then(Frame::text)
    }

    /// The sender's address: an IP address, or "localhost:uid:gid:pid" of a local process. None over inproc.
    pub fn peer_address(&self) -> Option<&str> {
        self.property("Peer-Address").and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The sender's user id, as the ZAP handler (RFC 27) returned it.
    pub fn user_id(&self) -> Option<&str> {
        self.property("User-Id").and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// A property that the sender announced in its handshake: "Socket-Type", "Routing-Id", names that begin with "X-"
    /// (zmq_msg_gets(3)).
    pub fn property(&self, name: &str) -> Option<&[u8]> {
        self.about.as_ref().and_then(|about| about.get(name))
    }

    /// All properties.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.about.iter().flat_map(|about| about.iter())
    }

    /// The routing id of the peer that a SERVER or PEER received this message from, or sends it to
    /// (zmq_msg_routing_id(3)); 0 if there is none.
    pub fn routing_id(&self) -> u32 {
        self.label.routing_id
    }

    /// Sets the routing id of the peer that a SERVER or PEER sends the message to (zmq_msg_set_routing_id(3)).
    #[must_use]
    pub fn to_peer(mut self, routing_id: u32) -> Message {
        self.label.routing_id = routing_id;
        self
    }

    /// The group that a RADIO sends the message to, or through which a DISH received it (zmq_msg_group(3)); empty if
    /// none.
    pub fn group(&self) -> &[u8] {
        &self.label.group
    }

    /// Sets the group that a RADIO sends the message to, at most 255 bytes (zmq_msg_set_group(3)).
    #[must_use]
    pub fn to_group(mut self, group: impl AsRef<[u8]>) -> Message {
        self.label.group = group.as_ref().to_vec();
        self
    }

    /// Receives a message through `recv`, to which it passes a sink for the frames.
    pub(crate) fn receive(
        recv: impl FnOnce(&mut dyn FnMut(pinnace_engine::Frame<'_>)) -> Result<pinnace_engine::Received, Error>,
    ) -> Result<Message, Error> {
        let mut message = Message::new();
        let received = recv(&mut |frame| message.add(Frame::received(frame)))?;
        message.about = received.about;
        message.label = received.label;
        Ok(message)
    }

    /// Passes the frames to `send` by reference; the message keeps them.
    pub(crate) fn lend<R>(&self, send: impl FnOnce(&mut [Outgoing<'_>], &Label) -> R) -> R {
        match self.frames() {
            [one] => send(&mut [one.outgoing()], &self.label),
            all => send(&mut all.iter().map(Frame::outgoing).collect::<Vec<_>>(), &self.label),
        }
    }

    fn add(&mut self, frame: Frame) {
        match &mut self.frames {
            Frames::Many(list) if list.capacity() == 0 => self.frames = Frames::One(frame),
            _ => self.list().push(frame),
        }
    }

    fn list(&mut self) -> &mut Vec<Frame> {
        if let Frames::One(frame) = &mut self.frames {
            self.frames = Frames::Many(vec![std::mem::take(frame)]);
        }
        match &mut self.frames {
            Frames::Many(list) => list,
            Frames::One(_) => unreachable!("made a list above"),
        }
    }
}

impl Deref for Message {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        match &self.frames {
            Frames::One(frame) => std::slice::from_ref(frame),
            Frames::Many(list) => list,
        }
    }
}

impl DerefMut for Message {
    fn deref_mut(&mut self) -> &mut [Frame] {
        match &mut self.frames {
            Frames::One(frame) => std::slice::from_mut(frame),
            Frames::Many(list) => list,
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

macro_rules! from_one {
    ($(($($generics:tt)*) $type:ty),*) => {$(
        impl<$($generics)*> From<$type> for Message {
            fn from(frame: $type) -> Message {
                Message { frames: Frames::One(frame.into()), ..Message::default() }
            }
        }
    )*};
}
from_one!(() Frame, () &str, () String, () &String, () Vec<u8>, () &Vec<u8>, () &[u8], (const N: usize) &[u8; N]);

impl From<&Message> for Message {
    fn from(message: &Message) -> Message {
        message.clone()
    }
}

impl<T: Into<Frame>, const N: usize> From<[T; N]> for Message {
    fn from(frames: [T; N]) -> Message {
        Message::from_iter(frames)
    }
}

impl From<Vec<Frame>> for Message {
    fn from(frames: Vec<Frame>) -> Message {
        Message { frames: Frames::Many(frames), ..Message::default() }
    }
}

impl From<Vec<Vec<u8>>> for Message {
    fn from(frames: Vec<Vec<u8>>) -> Message {
        Message::from_iter(frames)
    }
}

impl<T: Into<Frame>> FromIterator<T> for Message {
    fn from_iter<I: IntoIterator<Item = T>>(frames: I) -> Message {
        Message::from(frames.into_iter().map(Into::into).collect::<Vec<Frame>>())
    }
}

impl<T: Into<Frame>> Extend<T> for Message {
    fn extend<I: IntoIterator<Item = T>>(&mut self, frames: I) {
        self.list().extend(frames.into_iter().map(Into::into));
    }
}

impl IntoIterator for Message {
    type Item = Frame;
    type IntoIter = std::vec::IntoIter<Frame>;

    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(self.list()).into_iter()
    }
}

impl<'a> IntoIterator for &'a Message {
    type Item = &'a Frame;
    type IntoIter = std::slice::Iter<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Message> for Vec<Vec<u8>> {
    fn from(message: Message) -> Vec<Vec<u8>> {
        message.into_iter().map(Frame::into_vec).collect()
    }
}

impl Eq for Message {}

/// Compares the frames only.
impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        **self == **other
    }
}

macro_rules! equal_one {
    ($(($($generics:tt)*) $type:ty),*) => {$(
        /// True for a message of exactly this frame.
        impl<$($generics)*> PartialEq<$type> for Message {
            fn eq(&self, other: &$type) -> bool {
                matches!(self.frames(), [frame] if frame == other)
            }
        }
    )*};
}
equal_one!(() str, () &str, () String, () [u8], () &[u8], () Vec<u8>, (const N: usize) &[u8; N]);

impl<T, const N: usize> PartialEq<[T; N]> for Message
where
    Frame: PartialEq<T>,
{
    fn eq(&self, other: &[T; N]) -> bool {
        self.len() == N && self.iter().zip(other).all(|(frame, other)| frame == other)
    }
}
