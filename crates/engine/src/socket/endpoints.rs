//! Binding, connecting, unbinding and disconnecting.

use std::sync::Arc;
use std::time::Duration;

use pinnace_ring::Limits;

use super::attached::{Attached, AttachedTo};
use super::{Core, Socket, zap};
use crate::drops::Reason;
use crate::endpoint::{Endpoint, Role};
use crate::error::Error;
use crate::events::Event;
use crate::inproc::InprocSide;
use crate::io::{Command, Dial, LastingPipe, Listener, Owner};
use crate::mailbox::{Mailbox, Notice};
use crate::monitor::{self, At};
use crate::peer::Peer;
use crate::pipe::{Deferred, Far, Outgoing, Pipe, PipeId};
use crate::queue::{FarEnds, direction};
use crate::transports::{Bound, Target};

impl Socket {
    /// Binds to an endpoint. Errors: Invalid, Transport, TransportForType, or a system error (EADDRINUSE, ENODEV,
    /// EADDRNOTAVAIL ...).
    pub fn bind(self, endpoint: &str) -> Result<(), Error> {
        let outcome = self.try_bind(endpoint);
        // Other errors are found before anything is bound.
        if let Err(error @ Error::System(_)) = outcome
            && let Ok(core) = self.lock()
        {
            monitor::emit(&core.mailbox, Event::BindFailed, error.errno() as u32, At::Bound(endpoint));
        }
        outcome
    }

    fn try_bind(self, text: &str) -> Result<(), Error> {
        let (endpoint, options) = self.call(false, |core| {
            let endpoint = Endpoint::parse(text, Role::Bind)?;
            core.kind.goes_over(&endpoint)?;
            core.refuse_raw(&endpoint)?;
            if let Endpoint::Inproc(name) = &endpoint {
                core.bind_inproc(text, name)?;
            }
            Ok((endpoint, core.options.clone()))
        })?;
        match &endpoint {
            Endpoint::Inproc(_) => return Ok(()),
            Endpoint::Udp(udp) => return self.bind_datagrams(text, udp),
            Endpoint::Pgm(pgm) => return self.join_multicast(text, pgm, Role::Bind),
            _ => {}
        }
        // Without the lock: resolving a host name may take long.
        let bound = Arc::new(Bound::new(&endpoint, &options)?);
        self.call(false, |core| core.listen(text, &bound)).inspect_err(|_| {
            // The only reference, if the I/O thread did not get the listener.
            Arc::into_inner(bound).into_iter().for_each(Bound::abandon);
        })
    }

    /// Connects to an endpoint, and reconnects whenever the connection is lost. Errors: Invalid, Transport,
    /// TransportForType.
    pub fn connect(self, endpoint: &str) -> Result<(), Error> {
        match Endpoint::parse(endpoint, Role::Connect) {
            Ok(Endpoint::Udp(udp)) => self.connect_datagrams(endpoint, &udp),
            Ok(Endpoint::Pgm(pgm)) => self.join_multicast(endpoint, &pgm, Role::Connect),
            _ => self.call(false, |core| core.connect(endpoint).map(|_| ())),
        }
    }

    /// Undoes every `bind` to this endpoint or, if there was none, every `connect`. Errors: NoEndpoint.
    pub fn unbind(self, endpoint: &str) -> Result<(), Error> {
        self.detach(endpoint, Role::Bind)
    }

    /// Undoes every `connect` to this endpoint or, if there was none, every `bind`. Accepted messages are sent first,
    /// for as long as ZMQ_LINGER allows. Errors: NoEndpoint.
    pub fn disconnect(self, endpoint: &str) -> Result<(), Error> {
        self.detach(endpoint, Role::Connect)
    }

    fn detach(self, endpoint: &str, role: Role) -> Result<(), Error> {
        self.call(false, |core| {
            let meant = core.endpoints.take_named(endpoint, role);
            if meant.is_empty() {
                Endpoint::parse(endpoint, role)?;
                return Err(Error::NoEndpoint);
            }
            for attached in meant {
                core.detach(attached, core.options.linger);
            }
            Ok(())
        })
    }
}

