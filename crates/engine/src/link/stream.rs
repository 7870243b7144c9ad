//! A connection's bytes: as the kernel moves them, by way of TLS, or through shared memory. PGM's packets have a
//! stream's place.

use std::io::IoSlice;

use parking_lot::Mutex;
use pinnace_sys::{AsFd, BorrowedFd, Errno, OwnedFd, net, pgm};

use super::shared::{self, By, Shared};
use super::switch::Local;
use super::tls::{Failure, Tls};

/// What a link and a handshake read from and write to. Its two directions may be used by two threads at once.
pub(crate) struct Stream {
    fd: OwnedFd,
    over: Over,
}

/// What lies over the descriptor.
enum Over {
    Nothing,
    Tls(Box<Mutex<Tls>>),
    /// The bytes may go through memory.
    Local(Box<Local>),
    /// A test's script.
    #[cfg(test)]
    Scripted(std::sync::Arc<super::scripted::Script>),
    /// There are packets and no stream; the descriptor is readable when something is to be done.
    Pgm(Box<pgm::Socket>),
}

impl Stream {
    /// The descriptor's own bytes.
    pub(crate) fn plain(fd: OwnedFd) -> Stream {
        Stream { fd, over: Over::Nothing }
    }

    /// A test's script. The descriptor is a socket, so that it can be added to a poll set.
    #[cfg(test)]
    pub(crate) fn scripted(script: std::sync::Arc<super::scripted::Script>) -> Stream {
        let (fd, _peer) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        Stream { fd: fd.into(), over: Over::Scripted(script) }
    }

    /// Packets of a multicast.
    pub(crate) fn pgm(socket: pgm::Socket) -> Result<Stream, Errno> {
        let fd = socket.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        Ok(Stream { fd, over: Over::Pgm(Box::new(socket)) })
    }

    /// The packets, where it has some.
    pub(super) fn packets(&self) -> Option<&pgm::Socket> {
        match &self.over {
            Over::Pgm(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether TLS is under way, or done.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls().is_some()
    }

    fn tls(&self) -> Option<&Mutex<Tls>> {
        match &self.over {
            Over::Tls(tls) => Some(tls),
            _ => None,
        }
    }

    /// From here on the bytes are those within TLS, once [`shake`](Stream::shake) says so.
    pub(crate) fn secure(&mut self, connection: rustls::Connection) {
        self.over = Over::Tls(Box::new(Mutex::new(Tls::new(connection))));
    }

    /// Goes on with the handshake of TLS. False: the descriptor allows no more now.
    pub(crate) fn shake(&self) -> Result<bool, Failure> {
        self.tls().map_or(Ok(true), |tls| tls.lock().shake(&self.fd))
    }

    /// Reads what is there into both buffers in turn; 0 at the stream's end, EAGAIN where nothing is there yet.
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

    /// Reads what TLS has decrypted and nothing more; EAGAIN where that is nothing.
    pub(crate) fn read_rest(&self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        self.tls().map_or(Err(Errno::AGAIN), |tls| tls.lock().read_rest(first, second))
    }

    /// Whether there is something to read of which the kernel does not know.
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

    /// The two have said that their bytes may go through memory. `offers`: our side connected. `passed`: a descriptor
    /// that came along so far.
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

    /// The memory, where both ways go through it.
    #[inline]
    pub(super) fn shared(&self) -> Option<&Shared> {
        self.local()?.whole()
    }

    /// The same, where what is read does.
    #[inline]
    fn reader(&self) -> Option<&Shared> {
        self.local()?.reader()
    }

    /// A peer that sleeps is woken for what was written to memory; this follows `write`.
    #[inline]
    pub(super) fn wake(&self) {
        if let Some(shared) = self.local().and_then(|local| local.writer()) {
            shared.wake(&self.fd);
        }
    }

    /// Wakes the peer, which looks at memory then.
    pub(super) fn ring(&self) {
        shared::ring(&self.fd);
    }

    /// Whether whoever serves the poll set is told of the next byte. False: there is one in memory already.
    pub(super) fn sleeps(&self) -> bool {
        self.reader().is_none_or(|shared| shared.sleeps(&self.fd))
    }

    /// From here on whoever serves the poll set is told of the next byte, after nobody had to be. False: there is one.
    pub(super) fn rouse(&self) -> bool {
        self.shared().is_none_or(|shared| shared.rouse(&self.fd))
    }

    /// Whether the other way than that of who asks may have been woken, and nobody was told.
    #[inline]
    pub(super) fn take_heard(&self, by: By) -> bool {
        self.reader().is_some_and(|shared| shared.take_heard(by))
    }

    /// Whether large bodies find little room beside the stream.
    pub(super) fn lacks_room(&self) -> bool {
        self.shared().is_some_and(|shared| shared.lacks_room(&self.fd))
    }

    /// Whether memory that took no more does now.
    pub(super) fn has_room(&self) -> bool {
        self.shared().is_some_and(|shared| shared.has_room())
    }

    /// Gives memory back that holds nothing; true where there is none. False: it holds something.
    pub(super) fn shrink(&self) -> bool {
        self.shared().is_none_or(|shared| shared.shrink())
    }

    /// Whether what woke us, beside memory, is to be taken away now.
    pub(super) fn is_loud(&self) -> bool {
        self.reader().is_some_and(|shared| shared.is_loud())
    }

    /// Takes it away, to its end where it has one (`ended`). True: the peer is gone, or has said that it ends.
    pub(super) fn hear(&self, ended: bool) -> bool {
        self.reader().is_some_and(|shared| shared.hear(&self.fd, ended))
    }

    /// Writes as much as is taken; EAGAIN where that is nothing.
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

    /// Whether the stream itself has something to write: TLS what it has taken, or memory is to be offered.
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

    /// Goes on with that. EAGAIN: the kernel does not take all of it now.
    #[inline]
    pub(crate) fn push(&self) -> Result<(), Errno> {
        self.tls().map_or(Ok(()), |tls| tls.lock().push(&self.fd))
    }

    /// Says that nothing more is going to be written. What was is still delivered.
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
