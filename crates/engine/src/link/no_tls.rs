//! In place of `tls` in a build without the feature of this name. No connection has TLS, so these types have no values.

use std::io::IoSlice;

use pinnace_sys::{Errno, OwnedFd};

use crate::transports::{Connection, TlsError};

pub(crate) enum Tls {}

/// Why a handshake failed.
#[expect(dead_code)]
pub(crate) enum TlsFailure {
    Lost(Errno),
    Tls(TlsError),
}

impl Tls {
    pub(super) fn new(connection: Connection) -> Tls {
        match connection {}
    }

    pub(super) fn shake(&mut self, _: &OwnedFd) -> Result<bool, TlsFailure> {
        match *self {}
    }

    pub(super) fn read(&mut self, _: &OwnedFd, _: &mut [u8], _: &mut [u8]) -> Result<usize, Errno> {
        match *self {}
    }

    pub(super) fn read_rest(&mut self, _: &mut [u8], _: &mut [u8]) -> Result<usize, Errno> {
        match *self {}
    }

    pub(super) fn has_read(&mut self) -> bool {
        match *self {}
    }

    pub(super) fn write(&mut self, _: &OwnedFd, _: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match *self {}
    }

    pub(super) fn push(&mut self, _: &OwnedFd) -> Result<(), Errno> {
        match *self {}
    }

    pub(super) fn wants_write(&self) -> bool {
        match *self {}
    }

    pub(super) fn end_writing(&mut self, _: &OwnedFd) {
        match *self {}
    }
}

pub(crate) fn tls_errno(error: &TlsError) -> Errno {
    match *error {}
}
