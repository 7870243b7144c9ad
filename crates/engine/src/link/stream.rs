//! A connection's bytes: directly over its socket, over TLS, or through shared memory. A PGM socket, which carries
//! packets, is a stream variant too.

use std::io::IoSlice;

use parking_lot::Mutex;
use pinnace_sys::{AsFd, BorrowedFd, Errno, OwnedFd, net, pgm};

use super::shared::{self, By, SharedStream};
use super::switch::Local;
use super::tls::{Tls, TlsFailure};
use crate::transports::Connection;

/// What a link and a handshake read from and write to. Two threads may use the two directions at the same time.
pub(crate) struct Stream {
    fd: OwnedFd,
    over: Over,
}

/// The layer over the descriptor.
enum Over {
    Nothing,
    Tls(Box<Mutex<Tls>>),
    /// The bytes may switch to shared memory.
    Local(Box<Local>),
    /// A test's script.
    #[cfg(test)]
    Scripted(std::sync::Arc<super::scripted::Script>),
    /// Packets instead of a stream. The descriptor is readable when there is work to do.
    Pgm(Box<pgm::Socket>),
}

impl Stream {
    /// A stream without a layer over the descriptor.
    pub(crate) fn plain(fd: OwnedFd) -> Stream {
        Stream { fd, over: Over::Nothing }
    }

    /// A test's script. The descriptor is a socket, so that it can be added to a poll set.
    #[cfg(test)]
    pub(crate) fn scripted(script: std::sync::Arc<super::scripted::Script>) -> Stream {
        let (fd, _peer) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        Stream { fd: fd.into(), over: Over::Scripted(script) }
    }

    /// Multicast packets.
    pub(crate) fn pgm(socket: pgm::Socket) -> Result<Stream, Errno> {
        let fd = socket.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        Ok(Stream { fd, over: Over::Pgm(Box::new(socket)) })
    }

