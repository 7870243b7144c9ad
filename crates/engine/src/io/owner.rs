//! What the I/O thread needs to know of a socket whose endpoints it serves, and of the socket's context.

use std::sync::{Arc, OnceLock};

use pinnace_ring::{Budget, Consumer, Limits, Producer, budgeted_queue, queue};
use pinnace_zmtp::Version;

use crate::authorization::Authorizer;
use crate::endpoint::EndpointPair;
use crate::link;
use crate::mailbox::Mailbox;
use crate::medium::Medium;
use crate::options::Options;
use crate::socket_kind::SocketKind;
use crate::transports::Resolver;

/// The parts of a context that its sockets and I/O threads share.
#[derive(Default)]
pub(crate) struct Services {
    /// The byte budget of all queues together, once it was limited.
    pub(crate) budget: OnceLock<Arc<Budget>>,
    pub(crate) resolver: Resolver,
}

impl Services {
    /// Creates a queue, within the context's budget if there is one.
    pub(crate) fn queue(&self, limits: Limits) -> (Producer, Consumer) {
        match self.budget.get() {
            Some(budget) => budgeted_queue(limits, budget),
            None => queue(limits),
        }
    }
}

/// What listeners and connecters need to know of a socket.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) services: Arc<Services>,
    /// Asks the context's handler about peers.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) kind: SocketKind,
    pub(crate) options: Arc<Options>,
}

/// Which side made a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionSide {
    Accepted,
    Connected,
}

/// Bits of ZMQ_ROUTER_NOTIFY.
pub(crate) const NOTIFY_CONNECT: i32 = 1;
const NOTIFY_DISCONNECT: i32 = 2;

impl Owner {
    /// True if its peers do not speak ZMTP: they send plain bytes.
    pub(crate) fn is_raw(&self) -> bool {
        self.kind.is_raw(&self.options)
    }

    /// Whether the socket receives an empty message when a peer comes or goes.
    pub(crate) fn notifies(&self, bit: i32) -> bool {
        if self.is_raw() { self.options.stream_notify } else { self.options.router_notify & bit != 0 }
    }

    /// The messages that the socket receives when a connection is lost.
    fn disconnect_messages(&self, side: ConnectionSide) -> Vec<Vec<u8>> {
        let options = &self.options;
        let message = match side {
            ConnectionSide::Accepted => {
                options.disconnect_msg.as_ref().filter(|_| self.kind.hears_disconnects)
            }
            ConnectionSide::Connected => options.hiccup_msg.as_ref().filter(|_| self.kind.hears_hiccups),
        };
        let notice = self.notifies(NOTIFY_DISCONNECT).then(Vec::new);
        notice.into_iter().chain(message.filter(|_| !self.is_raw()).cloned()).collect()
    }

    pub(crate) fn link_config(
        &self,
        version: Version,
        medium: Medium,
        ends: &EndpointPair,
        origin: u64,
        connection: u64,
        side: ConnectionSide,
    ) -> link::Config {
        let options = &self.options;
        let greets = self.kind.greets && !self.is_raw();
        link::Config {
            version,
            medium,
            is_raw: self.is_raw(),
            keeps_subscriptions: self.kind.keeps_subscriptions,
            receives_subscriptions: self.kind.receives_subscriptions(),
            keeps_groups: self.kind.keeps_groups,
            taking: self.kind.taking(&self.options),
            // A raw peer's bytes are split into messages that fit.
            max_body: if self.is_raw() { i64::MAX as u64 } else { options.max_body() },
            ends: ends.clone(),
            origin,
            connection,
            hello: options.hello_msg.clone().filter(|_| greets).unwrap_or_default(),
            disconnect_messages: self.disconnect_messages(side),
        }
    }
}
