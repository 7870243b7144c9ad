//! Binding and connecting over udp, pgm and epgm. There is no connection to wait for, so the link exists at once.

use std::sync::Arc;

use pinnace_ring::Limits;
use pinnace_zmtp::{SocketType, Version};

use super::attached::AttachedTo;
use super::{Core, Socket};
use crate::endpoint::{EndpointPair, PgmEndpoint, Role, UdpEndpoint};
use crate::error::Error;
use crate::events::Event;
use crate::io::{Command, ConnectionSide};
use crate::link::{self, Codec, First, Link, Packets, Stream};
use crate::medium::{FallbackReason, Medium};
use crate::monitor::{self, At};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe};
use crate::queue::{FarEnds, direction};
use crate::transports::{Udp, open_pgm};

/// The parts of a link.
struct Joined {
    /// The resolved endpoint.
    at: String,
    stream: Stream,
    packets: Packets,
    peer: Peer,
}

impl Socket {
    /// Without the lock while a host name is resolved.
    pub(super) fn bind_datagrams(self, text: &str, endpoint: &UdpEndpoint) -> Result<(), Error> {
        let (first, options) = self.call(false, |core| {
            let first = match core.kind.socket_type {
                SocketType::Dgram => First::Address,
                SocketType::Dish => First::Group(None),
                _ => return Err(Error::TransportForType),
            };
            Ok((first, core.options.clone()))
        })?;
        let udp = Udp::bind(endpoint, &options)?;
        self.call(false, |core| core.join(text, Role::Bind, Joined::udp(udp, first)))
    }

    /// As `bind_datagrams`, for a sender.
    pub(super) fn connect_datagrams(self, text: &str, endpoint: &UdpEndpoint) -> Result<(), Error> {
        let options = self.call(false, |core| match core.kind.socket_type {
            SocketType::Radio => Ok(core.options.clone()),
            _ => Err(Error::TransportForType),
        })?;
        let udp = Udp::connect(endpoint, &options)?;
        let first = First::Group(Some(udp.at));
        self.call(false, |core| core.join(text, Role::Connect, Joined::udp(udp, first)))
    }

    /// Joins a multicast group as sender or receiver; binding and connecting are equivalent.
    pub(super) fn join_multicast(self, text: &str, endpoint: &PgmEndpoint, role: Role) -> Result<(), Error> {
        let (kind, options) = self.call(false, |core| Ok((core.kind, core.options.clone())))?;
        let sends = match kind.socket_type {
            SocketType::Pub | SocketType::XPub => true,
            SocketType::Sub | SocketType::XSub => false,
            _ => return Err(Error::TransportForType),
        };
        let stream = Stream::pgm(open_pgm(endpoint, sends, &options)?)?;
        // As with ZMTP 1.0, subscriptions do not reach the publisher: its peers get everything.
        let peer = Peer { version: Version::V1_0, ..Peer::default() };
        let joined = Joined { at: text.to_owned(), stream, packets: Packets::Pgm { sends }, peer };
        self.call(false, |core| core.join(text, role, joined))
    }
}

impl Joined {
    fn udp(udp: Udp, first: First) -> Joined {
        let at = format!("udp://{}", udp.at);
        Joined { at, stream: Stream::plain(udp.fd), packets: Packets::Udp(first), peer: Peer::default() }
    }
}

impl Core {
    fn join(&mut self, text: &str, role: Role, joined: Joined) -> Result<(), Error> {
        let Joined { at, stream, packets, peer } = joined;
        self.enter_reactor()?;
        let (id, token) = (self.mailbox.new_pipe(), self.io.token());
        let modes = self.kind.queue_modes(&self.options);
        let out = Limits { messages: self.options.sndhwm.into(), ahead_bytes: link::AHEAD_BYTES };
        let (tx, outgoing) = direction(modes.out, || self.context.services().queue(out));
        let into = Limits { messages: self.options.rcvhwm.into(), ahead_bytes: 0 };
        let (incoming, rx) = direction(modes.into, || self.context.services().queue(into));
        let ends = match role {
            Role::Bind => EndpointPair { local: at.clone(), remote: String::new(), accepted: true },
            Role::Connect => EndpointPair { local: String::new(), remote: at.clone(), accepted: false },
        };
        let event = if role == Role::Bind { Event::Listening } else { Event::Connected };
        monitor::emit_fd(&self.mailbox, event, &stream, At::Between(&ends));
        let medium = Medium::Socket(FallbackReason::Remote);
        let config =
            self.owner().link_config(peer.version, medium, &ends, token, 0, ConnectionSide::Connected);
        let queues = FarEnds { outgoing, incoming };
        let codec = Codec::packets(packets);
        let link = Link::new(stream, self.mailbox.clone(), self.io.clone(), id, config, codec, queues);
        let link = Arc::new(link);
        let mut pipe = Pipe::new(tx, rx, Far::Link(Some(link.clone())), peer, true);
        // JOIN does not travel by datagram, so all groups are sent and receivers filter.
        pipe.takes_all = true;
        self.pipes.insert(id, pipe);
        self.update_hwm(id);
        self.pattern.attached(&mut self.pipes, id);
        self.pattern.up(&mut self.pipes, id);
        self.io.send(Command::Join(link.clone()));
        if let Err(error) = self.mailbox.add_link(&link) {
            link.cut();
            return Err(error.into());
        }
        link.read(); // A multicast has timed work to do before any input arrives.
        let what = AttachedTo::Remote { token, bound: None, pipe: None }; // The link's `origin` identifies the pipe.
        self.remember(text, if role == Role::Bind { at } else { text.to_owned() }, role, what);
        Ok(())
    }
}