    /// The PGM socket, if the stream is one.
    pub(super) fn packets(&self) -> Option<&pgm::Socket> {
        match &self.over {
            Over::Pgm(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether the stream uses TLS, even if its handshake is not done.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls().is_some()
    }

    fn tls(&self) -> Option<&Mutex<Tls>> {
        match &self.over {
            Over::Tls(tls) => Some(tls),
            _ => None,
        }
    }

    /// Puts TLS over the descriptor. The handshake follows ([`shake`](Stream::shake)).
    #[cfg_attr(not(feature = "tls"), expect(unreachable_code))]
    pub(crate) fn secure(&mut self, connection: Connection) {
        self.over = Over::Tls(Box::new(Mutex::new(Tls::new(connection))));
    }

    /// Continues the TLS handshake. False: it waits for the descriptor.
    pub(crate) fn shake(&self) -> Result<bool, TlsFailure> {
        self.tls().map_or(Ok(true), |tls| tls.lock().shake(&self.fd))
    }

    /// Reads the available bytes into both buffers in turn. 0: the stream's end. Errors: EAGAIN, there is no input
    /// yet.
    #[inline]
    pub(crate) fn read(&self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        match &self.over {
            Over::Nothing => net::read(&self.fd, first, second),
            Over::Local(local) => local.read(&self.fd, first, second),
            Over::Tls(tls) => tls.lock().read(&self.fd, first, second),
            #[cfg(test)]
            Over::Scripted(script) => script.read(first, second),
            Over::Pgm(_) => Err(Errno::NOTCONN),
        }
    }

    /// Reads only what TLS has already decrypted. Errors: EAGAIN, there is nothing.
    pub(crate) fn read_rest(&self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        self.tls().map_or(Err(Errno::AGAIN), |tls| tls.lock().read_rest(first, second))
    }

    /// Whether there is input that the kernel does not know of.
    #[inline]
    pub(crate) fn has_read(&self) -> bool {
        match &self.over {
            Over::Nothing | Over::Pgm(_) => false,
            #[cfg(test)]
            Over::Scripted(_) => false,
            Over::Local(local) => local.reader().is_some_and(|shared| shared.has_read()),
            Over::Tls(tls) => tls.lock().has_read(),
        }
    }

    /// Allows the switch to shared memory, on which both peers have agreed. `offers`: our side connected. `passed`: a
    /// descriptor received so far.
    pub(crate) fn may_switch(&mut self, offers: bool, passed: Option<OwnedFd>) {
        self.over = Over::Local(Box::new(Local::new(offers, passed)));
    }

    #[inline]
    pub(super) fn local(&self) -> Option<&Local> {
        match &self.over {
            Over::Local(local) => Some(local),
            _ => None,
        }
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// The shared memory, if both directions use it.
    #[inline]
    pub(super) fn shared(&self) -> Option<&SharedStream> {
        self.local()?.whole()
    }

    /// The shared memory, if the incoming direction uses it.
    #[inline]
    fn reader(&self) -> Option<&SharedStream> {
        self.local()?.reader()
    }

    /// Wakes a sleeping peer for what was written to memory. Must follow `write`.
    #[inline]
    pub(super) fn wake(&self) {
        if let Some(shared) = self.local().and_then(|local| local.writer()) {
            shared.wake(&self.fd);
        }
    }

    /// Wakes the peer, which then checks the memory.
    pub(super) fn ring(&self) {
        shared::ring(&self.fd);
    }

    /// Whether the next byte makes the poll set report the stream. False: there is a byte in memory already.
    pub(super) fn sleeps(&self) -> bool {
        self.reader().is_none_or(|shared| shared.sleeps(&self.fd))
    }

    /// Asks the peer again to wake us for the next byte. False: there is one.
    pub(super) fn resume_wakeups(&self) -> bool {
        self.shared().is_none_or(|shared| shared.resume_wakeups(&self.fd))
    }

    /// Whether `by` has drained the socket since the last call, and so may have swallowed the other direction's
    /// wake-up.
    #[inline]
    pub(super) fn take_drained_wakeup(&self, by: By) -> bool {
        self.reader().is_some_and(|shared| shared.take_drained_wakeup(by))
    }

    /// Whether large bodies find little room in shared memory.
    pub(super) fn lacks_room(&self) -> bool {
        self.shared().is_some_and(|shared| shared.lacks_room(&self.fd))
    }

    /// Whether shared memory that was full has room again.
    pub(super) fn has_room(&self) -> bool {
        self.shared().is_some_and(|shared| shared.has_room())
    }

    /// Returns idle shared memory to the kernel. False: the memory is in use.
    pub(super) fn shrink(&self) -> bool {
        self.shared().is_none_or(|shared| shared.shrink())
    }

    /// Whether the wake-ups on the socket are to be drained now.
    pub(super) fn is_loud(&self) -> bool {
        self.reader().is_some_and(|shared| shared.is_loud())
    }

    /// Drains the wake-ups, up to the socket's end if it has ended (`ended`). True: the peer is gone, or has closed.
    pub(super) fn on_wakeup(&self, ended: bool) -> bool {
        self.reader().is_some_and(|shared| shared.on_wakeup(&self.fd, ended))
    }

    /// Writes as many bytes as possible. Errors: EAGAIN, none can be written.
    #[inline]
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match &self.over {
            Over::Nothing => net::write(&self.fd, slices),
            Over::Local(local) => local.write(&self.fd, slices),
            Over::Tls(tls) => tls.lock().write(&self.fd, slices),
            #[cfg(test)]
            Over::Scripted(script) => script.write(slices),
            Over::Pgm(_) => Err(Errno::NOTCONN),
        }
    }

    /// Whether the stream itself has work: TLS has unwritten records, or memory is to be offered.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        match &self.over {
            Over::Nothing | Over::Pgm(_) => false,
            #[cfg(test)]
            Over::Scripted(_) => false,
            Over::Local(local) => local.switch.is_due(),
            Over::Tls(tls) => tls.lock().wants_write(),
        }
    }

    /// Whether memory is to be offered.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.local().is_some_and(|local| local.switch.is_due())
    }

    /// Writes the records that TLS holds. Errors: EAGAIN, the kernel does not take all of them now.
    #[inline]
    pub(crate) fn push(&self) -> Result<(), Errno> {
        self.tls().map_or(Ok(()), |tls| tls.lock().push(&self.fd))
    }

    /// Ends the outgoing direction. Bytes written before are still delivered.
    pub(crate) fn end_writing(&self) {
        if let Some(tls) = self.tls() {
            tls.lock().end_writing(&self.fd);
        }
        net::shut_down_writing(&self.fd);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
