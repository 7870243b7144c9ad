//! The 64 bytes of a `zmq_msg_t`.
//!
//! ```text
//!  0  up to 40 bytes of inline data, or a reference to more:
//!     a block (pointer), a body (pointer), or constant bytes (pointer, length)
//! 40  properties: the sending peer's, and the group
//! 48  routing id of the peer (SERVER, PEER)
//! 52  kind: which of these it is; also marks a valid message
//! 56  length of inline data
//! 57  flags: MORE
//! ```
//! It contains no pointers into itself, so bindings can move it by memcpy.

use std::ffi::{CStr, CString};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::{ptr, slice};

use pinnace_engine::{About, Body, Error, Frame, Label, Outgoing, Received, Socket, Wait};

use super::block::Block;
use super::properties::Properties;

/// The most bytes that are stored inline.
pub(super) const INLINE_MAX: usize = 40;
/// The most bytes that are stored in a block; larger ones use a [`Body`].
pub(super) const BLOCK_MAX: usize = 32 * 1024;
/// Bodies at least this large are sent by reference; below, a copy costs less.
pub(crate) const SHARE_MIN: usize = 1024;

/// Kinds. Four bytes, so that uninitialised memory is not taken for a message.
const CLOSED: u32 = 0;
const INLINE: u32 = 0x506e_4d01;
const BLOCK: u32 = 0x506e_4d02;
const BODY: u32 = 0x506e_4d03;
const CONSTANT: u32 = 0x506e_4d04;

const MORE: u8 = 1;

/// A message as C holds it. Drop closes it.
#[repr(C)]
pub struct Message {
    content: Content,
    properties: ManuallyDrop<Properties>,
    routing_id: u32,
    kind: u32,
    inline_len: u8,
    flags: u8,
    _unused: [u8; 6],
}

const _: () = assert!(size_of::<Message>() == 64 && align_of::<Message>() == 8);

#[repr(C)]
union Content {
    inline: [MaybeUninit<u8>; INLINE_MAX],
    block: ManuallyDrop<Block>,
    body: ManuallyDrop<Body>,
    constant: (*mut u8, usize),
}

