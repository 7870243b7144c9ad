//! Binding and connecting, and the way back.

use std::sync::Arc;

use pinnace_ring::{Limits, queue};

use super::{Core, Socket};
use crate::endpoint::{Endpoint, Role};
use crate::error::Error;
use crate::hub::Mail;
use crate::monitor::{self, Event};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe, PipeId};
use crate::reactor::{Command, Connecter, Ends, Listener, Owner};
use crate::transports::inproc::Side;
use crate::transports::{Bound, Target};

/// An endpoint that the socket is bound or connected to.
pub(super) struct Attached {
    /// As the user wrote it, and as it came to be.
    given: String,
    actual: String,
    role: Role,
    what: What,
}

enum What {
    /// With the I/O thread, under this token.
    Remote { token: u64, bound: Option<Arc<Bound>>, pipe: Option<PipeId> },
    /// An inproc name, and the pipe of a connection.
    Inproc(Option<PipeId>),
}

impl Socket {
    /// Binds to an endpoint. Errors: Invalid, Transport, or what the system says (EADDRINUSE, ENODEV,
    /// EADDRNOTAVAIL ...).
    pub fn bind(self, endpoint: &str) -> Result<(), Error> {
        let outcome = self.try_bind(endpoint);
        if let Err(error) = outcome
            && let Ok(core) = self.lock()
        {
            monitor::emit(&core.hub, Event::BindFailed, error.errno() as u32, endpoint);
        }
        outcome
    }

    fn try_bind(self, text: &str) -> Result<(), Error> {
        let (endpoint, options) = self.call(false, |core| {
            let endpoint = Endpoint::parse(text, Role::Bind)?;
            if let Endpoint::Inproc(name) = &endpoint {
                core.bind_inproc(text, name)?;
            }
            Ok((endpoint, core.options.clone()))
        })?;
        if matches!(endpoint, Endpoint::Inproc(_)) {
            return Ok(());
        }
        // With the lock open: to look up a host name may take long.
        let bound = Bound::new(&endpoint, &options)?;
        self.call(false, |core| core.listen(text, &bound)).inspect_err(|_| bound.stop())
    }

    /// Connects to an endpoint, now and again whenever the connection is lost. Errors: Invalid, Transport.
    pub fn connect(self, endpoint: &str) -> Result<(), Error> {
        self.call(false, |core| core.connect(endpoint))
    }

    /// Takes back a `bind`. Errors: NoEndpoint.
    pub fn unbind(self, endpoint: &str) -> Result<(), Error> {
        self.detach(endpoint, Role::Bind)
    }

    /// Takes back a `connect`. What was accepted for it is sent first, as long as the linger says. Errors:
    /// NoEndpoint.
    pub fn disconnect(self, endpoint: &str) -> Result<(), Error> {
        self.detach(endpoint, Role::Connect)
    }

    fn detach(self, endpoint: &str, role: Role) -> Result<(), Error> {
        self.call(false, |core| {
            Endpoint::parse(endpoint, role)?;
            let matches =
                |one: &Attached| one.role == role && (one.given == endpoint || one.actual == endpoint);
            let index = core.endpoints.iter().position(matches).ok_or(Error::NoEndpoint)?;
            let attached = core.endpoints.remove(index);
            core.detach(attached);
            Ok(())
        })
    }
}

impl Core {
    fn bind_inproc(&mut self, text: &str, name: &str) -> Result<(), Error> {
        self.context.inproc().bind(name, &self.side())?;
        self.remember(text, text.to_owned(), Role::Bind, What::Inproc(None));
        Ok(())
    }

    /// Has the I/O thread accept connections.
    fn listen(&mut self, text: &str, bound: &Arc<Bound>) -> Result<(), Error> {
        self.enter_reactor()?;
        let token = self.io.token();
        monitor::emit_fd(&self.hub, Event::Listening, &**bound, &bound.endpoint);
        let listener = Listener { token, owner: self.owner(), bound: bound.clone() };
        self.io.send(Command::Listen(Box::new(listener)));
        let what = What::Remote { token, bound: Some(bound.clone()), pipe: None };
        self.remember(text, bound.endpoint.clone(), Role::Bind, what);
        Ok(())
    }

