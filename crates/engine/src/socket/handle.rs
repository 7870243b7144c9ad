//! The socket as its mailbox knows it.

use super::Socket;
use crate::error::Error;
use crate::link::Link;
use crate::mailbox::SocketHandle;
use crate::pipe::Far;

impl SocketHandle for Socket {
    fn handle_notices(&self) -> bool {
        self.visit(|_| Ok(())).is_ok()
    }

    fn update_levels(&self) {
        let _ = self.call(false, |_| Ok(()));
    }

    fn shrink(&self, link: &Link) -> bool {
        let Ok(mut core) = self.lock() else { return true };
        match core.pipes.get(link.pipe) {
            Some(pipe) if matches!(&pipe.far, Far::Link(Some(far)) if std::ptr::eq(&**far, link)) => {
                link.shrink(pipe)
            }
            _ => false,
        }
    }

    fn close(&self) -> Result<(), Error> {
        Socket::close(*self)
    }
}
