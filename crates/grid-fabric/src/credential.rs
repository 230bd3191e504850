//! Defines what proves that a call belongs to a session.

use grid_proto::v1;
use grid_types::SessionId;

/// The number of a session, which anybody may know, and its secret, which only its worker has.
#[derive(Debug, Clone, PartialEq)]
pub struct Credential {
    pub session: SessionId,
    pub secret: v1::Secret,
}

impl Credential {
    /// As a registration's answer brings it.
    #[must_use]
    pub fn of(reply: &v1::RegisterNodeReply) -> Self {
        Self::new(reply.session, reply.secret.clone())
    }

    pub(crate) fn new(session: u64, secret: Option<v1::Secret>) -> Self {
        Self { session: SessionId(session), secret: secret.unwrap_or_default() }
    }
}