/// The content as an enum, for matching.
enum View<'a> {
    Inline,
    Block(&'a Block),
    Body(&'a Body),
    Constant(*mut u8, usize),
}

impl Message {
    #[inline(always)]
    fn new(content: Content, kind: u32) -> Message {
        let properties = ManuallyDrop::new(Properties::default());
        Message { content, properties, routing_id: 0, kind, inline_len: 0, flags: 0, _unused: [0; 6] }
    }

    #[inline(always)]
    pub(crate) fn empty() -> Message {
        Message::new(Content { inline: [MaybeUninit::uninit(); INLINE_MAX] }, INLINE)
    }

    /// A message of `len` bytes of unspecified content.
    #[inline]
    pub(crate) fn with_len(len: usize) -> Result<Message, Error> {
        if len <= INLINE_MAX {
            let mut message = Message::empty();
            message.inline_len = len as u8;
            return Ok(message);
        }
        if len <= BLOCK_MAX {
            let block = ManuallyDrop::new(Block::with_len(len)?);
            return Ok(Message::new(Content { block }, BLOCK));
        }
        if len > isize::MAX as usize {
            return Err(Error::NoMemory);
        }
        Ok(Message::of_body(Body::with_len(len)?))
    }

    #[inline]
    pub(crate) fn copy_of(data: &[u8]) -> Result<Message, Error> {
        let mut message = Message::with_len(data.len())?;
        // SAFETY: a new message has room for the requested bytes, and is not shared.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), message.as_ptr(), data.len()) };
        Ok(message)
    }

    pub(crate) fn of_body(body: Body) -> Message {
        Message::new(Content { body: ManuallyDrop::new(body) }, BODY)
    }

    /// A message that refers to bytes valid for the rest of the process.
    pub(crate) fn constant(data: *mut u8, len: usize) -> Message {
        Message::new(Content { constant: (data, len) }, CONSTANT)
    }

    /// Receives a frame.
    #[inline]
    pub(crate) fn receive(socket: Socket, wait: impl Into<Wait>) -> Result<Message, Error> {
        let mut received = Ok(Message::empty());
        let Received { more, label, about } = socket.recv_labelled(wait, &mut |frame| {
            received = match frame {
                Frame::Bytes { data, .. } => Message::copy_of(data),
                Frame::Body { body, .. } => match body.take() {
                    Some(mut body) => body.own().map(|()| Message::of_body(body)).map_err(Error::from),
                    None => Ok(Message::empty()),
                },
            };
        })?;
        let mut message = received?;
        message.flags = if more { MORE } else { 0 };
        message.routing_id = label.routing_id;
        message.properties = ManuallyDrop::new(Properties::of(about, &label.group));
        Ok(message)
    }

    /// The message at `at`. Errors: Fault if there is none.
    ///
    /// # Safety
    /// `at` must be null or point to a `zmq_msg_t` that is not accessed otherwise as long as the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(at: *mut Message) -> Result<&'a mut Message, Error> {
        // SAFETY: the caller's promise.
        unsafe { Message::at_const(at)? };
        // SAFETY: as above; it is a message.
        Ok(unsafe { &mut *at })
    }

    /// As `at`, for reading only.
    ///
    /// # Safety
    /// `at` must be null or point to a `zmq_msg_t` that is not modified as long as the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at_const<'a>(at: *const Message) -> Result<&'a Message, Error> {
        // SAFETY: the caller's promise; any bytes are valid for a reference to a message.
        let message = unsafe { at.as_ref() }.ok_or(Error::Fault)?;
        match message.kind {
            INLINE..=CONSTANT => Ok(message),
            _ => Err(Error::Fault),
        }
    }

    #[inline(always)]
    fn view(&self) -> View<'_> {
        // SAFETY: the kind tells which member was written.
        unsafe {
            match self.kind {
                BLOCK => View::Block(&self.content.block),
                BODY => View::Body(&self.content.body),
                CONSTANT => View::Constant(self.content.constant.0, self.content.constant.1),
                _ => View::Inline,
            }
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self.view() {
            View::Inline => self.inline_len.into(),
            View::Block(block) => block.len(),
            View::Body(body) => body.len(),
            View::Constant(_, len) => len,
        }
    }

    /// The address of the bytes. C may read them, and may write them as the only holder.
    #[inline(always)]
    pub(crate) fn as_ptr(&mut self) -> *mut u8 {
        let inline = &raw mut self.content.inline;
        match self.view() {
            View::Inline => inline.cast(),
            View::Block(block) => block.as_ptr(),
            View::Body(body) => body.as_ptr(),
            View::Constant(data, _) => data,
        }
    }

    #[inline(always)]
    pub(crate) fn data(&self) -> &[u8] {
        let at: *const u8 = match self.view() {
            View::Inline => (&raw const self.content.inline).cast(),
            View::Block(block) => block.as_ptr(),
            View::Body(body) => body.as_ptr(),
            View::Constant(data, _) => data,
        };
        // SAFETY: `at` is valid for this many bytes. C writes them, unseen by the compiler; bytes that C did not write
        // hold whatever the memory held, and C asked to send them.
        unsafe { slice::from_raw_parts(at, self.len()) }
    }

    /// The message as the engine takes it. The message keeps its content until the caller empties it.
    #[inline(always)]
    pub(crate) fn outgoing(&self) -> Outgoing<'_> {
        match self.view() {
            View::Body(body) => Outgoing::Body(body.clone()),
            View::Constant(data, len) if len >= SHARE_MIN => {
                // SAFETY: made by zmq_msg_init_data without a free function, so the bytes stay valid and need no
                // freeing.
                Outgoing::Body(unsafe { Body::foreign(data, len, Box::new(())) })
            }
            _ => Outgoing::Bytes(self.data()),
        }
    }

    /// Another message with the same content. Bytes that are not inline are shared, not copied.
    pub(crate) fn share(&self) -> Message {
        let (content, kind) = match self.view() {
            // SAFETY: any bytes are valid for this array of MaybeUninit.
            View::Inline => (Content { inline: unsafe { self.content.inline } }, INLINE),
            View::Block(block) => (Content { block: ManuallyDrop::new(block.clone()) }, BLOCK),
            View::Body(body) => (Content { body: ManuallyDrop::new(body.clone()) }, BODY),
            View::Constant(data, len) => (Content { constant: (data, len) }, CONSTANT),
        };
        let mut copy = Message::new(content, kind);
        (copy.inline_len, copy.flags) = (self.inline_len, self.flags);
        copy.routing_id = self.routing_id;
        copy.properties = self.properties.clone();
        copy
    }

    /// Sends the content; the message keeps it.
    #[inline(always)]
    pub(crate) fn send(&self, socket: Socket, more: bool, wait: impl Into<Wait>) -> Result<(), Error> {
        if self.routing_id == 0 && self.properties.is_empty() {
            return socket.send(self.outgoing(), more, wait);
        }
        let label = Label { routing_id: self.routing_id, group: self.group().to_bytes().to_vec() };
        socket.send_labelled(self.outgoing(), &label, more, wait)
    }

    /// Sends the message and empties it; on an error it is unchanged. Returns its size.
    #[inline(always)]
    pub(crate) fn send_and_empty(&mut self, socket: Socket, more: bool, wait: Wait) -> Result<usize, Error> {
        self.send(socket, more, wait)?;
        let size = self.len();
        // Frees whatever the engine has not kept, with no lock held.
        *self = Message::empty();
        Ok(size)
    }

    /// The properties of the sending peer.
    pub(crate) fn about(&self) -> Option<&About> {
        self.properties.about()
    }

    /// The peer's routing id (SERVER, PEER); 0 if none.
    pub(crate) fn routing_id(&self) -> u32 {
        self.routing_id
    }

    pub(crate) fn set_routing_id(&mut self, routing_id: u32) {
        self.routing_id = routing_id;
    }

    /// The group's name (RADIO, DISH); empty if none.
    pub(crate) fn group(&self) -> &CStr {
        self.properties.group()
    }

    pub(crate) fn set_group(&mut self, group: CString) {
        self.properties.set_group(group);
    }

    #[inline(always)]
    pub(crate) fn more(&self) -> bool {
        self.flags & MORE != 0
    }

    /// True if other holders may see the same bytes.
    pub(crate) fn is_shared(&self) -> bool {
        match self.view() {
            View::Inline => false,
            View::Block(block) => block.is_shared(),
            View::Body(body) => body.is_shared(),
            View::Constant(..) => true,
        }
    }

    /// Frees the content; it is not a message afterwards.
    #[inline(always)]
    pub(crate) fn close(&mut self) {
        let kind = std::mem::replace(&mut self.kind, CLOSED);
        if kind != CLOSED {
            // SAFETY: it was a message until now, so this is the first drop.
            unsafe { ManuallyDrop::drop(&mut self.properties) }
        }
        // SAFETY: the kind tells which member was written. It is dropped once, because the kind is CLOSED now.
        unsafe {
            match kind {
                BLOCK => ManuallyDrop::drop(&mut self.content.block),
                BODY => ManuallyDrop::drop(&mut self.content.body),
                _ => {}
            }
        }
    }
}

impl Drop for Message {
    #[inline(always)]
    fn drop(&mut self) {
        self.close();
    }
}