    fn connect(&mut self, text: &str) -> Result<(), Error> {
        let target = match Endpoint::parse(text, Role::Connect)? {
            Endpoint::Tcp(endpoint) => Target::tcp(&endpoint),
            Endpoint::Ipc(endpoint) => Target::ipc(&endpoint)?,
            Endpoint::Inproc(name) => {
                let (id, mut pipe) = self.context.inproc().connect(&name, &self.side());
                let given = std::mem::take(&mut self.options.connect_routing_id);
                if self.kind.names_peers && !given.is_empty() {
                    pipe.peer.routing_id = given;
                }
                let up = pipe.up;
                self.pipes.insert(id, pipe);
                self.pattern.attached(&mut self.pipes, id);
                if up {
                    self.pattern.up(&mut self.pipes, id);
                }
                self.remember(text, text.to_owned(), Role::Connect, What::Inproc(Some(id)));
                return Ok(());
            }
        };
        self.enter_reactor()?;
        let token = self.io.token();
        let owner = self.owner();
        let given = std::mem::take(&mut self.options.connect_routing_id);
        let ends = (!self.options.immediate).then(|| self.lasting_pipe(given));
        let pipe = ends.as_ref().map(|ends| ends.id);
        let connecter = Connecter::new(token, owner, target, text.to_owned(), ends);
        self.io.send(Command::Connect(Box::new(connecter)));
        self.remember(text, text.to_owned(), Role::Connect, What::Remote { token, bound: None, pipe });
        Ok(())
    }

    /// A pipe that is there before its connection, and lasts over reconnects.
    fn lasting_pipe(&mut self, routing_id: Vec<u8>) -> Ends {
        let id = self.hub.new_pipe();
        let (tx, outgoing) = queue(Limits { messages: self.options.sndhwm.into(), ahead_bytes: 0 });
        let (incoming, rx) = queue(Limits { messages: self.options.rcvhwm.into(), ahead_bytes: 0 });
        let peer = Peer {
            routing_id: if self.kind.names_peers { routing_id } else { Vec::new() },
            ..Peer::default()
        };
        self.pipes.insert(id, Pipe { tx, rx, far: Far::Link(None), peer, up: false, ended: false });
        self.pattern.attached(&mut self.pipes, id);
        Ends { id, outgoing, incoming, connections: 0 }
    }

    fn remember(&mut self, given: &str, actual: String, role: Role, what: What) {
        self.last_endpoint.clone_from(&actual);
        self.endpoints.push(Attached { given: given.to_owned(), actual, role, what });
    }

    /// Makes the poll set, and has the I/O thread watch it.
    pub(crate) fn enter_reactor(&self) -> Result<(), Error> {
        let (_, made) = self.hub.make_poll_set()?;
        if made {
            self.io.send(Command::Enter(self.hub.clone()));
        }
        Ok(())
    }

    fn owner(&self) -> Owner {
        Owner { hub: self.hub.clone(), kind: self.kind, options: Arc::new(self.options.clone()) }
    }

    fn side(&self) -> Side {
        let peer = Peer { routing_id: self.options.routing_id.clone(), ..Peer::default() };
        Side { hub: self.hub.clone(), peer }
    }

    fn detach(&mut self, attached: Attached) {
        match attached.what {
            What::Remote { token, bound, pipe } => {
                if let Some(bound) = bound {
                    bound.stop();
                }
                if let Some(pipe) = pipe {
                    self.end_pipe(pipe);
                }
                let links = self.hub.all_links();
                for link in links.iter().filter(|link| link.config.origin == token) {
                    link.flush();
                    self.end_pipe(link.pipe);
                }
                self.io.send(Command::End(token, self.options.linger));
            }
            What::Inproc(None) => {
                let name = attached.actual.trim_start_matches("inproc://");
                self.context.inproc().unbind(name, &self.hub);
            }
            What::Inproc(Some(id)) => {
                self.context.inproc().stop_waiting(&self.hub, Some(id));
                self.leave_peer(id);
                self.end_pipe(id);
                self.ended.push(id);
                self.sweep();
            }
        }
    }

    /// Tells the socket at the other end of an inproc pipe that nothing more comes.
    pub(super) fn leave_peer(&mut self, id: PipeId) {
        if let Some(pipe) = self.pipes.get(id)
            && let Far::Socket { hub, pipe: far } = &pipe.far
        {
            hub.post(Mail::Ended(*far));
        }
    }

    /// Stops listening everywhere, at once.
    pub(super) fn stop_listening(&self) {
        for attached in &self.endpoints {
            if let What::Remote { bound: Some(bound), .. } = &attached.what {
                bound.stop();
            }
        }
    }
}
