//! Decides whether a caller is permitted to do what it requests; no other module does.
//!
//! ```text
//!   Caller ── permit(right, scope) ──► Permit ──► Controller::read, Controller::propose
//! ```
//!
//! Reading the state and proposing a command both take a [`Permit`], and only [`Caller::permit`] makes one: no request gets
//! past the check. Today everybody may do everything; roles of tokens are compared there when there are tokens.
//! E9: the leader epoch that a request names travels with its caller, so that a command takes effect only under it.
//! Not here: hosts and origins of browsers (`grid-api`), sessions of workers, which prove themselves (`fabric`).

use std::net::IpAddr;

use grid_types::Namespace;

use super::Refusal;

/// Who sent a request, and the terms under which it may take effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub origin: Origin,
    /// E9: the leader epoch that the request names.
    pub epoch: Option<u64>,
}

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This process.
    Local,
    /// A client that has not proved who it is.
    Anonymous { address: Option<IpAddr> },
    /// Nobody: every request is refused, so that tests see which requests are checked.
    #[cfg(test)]
    Nobody,
}

/// What a request needs to be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read.
    View,
    /// Run jobs, and decide about them and about nodes.
    Operate,
    /// Change who belongs to the cluster.
    Administer,
    /// Take leases and report results, as an agent does.
    Work,
}

/// What a right is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    Cluster,
    Namespace(&'a Namespace),
}

/// A request that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    epoch: Option<u64>,
}

impl Caller {
    /// A caller inside this process.
    #[must_use]
    pub fn local() -> Self {
        Self { origin: Origin::Local, epoch: None }
    }

    /// A client whose address may be known, and nothing else.
    #[must_use]
    pub fn anonymous(address: Option<IpAddr>) -> Self {
        Self { origin: Origin::Anonymous { address }, epoch: None }
    }

    /// E9: only under this leader epoch.
    #[must_use]
    pub fn under(self, epoch: Option<u64>) -> Self {
        Self { epoch, ..self }
    }

    /// The check of every request.
    pub fn permit(&self, right: Right, scope: Scope<'_>) -> Result<Permit, Refusal> {
        match self.origin {
            Origin::Local | Origin::Anonymous { .. } => {
                tracing::trace!(origin = ?self.origin, ?right, ?scope, "permitted");
                Ok(Permit { epoch: self.epoch })
            }
            #[cfg(test)]
            Origin::Nobody => Err(Refusal::new(grid_types::Code::Forbidden, format!("{right:?} on {scope:?}"))),
        }
    }
}

impl Permit {
    /// E9: the leader epoch under which the request may take effect.
    #[must_use]
    pub fn epoch(self) -> Option<u64> {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Right, Scope};

    #[test]
    fn e9_a_permit_carries_the_epoch_of_its_request() {
        let caller = Caller::anonymous(None);
        assert_eq!(caller.permit(Right::View, Scope::Cluster).unwrap().epoch(), None);
        let caller = caller.under(Some(7));
        assert_eq!(caller.permit(Right::Operate, Scope::Cluster).unwrap().epoch(), Some(7));
    }
}