impl Core {
    fn bind_inproc(&mut self, text: &str, name: &str) -> Result<(), Error> {
        self.context.inproc().bind(name, &self.side())?;
        self.remember(text, text.to_owned(), Role::Bind, AttachedTo::Inproc(None));
        // Peers that have waited for the name get subscriptions and greetings now, not at the socket's next call.
        self.read_notices();
        Ok(())
    }

    /// Has the I/O thread accept connections.
    fn listen(&mut self, text: &str, bound: &Arc<Bound>) -> Result<(), Error> {
        self.enter_reactor()?;
        let token = self.io.token();
        monitor::emit_fd(&self.mailbox, Event::Listening, &**bound, At::Bound(&bound.endpoint));
        let listener = Listener { token, owner: self.owner(), bound: bound.clone() };
        self.io.send(Command::Listen(Box::new(listener)));
        let what = AttachedTo::Remote { token, bound: Some(bound.clone()), pipe: None };
        self.remember(text, bound.endpoint.clone(), Role::Bind, what);
        if bound.is_adopted() {
            // The descriptor was for one bind; once it is closed, its number may be reused.
            Arc::make_mut(&mut self.options).use_fd = -1;
        }
        Ok(())
    }

    /// Connects. Returns the pipe if it exists before the connection.
    pub(super) fn connect(&mut self, text: &str) -> Result<Option<PipeId>, Error> {
        let endpoint = Endpoint::parse(text, Role::Connect)?;
        self.kind.goes_over(&endpoint)?;
        self.refuse_raw(&endpoint)?;
        let target = match endpoint {
            Endpoint::Inproc(name) => {
                return Ok(Some(self.connect_inproc(text, &name)));
            }
            remote => Target::new(&remote, &self.options)?,
        };
        self.enter_reactor()?;
        let (dial, pipe) = self.dial(self.io.token(), target, text);
        self.io.send(Command::Connect(Box::new(dial)));
        Ok(pipe)
    }

    /// The request to the I/O thread, and the pipe if it exists before the connection.
    pub(crate) fn dial(&mut self, token: u64, target: Target, text: &str) -> (Dial, Option<PipeId>) {
        let owner = self.owner();
        let given = self.take_connect_routing_id();
        let ends = (!self.options.immediate).then(|| Box::new(self.lasting_pipe(given)));
        let pipe = ends.as_ref().map(|ends| ends.id);
        self.remember(text, text.to_owned(), Role::Connect, AttachedTo::Remote { token, bound: None, pipe });
        (Dial { token, owner, target, endpoint: text.to_owned(), ends }, pipe)
    }

    fn connect_inproc(&mut self, text: &str, name: &str) -> PipeId {
        let (id, mut pipe, is_visited) = self.context.inproc().connect(
            &|limits| self.context.services().queue(limits),
            name,
            &self.side(),
        );
        if let Far::Socket { mailbox, .. } = &pipe.far
            && is_visited
        {
            self.pipes.deferred.push(Deferred::Visit(mailbox.clone()));
        }
        let given = self.take_connect_routing_id();
        if self.kind.names_peers && !given.is_empty() {
            pipe.peer.routing_id = given;
            pipe.has_given_id = true;
        }
        let up = pipe.up;
        self.pipes.insert(id, pipe);
        self.update_hwm(id);
        self.greet_inproc(id);
        self.pattern.attached(&mut self.pipes, id);
        if up {
            self.pattern.up(&mut self.pipes, id);
        }
        self.remember(text, text.to_owned(), Role::Connect, AttachedTo::Inproc(Some(id)));
        id
    }

    /// Sends ZMQ_HELLO_MSG into a new inproc pipe; a link sends it itself.
    pub(super) fn greet_inproc(&mut self, id: PipeId) {
        let Some(hello) = self.options.hello_msg.as_deref().filter(|_| self.kind.greets) else { return };
        match self.pipes.push(id, &Outgoing::Bytes(hello), false) {
            Ok(()) => self.pipes.commit(id),
            Err(_) => self.pipes.count_drop(Some(id), Reason::NoMemory, 1),
        }
    }

