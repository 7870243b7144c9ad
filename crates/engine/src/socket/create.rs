//! Creating a socket in a context.

use std::sync::Arc;
use std::time::Duration;

use pinnace_zmtp::SocketType;

use super::attached::Endpoints;
use super::ended::EndedPipes;
use super::{Core, SOCKETS, Socket, level};
use crate::context::Context;
use crate::error::Error;
use crate::io::Io;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::patterns;
use crate::pipe::Pipes;
use crate::socket_kind::SocketKind;

impl Context {
    /// Creates a socket. Errors: TooManySockets, Terminated, Fault in a forked process, or errors of the system.
    pub fn socket(&self, socket_type: SocketType) -> Result<Socket, Error> {
        let max = self.options().max_sockets;
        self.new_socket(socket_type, Some(max as usize))
    }

    /// A socket for our own use, which ZMQ_MAX_SOCKETS does not count: the handshakes of unknown peers need one, and
    /// must not use up the application's sockets.
    pub(super) fn internal_socket(&self, socket_type: SocketType) -> Result<Socket, Error> {
        self.new_socket(socket_type, None)
    }

    fn new_socket(&self, socket_type: SocketType, max: Option<usize>) -> Result<Socket, Error> {
        self.check_usable()?;
        let io = self.least_busy(0)?;
        let mailbox = Arc::new(Mailbox::new(max.is_none(), SocketKind::of(socket_type).incoming()));
        self.add_socket(&mailbox, max)?;
        let core = Box::new(Core::new(self.clone(), mailbox.clone(), io, socket_type));
        let Some(socket) = SOCKETS.insert(core).map(Socket) else {
            self.socket_closed(&mailbox);
            self.socket_ended(&mailbox);
            return Err(Error::TooManySockets);
        };
        mailbox.set_socket(Box::new(socket));
        Ok(socket)
    }
}

impl Core {
    fn new(context: Context, mailbox: Arc<Mailbox>, io: Arc<Io>, socket_type: SocketType) -> Core {
        let mut options = Options::new(socket_type);
        {
            let defaults = context.options();
            options.ipv6 = defaults.ipv6;
            if !defaults.blocky {
                options.linger = Some(Duration::ZERO);
            }
        }
        mailbox.hwm.set(&options);
        Core {
            context,
            mailbox,
            io,
            kind: SocketKind::of(socket_type),
            pattern: patterns::create(socket_type),
            pipes: Pipes::default(),
            options: Arc::new(options),
            endpoints: Endpoints::default(),
            receive_more: false,
            sending: false,
            stopped: false,
            levels: level::Levels::default(),
            has_pollers: false,
            ended: EndedPipes::default(),
            notices: Vec::new(),
        }
    }
}
