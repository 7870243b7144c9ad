//! TLS between a link and its descriptor.
//!
//! TLS accepts a link's bytes as long as the kernel takes the encrypted records. Unwritten records wait here, and
//! [`Tls::push`] writes them. Input is decrypted when it is read.

use std::io::{BufRead, ErrorKind, IoSlice, Read, Write};

use pinnace_sys::{Errno, OwnedFd, net};

use crate::transports::{Connection, TlsError};

/// One connection's TLS.
pub(crate) struct Tls {
    connection: Connection,
    /// The error after which nothing can be read.
    failed: Option<Errno>,
}

/// Why a handshake failed.
pub(crate) enum TlsFailure {
    /// The connection was lost.
    Lost(Errno),
    Tls(TlsError),
}

/// The descriptor, as rustls reads and writes it.
struct Wire<'a>(&'a OwnedFd);

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(net::read(self.0, buffer, &mut [])?)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(net::write(self.0, &[IoSlice::new(bytes)])?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> std::io::Result<usize> {
        Ok(net::write(self.0, &slices[..slices.len().min(SLICES)])?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The most slices in one write to the kernel, below its limit (IOV_MAX).
const SLICES: usize = 64;
/// Bytes that one read may take from the kernel, besides twice the room in its buffers. Records may be empty, and
/// this limits how long a peer that sends only such records keeps the reader busy.
const SPARE_BYTES: usize = 64 * 1024;

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::PROTO, Errno::from_raw_os_error)
}

impl Tls {
    pub(super) fn new(connection: Connection) -> Tls {
        Tls { connection, failed: None }
    }

    /// Continues the handshake. False: it waits for the descriptor.
    pub(super) fn shake(&mut self, fd: &OwnedFd) -> Result<bool, TlsFailure> {
        loop {
            match self.push(fd) {
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(TlsFailure::Lost(error)),
                Ok(()) if !self.connection.is_handshaking() => return Ok(true),
                Ok(()) => {}
            }
            match self.connection.read_tls(&mut Wire(fd)) {
                Ok(0) => return Err(TlsFailure::Lost(Errno::CONNRESET)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(TlsFailure::Lost(errno(&error))),
            }
            if let Err(error) = self.connection.process_new_packets() {
                let _ = self.push(fd); // Sends the alert.
                return Err(TlsFailure::Tls(error));
            }
        }
    }

    /// Reads into both buffers in turn, until they are full or there is no more input.
    pub(super) fn read(&mut self, fd: &OwnedFd, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        let mut taken = 0;
        let mut left = 2 * (first.len() + second.len()) + SPARE_BYTES;
        for buffer in [first, second] {
            let mut at = 0;
            while at < buffer.len() {
                match self.connection.reader().read(&mut buffer[at..]) {
                    Ok(count) if count > 0 => (at, taken) = (at + count, taken + count),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => match self.fill(fd, &mut left) {
                        Ok(()) => {}
                        Err(_) if taken > 0 => return Ok(taken),
                        Err(error) => return Err(error),
                    },
                    // The end, with or without the peer's close_notify.
                    _ => return Ok(taken),
                }
            }
        }
        Ok(taken)
    }

    /// Reads what is already decrypted, without a system call. Errors: EAGAIN, there is nothing.
    pub(super) fn read_rest(&mut self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        let mut taken = 0;
        for buffer in [first, second] {
            let mut at = 0;
            while at < buffer.len() {
                match self.connection.reader().read(&mut buffer[at..]) {
                    Ok(count) if count > 0 => (at, taken) = (at + count, taken + count),
                    Err(_) if taken == 0 => return Err(self.failed.unwrap_or(Errno::AGAIN)),
                    _ => return Ok(taken),
                }
            }
        }
        Ok(taken)
    }

    /// Reads and decrypts input from the kernel, and subtracts its size from `left`. Errors: EAGAIN, there is no
    /// input, or `left` is 0.
    fn fill(&mut self, fd: &OwnedFd, left: &mut usize) -> Result<(), Errno> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if *left == 0 {
            return Err(Errno::AGAIN);
        }
        match self.connection.read_tls(&mut Wire(fd)) {
            Ok(taken) => *left = left.saturating_sub(taken),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Errno::AGAIN),
            Err(error) => return Err(*self.failed.insert(errno(&error))),
        }
        if self.connection.process_new_packets().is_err() {
            let _ = self.push(fd);
            return Err(*self.failed.insert(Errno::PROTO));
        }
        Ok(())
    }

    /// Whether a read would return bytes, the end or an error without a system call.
    pub(super) fn has_read(&mut self) -> bool {
        let nothing = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        self.failed.is_some() || !self.connection.reader().fill_buf().is_err_and(|error| nothing(&error))
    }

    /// Encrypts and writes until the kernel takes no more. Bytes in records that still wait here count as written.
    /// Errors: EAGAIN, records of an earlier write still wait.
    pub(super) fn write(&mut self, fd: &OwnedFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.push(fd)?;
        let mut slices = slices.to_vec();
        let mut rest = &mut slices[..];
        let mut taken = 0;
        while !rest.is_empty() {
            let count = match self.connection.writer().write_vectored(rest) {
                Ok(count) => count,
                Err(_) => return Err(Errno::PIPE),
            };
            taken += count;
            IoSlice::advance_slices(&mut rest, count);
            match self.push(fd) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Writes the waiting records. Errors: EAGAIN, the kernel does not take all of them now.
    pub(super) fn push(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Wire(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Errno::AGAIN),
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }

    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends close_notify.
    pub(super) fn end_writing(&mut self, fd: &OwnedFd) {
        self.connection.send_close_notify();
        let _ = self.push(fd);
    }
}

/// EACCES for certificate errors, EPROTO for the rest.
pub(crate) fn tls_errno(error: &TlsError) -> Errno {
    use rustls::AlertDescription::*;
    match error {
        TlsError::InvalidCertificate(_) | TlsError::NoCertificatesPresented => Errno::ACCESS,
        TlsError::AlertReceived(
            BadCertificate
            | UnsupportedCertificate
            | CertificateRevoked
            | CertificateExpired
            | CertificateUnknown
            | UnknownCA
            | AccessDenied
            | CertificateRequired
            | DecryptError,
        ) => Errno::ACCESS,
        _ => Errno::PROTO,
    }
}