    /// Raw peers (STREAM) exchange plain bytes. Inproc transports no bytes, and raw traffic must not bypass TLS,
    /// WebSocket or a proxy. Errors: TransportForType.
    fn refuse_raw(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let plain = match endpoint {
            Endpoint::Tcp(_) => self.options.socks.proxy.is_empty(),
            Endpoint::Ipc(_) | Endpoint::Family(_) => true,
            Endpoint::Inproc(_) | Endpoint::Web(_) | Endpoint::Tls(_) => false,
            Endpoint::Udp(_) | Endpoint::Pgm(_) => false,
        };
        if plain || !self.kind.is_raw(&self.options) { Ok(()) } else { Err(Error::TransportForType) }
    }

    /// A pipe that exists before its connection and survives reconnects.
    fn lasting_pipe(&mut self, routing_id: Vec<u8>) -> LastingPipe {
        let id = self.mailbox.new_pipe();
        let modes = self.kind.queue_modes(&self.options);
        let mark = |messages: u32| Limits { messages: messages.into(), ahead_bytes: 0 };
        let (tx, outgoing) =
            direction(modes.out, || self.context.services().queue(mark(self.options.sndhwm)));
        let (incoming, rx) =
            direction(modes.into, || self.context.services().queue(mark(self.options.rcvhwm)));
        let mut pipe = Pipe::new(tx, rx, Far::Link(None), Peer::default(), false);
        if self.kind.names_peers && !routing_id.is_empty() {
            pipe.peer.routing_id = routing_id;
            pipe.has_given_id = true;
        }
        self.pipes.insert(id, pipe);
        self.update_hwm(id);
        self.pattern.attached(&mut self.pipes, id);
        LastingPipe { id, far: FarEnds { outgoing, incoming }, connections: 0 }
    }

    /// An endpoint that a test's reactor knows by `token`.
    #[cfg(test)]
    pub(crate) fn remember_scripted(&mut self, token: u64) {
        let what = AttachedTo::Remote { token, bound: None, pipe: None };
        self.remember("script", "script".to_owned(), Role::Bind, what);
    }

    pub(super) fn remember(&mut self, given: &str, actual: String, role: Role, what: AttachedTo) {
        self.endpoints.add(given, actual, role, what);
        // Callers that wait may continue: there is a new pipe.
        self.mailbox.wake();
    }

    /// Assigns the socket's I/O thread: the least busy one that ZMQ_AFFINITY allows now.
    pub(crate) fn enter_reactor(&mut self) -> Result<(), Error> {
        if self.mailbox.has_io() {
            return Ok(());
        }
        if self.options.affinity != 0 {
            self.io = self.context.least_busy(self.options.affinity)?;
        }
        self.mailbox.enter_io(&self.io);
        Ok(())
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner {
            services: self.context.services().clone(),
            authorizer: Arc::new(zap::Handler(self.context.clone())),
            mailbox: self.mailbox.clone(),
            kind: self.kind,
            options: self.options.clone(),
        }
    }

    /// ZMQ_CONNECT_ROUTING_ID applies to one connect.
    fn take_connect_routing_id(&mut self) -> Vec<u8> {
        if self.options.connect_routing_id.is_empty() {
            return Vec::new(); // `make_mut` would copy the options that connections share.
        }
        std::mem::take(&mut Arc::make_mut(&mut self.options).connect_routing_id)
    }

    fn side(&self) -> InprocSide {
        let options = &self.options;
        let peer = Peer { routing_id: options.routing_id.clone(), ..Peer::default() };
        let farewell = options.disconnect_msg.as_deref().filter(|_| self.kind.hears_disconnects);
        let greets = self.kind.greets && options.hello_msg.is_some() || options.probe_router;
        InprocSide {
            mailbox: self.mailbox.clone(),
            socket_type: self.kind.socket_type,
            peer,
            farewell: farewell.map(Arc::from),
            modes: self.kind.queue_modes(options),
            speaks_first: self.kind.sends_subscriptions || greets || !options.xpub.welcome_msg.is_empty(),
        }
    }

