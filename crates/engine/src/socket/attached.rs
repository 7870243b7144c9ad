//! The endpoints that a socket is bound and connected to.

use std::sync::Arc;

use crate::endpoint::Role;
use crate::pipe::PipeId;
use crate::transports::Bound;

/// An endpoint that the socket is bound or connected to.
pub(super) struct Attached {
    /// The endpoint as the application gave it (`given`) and as resolved (`actual`).
    given: String,
    pub(super) actual: String,
    role: Role,
    pub(super) what: AttachedTo,
}

pub(super) enum AttachedTo {
    /// Managed by the I/O thread under this token; for a connection, its pipe if that exists.
    Remote { token: u64, bound: Option<Arc<Bound>>, pipe: Option<PipeId> },
    /// An inproc name; for a connection, its pipe.
    Inproc(Option<PipeId>),
}

/// All endpoints of a socket.
#[derive(Default)]
pub(super) struct Endpoints {
    list: Vec<Attached>,
    /// The actual endpoint of the last bind or connect.
    last: String,
}

impl Endpoints {
    pub(super) fn add(&mut self, given: &str, actual: String, role: Role, what: AttachedTo) {
        self.last.clone_from(&actual);
        self.list.push(Attached { given: given.to_owned(), actual, role, what });
    }

    /// The actual endpoint of the last bind or connect (ZMQ_LAST_ENDPOINT); empty before the first.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Removes every endpoint with this name and role or, if there is none, with this name and the other role.
    pub(super) fn take_named(&mut self, endpoint: &str, role: Role) -> Vec<Attached> {
        let leads = |one: &Attached| one.given == endpoint || one.actual == endpoint;
        let has_role = self.list.iter().any(|one| leads(one) && one.role == role);
        let is_meant = |one: &mut Attached| leads(one) && (one.role == role || !has_role);
        self.list.extract_if(.., is_meant).collect()
    }

    /// Whether the I/O thread manages an endpoint under this token.
    pub(super) fn has(&self, token: u64) -> bool {
        self.list.iter().any(|one| one.is_managed_as(token))
    }

    /// Removes the endpoint that the I/O thread manages under this token.
    pub(super) fn forget(&mut self, token: u64) {
        self.list.retain(|one| !one.is_managed_as(token));
    }

    /// The connection managed under this token has a new pipe. Has no effect on a listener.
    pub(super) fn set_pipe(&mut self, of: u64, id: PipeId) {
        for one in &mut self.list {
            if let AttachedTo::Remote { token, bound: None, pipe } = &mut one.what
                && *token == of
            {
                *pipe = Some(id);
            }
        }
    }

    /// A pipe has ended: removes the endpoint of an inproc pipe. A remote endpoint may get another pipe.
    pub(super) fn forget_pipe(&mut self, id: PipeId) {
        self.list.retain(|one| !matches!(one.what, AttachedTo::Inproc(Some(pipe)) if pipe == id));
        for one in &mut self.list {
            if let AttachedTo::Remote { pipe, .. } = &mut one.what {
                pipe.take_if(|pipe| *pipe == id);
            }
        }
    }

    /// Removes and returns the endpoint that the pipe was connected by; `origin` is the token recorded in its link.
    pub(super) fn take_connected(&mut self, id: PipeId, origin: Option<u64>) -> Option<Attached> {
        let is_its = |one: &Attached| match &one.what {
            AttachedTo::Remote { token, bound: None, pipe } => *pipe == Some(id) || origin == Some(*token),
            AttachedTo::Inproc(pipe) => *pipe == Some(id),
            AttachedTo::Remote { .. } => false,
        };
        let index = self.list.iter().position(is_its)?;
        Some(self.list.remove(index))
    }

    /// The endpoint of a connecting pipe.
    pub(super) fn of_pipe(&self, id: PipeId) -> Option<&str> {
        let leads = |attached: &&Attached| match attached.what {
            AttachedTo::Remote { pipe, .. } | AttachedTo::Inproc(pipe) => pipe == Some(id),
        };
        self.list.iter().find(leads).map(|attached| attached.actual.as_str())
    }

    /// Stops listening on all endpoints at once.
    pub(super) fn stop_listening(&self) {
        for attached in &self.list {
            if let AttachedTo::Remote { bound: Some(bound), .. } = &attached.what {
                bound.stop();
            }
        }
    }
}

impl Attached {
    fn is_managed_as(&self, of: u64) -> bool {
        matches!(self.what, AttachedTo::Remote { token, .. } if token == of)
    }
}
