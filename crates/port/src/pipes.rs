//! The two pipes: packets that came in, and octets that go out.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::wire::{
    LENGTH_OCTETS, Malformed, PACKET_MAX, PART_MAX, ProgramPacket, begin_delivery, end_packet,
};

/// The size that a pipe is given: the kernel's limit for users, if it is the usual one.
const PIPE_SIZE: usize = 1 << 20;

/// The most octets read at once. Larger pieces would not stay in the processor's cache.
const READ_MAX: usize = 256 * 1024;

/// Gives a pipe its size. What is no pipe, or may not be larger, stays as it is.
fn widen(fd: &OwnedFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE_SIZE);
}

/// What the client sends.
pub struct Input {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// What was read and not taken yet.
    start: usize,
    end: usize,
}

impl Input {
    pub fn new(fd: OwnedFd) -> Input {
        widen(&fd);
        Input { fd, buffer: vec![0; READ_MAX], start: 0, end: 0 }
    }

    pub fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads once; it waits if there is nothing. False: the client has closed its end.
    pub fn read(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            // A packet that is larger than what is read at once.
            self.buffer.resize(LENGTH_OCTETS + PACKET_MAX, 0);
        }
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut self.buffer[self.end..]))?;
        self.end += read;
        Ok(read > 0)
    }

    /// The next packet, without its length. None: it has not come as a whole.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let Some((length, rest)) = self.buffer[self.start..self.end].split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > PACKET_MAX {
            return Err(Malformed::Length);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let packet = self.start + LENGTH_OCTETS..self.start + LENGTH_OCTETS + length;
        self.start = packet.end;
        Ok(Some(&self.buffer[packet]))
    }
}

/// What goes to the client.
pub struct Output {
    fd: OwnedFd,
    /// Whole packets; the first `written` octets have gone.
    pub buffer: Vec<u8>,
    written: usize,
    /// The pipe was full at the last write.
    is_full: bool,
}

impl Output {
    pub fn new(fd: OwnedFd) -> io::Result<Output> {
        widen(&fd);
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Output { fd, buffer: Vec::new(), written: 0, is_full: false })
    }

    pub fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Answers to requests with the id 0 are left out.
    pub fn put(&mut self, packet: ProgramPacket<'_>) {
        if !matches!(packet, ProgramPacket::Result { id: 0, .. } | ProgramPacket::Failure { id: 0, .. }) {
            packet.write(&mut self.buffer);
        }
    }

    /// Delivers one message in a packet of its own, or in parts.
    pub fn deliver(&mut self, channel: u32, message: &[u8]) {
        if message.len() <= PART_MAX {
            let at = begin_delivery(&mut self.buffer, channel);
            self.buffer.extend_from_slice(message);
            return end_packet(&mut self.buffer, at);
        }
        let mut parts = message.chunks(PART_MAX).peekable();
        while let Some(content) = parts.next() {
            let is_last = parts.peek().is_none();
            self.put(ProgramPacket::DeliverPart { channel, is_last, content });
        }
    }

    /// The octets that wait.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.written
    }

    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Writes as much as the pipe takes. Error: the client has closed its end.
    pub fn write(&mut self) -> io::Result<()> {
        self.is_full = false;
        while self.written < self.buffer.len() {
            match rustix::io::write(&self.fd, &self.buffer[self.written..]) {
                Ok(written) => self.written += written,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.buffer.clear();
        self.written = 0;
        Ok(())
    }

    /// Writes all, and waits at most so long while the pipe is full.
    pub fn write_within(&mut self, limit: Duration) -> io::Result<()> {
        let Some(deadline) = Instant::now().checked_add(limit) else { return Ok(()) };
        loop {
            self.write()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.is_full || left.is_zero() {
                return Ok(());
            }
            let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
            match poll(&mut fds, Some(&Timespec::try_from(left).unwrap_or_default())) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