    pub(super) fn detach(&mut self, attached: Attached, linger: Option<Duration>) {
        match attached.what {
            AttachedTo::Remote { token, bound, pipe } => {
                if let Some(bound) = bound {
                    bound.stop();
                }
                let ids: Vec<PipeId> = self.pipes.ids().collect();
                ids.into_iter().for_each(|id| self.detach_pipe(id, token));
                if let Some(pipe) = pipe {
                    self.end_pipe(pipe);
                }
                self.io.send(Command::End(self.mailbox.clone(), token, linger));
            }
            AttachedTo::Inproc(None) => {
                let name = attached.actual.strip_prefix("inproc://").unwrap_or_default();
                self.context.inproc().unbind(name, &self.mailbox);
            }
            AttachedTo::Inproc(Some(id)) => {
                let mut left = Vec::new();
                let waited = self.context.inproc().stop_waiting(&self.mailbox, id, &mut left);
                left.into_iter().for_each(|body| self.pipes.discard(body));
                self.mailbox.lost.give_up(Reason::Expired, waited.unwrap_or_default());
                match self.pipes.get(id).map(|pipe| &pipe.far) {
                    // The name is being bound; `Notice::InprocBound` will say where the pipe leads.
                    Some(Far::Link(None)) if waited.is_none() => self.end_pipe(id),
                    _ => self.leave(id),
                }
            }
        }
    }

    /// Ends a pipe of an endpoint that is taken back. Input that has arrived is read and can be received; later input
    /// is not read. Sent messages are written now or by the I/O thread.
    fn detach_pipe(&mut self, id: PipeId, token: u64) {
        let link = match self.pipes.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(Some(link))) if link.config.origin == token => link.clone(),
            _ => return,
        };
        let mut done = Vec::new();
        link.write_out(&mut done);
        link.read_on();
        done.into_iter().for_each(|body| self.pipes.discard(body));
        self.pipes.get(id).into_iter().for_each(|pipe| pipe.stop_here());
        self.end_pipe(id);
    }

    /// Returns true if the connection's endpoint was taken back before the socket handled the notice of the
    /// connection.
    pub(super) fn is_detached(&self, pipe: &Pipe) -> bool {
        let Far::Link(Some(link)) = &pipe.far else { return false };
        !self.endpoints.has(link.config.origin)
    }

    /// Ends an inproc pipe from this side. Its id is free once the other side has acknowledged the end, and is not
    /// reused before. A pipe that has already ended keeps waiting for that.
    pub(super) fn leave(&mut self, id: PipeId) {
        if self.pipes.get(id).is_none_or(|pipe| pipe.ended) {
            return;
        }
        let is_heard = self.leave_peer(id);
        self.end_pipe(id);
        if !is_heard {
            self.ended.add(id);
            self.sweep();
        }
    }

    /// The endpoint of a connecting pipe.
    pub(crate) fn endpoint_of(&self, id: PipeId) -> Option<&str> {
        self.endpoints.of_pipe(id)
    }

    /// Tells the socket at the other end of an inproc pipe, at most once, that nothing more comes. False if there is
    /// no such socket or it was told before.
    pub(super) fn leave_peer(&mut self, id: PipeId) -> bool {
        let Some((mailbox, far)) = self.say_farewell(id) else { return false };
        mailbox.post(Notice::Ended(far));
        true
    }

    /// Sends the last message into an inproc pipe, if the peer wants one (ZMQ_DISCONNECT_MSG). Returns the other end,
    /// which must be sent `Notice::Ended`. Each side of a pipe does this once.
    pub(super) fn say_farewell(&mut self, id: PipeId) -> Option<(Arc<Mailbox>, PipeId)> {
        let pipe = self.pipes.get(id).filter(|pipe| !pipe.ended)?;
        let Far::Socket { mailbox, pipe: far } = &pipe.far else { return None };
        let peer = (mailbox.clone(), *far);
        self.pipes.rollback(id);
        if let Some(farewell) = self.pipes.get(id).and_then(|pipe| pipe.farewell.take())
            && self.pipes.push(id, &Outgoing::Bytes(&farewell), false).is_ok()
        {
            self.pipes.commit(id);
        }
        Some(peer)
    }
}
