//! Frames: the parts of a message, as bytes that may be shared.

use std::fmt;
use std::ops::Deref;

use pinnace_engine::{Body, Outgoing};

/// One part of a message: any bytes. It dereferences to `[u8]`.
///
/// Small contents are stored inline. A large received frame refers to the engine's buffer, and a large frame is sent
/// without a copy. A clone of such a frame shares its bytes.
///
/// ```
/// use pinnace::Frame;
/// let frame = Frame::from("weather");
/// assert_eq!(frame.len(), 7);
/// assert_eq!(frame.text(), Some("weather"));
/// assert_eq!(frame, *b"weather");
/// ```
#[derive(Clone)]
pub struct Frame(Repr);

/// Bytes stored inline.
const INLINE: usize = 30;

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE]),
    Vec(Vec<u8>),
    Body(Body),
}

/// Vectors at least this large are passed to the engine by reference, not copied.
const SHARE_MIN: usize = 1024;

impl Frame {
    /// A frame without bytes.
    pub const fn new() -> Frame {
        Frame(Repr::Inline(0, [0; INLINE]))
    }

    /// The bytes as text; None if they are not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self).ok()
    }

    /// The bytes; copied unless the frame owns them as a vector.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Vec(bytes) => bytes,
            other => Frame(other).to_vec(),
        }
    }

    /// Makes a frame of one that the engine has received, and takes ownership of its body.
    pub(crate) fn received(frame: pinnace_engine::Frame<'_>) -> Frame {
        match frame {
            pinnace_engine::Frame::Bytes { data, .. } => Frame::from(data),
            pinnace_engine::Frame::Body { body, .. } => {
                body.take().map_or(Frame::new(), |mut body| {
                    let _ = body.own(); // On ENOMEM the body stays in shared memory and is copied at the first access.
                    Frame(Repr::Body(body))
                })
            }
        }
    }

    /// Converts a large vector to a body, so that it is sent without a copy. The frame stays ours until it is sent.
    pub(crate) fn prepare(&mut self) {
        if let Repr::Vec(bytes) = &mut self.0
            && bytes.len() >= SHARE_MIN
        {
            self.0 = Repr::Body(Body::from(std::mem::take(bytes)));
        }
    }

    pub(crate) fn outgoing(&self) -> Outgoing<'_> {
        match &self.0 {
            Repr::Body(body) => Outgoing::Body(body.clone()),
            _ => Outgoing::Bytes(self),
        }
    }
}

impl Default for Frame {
    fn default() -> Frame {
        Frame::new()
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Repr::Vec(bytes) => bytes,
            Repr::Body(body) => body,
        }
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Frame {
    fn from(data: &[u8]) -> Frame {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..data.len()) {
            Some(room) => {
                room.copy_from_slice(data);
                Frame(Repr::Inline(data.len() as u8, bytes))
            }
            None => Frame(Repr::Vec(data.to_vec())),
        }
    }
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Frame {
        if bytes.len() <= INLINE { Frame::from(bytes.as_slice()) } else { Frame(Repr::Vec(bytes)) }
    }
}

impl From<Body> for Frame {
    fn from(body: Body) -> Frame {
        Frame(Repr::Body(body))
    }
}

macro_rules! from_bytes {
    ($(($($generics:tt)*) $type:ty),*) => {$(
        impl<$($generics)*> From<$type> for Frame {
            fn from(data: $type) -> Frame {
                Frame::from(AsRef::<[u8]>::as_ref(data))
            }
        }
    )*};
}
from_bytes!(() &str, () &String, () &Vec<u8>, (const N: usize) &[u8; N]);

impl From<String> for Frame {
    fn from(text: String) -> Frame {
        Frame::from(text.into_bytes())
    }
}

impl From<&Frame> for Frame {
    fn from(frame: &Frame) -> Frame {
        frame.clone()
    }
}

impl fmt::Debug for Frame {
    /// As text if the bytes are UTF-8, else as bytes; long frames are truncated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        let (shown, rest) = self.split_at(self.len().min(SHOWN));
        match std::str::from_utf8(shown) {
            Ok(text) => write!(f, "{text:?}")?,
            Err(_) => write!(f, "{shown:02x?}")?,
        }
        if rest.is_empty() { Ok(()) } else { write!(f, "... ({} bytes)", self.len()) }
    }
}

impl Eq for Frame {}

impl std::hash::Hash for Frame {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

macro_rules! equal {
    ($(($($generics:tt)*) $type:ty),*) => {$(
        impl<$($generics)*> PartialEq<$type> for Frame {
            fn eq(&self, other: &$type) -> bool {
                **self == *AsRef::<[u8]>::as_ref(other)
            }
        }
    )*};
}
equal!(() Frame, () [u8], () &[u8], () str, () &str, () String, () Vec<u8>, (const N: usize) [u8; N],
    (const N: usize) &[u8; N]);
