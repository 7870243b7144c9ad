//! Messages: one frame or several, sent and received as one.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pinnace_engine::{About, Label, Outgoing};

use crate::{Error, Frame};

/// A message: its frames, which it dereferences to, and what is known of who sent it.
///
/// It is made from text, bytes, or a list of either, and compares with the same.
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
    /// A message without frames, to which some have to be added before it can be sent.
    pub fn new() -> Message {
        Message::default()
    }

    /// Adds a frame at the end.
    pub fn push(&mut self, frame: impl Into<Frame>) {
        self.list().push(frame.into());
    }

    /// Adds a frame at the beginning, as an envelope.
    pub fn push_front(&mut self, frame: impl Into<Frame>) {
        self.list().insert(0, frame.into());
    }

    /// Takes the first frame off, as an envelope.
    pub fn pop_front(&mut self) -> Option<Frame> {
        let list = self.list();
        if list.is_empty() { None } else { Some(list.remove(0)) }
    }

    /// Takes the last frame off.
    pub fn pop(&mut self) -> Option<Frame> {
        self.list().pop()
    }

    /// The frames.
    pub fn frames(&self) -> &[Frame] {
        self
    }

    /// The first frame as text: all of a message of one frame. None where there is none, or it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.first().and_then(Frame::text)
    }

    /// Where the sender is: an IP address, or "localhost:uid:gid:pid" of a local process. None over inproc.
    pub fn peer_address(&self) -> Option<&str> {
        self.property("Peer-Address").and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Who the sender is, as a ZAP handler (RFC 27) said.
    pub fn user_id(&self) -> Option<&str> {
        self.property("User-Id").and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// What the sender said of itself when it connected: "Socket-Type", "Routing-Id", names that begin with "X-"
    /// (zmq_msg_gets(3)).
    pub fn property(&self, name: &str) -> Option<&[u8]> {
        self.about.as_ref().and_then(|about| about.get(name))
    }

    /// All of them.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.about.iter().flat_map(|about| about.iter())
    }

    /// The routing id of the peer that a SERVER or PEER received this from, or sends it to (zmq_msg_routing_id(3)); 0:
    /// none.
    pub fn routing_id(&self) -> u32 {
        self.label.routing_id
    }

    /// The same message, for the peer of a SERVER or PEER that has this routing id (zmq_msg_set_routing_id(3)).
    #[must_use]
    pub fn to_peer(mut self, routing_id: u32) -> Message {
        self.label.routing_id = routing_id;
        self
    }

    /// The group that a RADIO sends it to, or a DISH has received it of (zmq_msg_group(3)); empty: none.
    pub fn group(&self) -> &[u8] {
        &self.label.group
    }

    /// The same message, for this group of a RADIO's, at most 255 bytes (zmq_msg_set_group(3)).
    #[must_use]
    pub fn to_group(mut self, group: impl AsRef<[u8]>) -> Message {
        self.label.group = group.as_ref().to_vec();
        self
    }

    /// Receives one with `recv`, which is given a sink for the frames.
    pub(crate) fn receive(
        recv: impl FnOnce(&mut dyn FnMut(pinnace_engine::Frame<'_>)) -> Result<pinnace_engine::Received, Error>,
    ) -> Result<Message, Error> {
        let mut message = Message::new();
        let received = recv(&mut |frame| message.add(Frame::received(frame)))?;
        message.about = received.about;
        message.label = received.label;
        Ok(message)
    }

    /// Hands the frames to `send`. They stay ours.
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

/// By the frames.
impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        **self == **other
    }
}

macro_rules! equal_one {
    ($(($($generics:tt)*) $type:ty),*) => {$(
        /// A message of this one frame.
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
