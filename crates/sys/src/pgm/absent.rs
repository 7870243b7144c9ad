//! A build without OpenPGM: sockets do not exist.

use super::{Config, Received};
use crate::{AsFd, BorrowedFd, Errno};

/// Has no values.
pub enum Socket {}

impl Socket {
    /// Errors: PROTONOSUPPORT.
    pub fn open(_config: &Config<'_>) -> Result<Socket, Errno> {
        Err(Errno::PROTONOSUPPORT)
    }

    pub fn max_data(&self) -> usize {
        match *self {}
    }

    pub fn send(&self, _data: &[u8]) -> Result<(), Errno> {
        match *self {}
    }

    pub fn receive(&self, _into: &mut Vec<u8>) -> Result<Received, Errno> {
        match *self {}
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
