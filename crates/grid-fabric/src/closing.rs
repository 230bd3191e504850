//! Why a stream was closed, as `Closing.reason` says it.

use grid_proto::Foreign;

pub const NOT_LEADER: &str = "NOT_LEADER";
/// The session is not known, its secret is another, or its node has registered again.
pub const STALE_SESSION: &str = "STALE_SESSION";
/// A second stream was opened with the secret of this session.
pub const REPLACED: &str = "REPLACED";
pub const SHUTDOWN: &str = "SHUTDOWN";
/// The worker read too slowly; it opens a new session and receives again what is still true.
pub const OVERFLOW: &str = "OVERFLOW";
/// An operator removed the node: the worker ends, and is a new node if it is started again.
pub const REMOVED: &str = "REMOVED";

/// The reason for a log, with what it means where the word alone does not tell.
#[must_use]
pub fn explained(reason: &str) -> String {
    match reason {
        REPLACED => format!("{reason}: another stream was opened with the secret of this session"),
        STALE_SESSION => format!("{reason}: the controller does not know this session any more"),
        NOT_LEADER | SHUTDOWN | OVERFLOW | REMOVED => reason.to_owned(),
        other => Foreign(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{REPLACED, explained};

    #[test]
    fn issue14_2_a_worker_logs_what_a_replaced_stream_means() {
        assert_eq!(explained(REPLACED), "REPLACED: another stream was opened with the secret of this session");
        assert_eq!(explained("forged\nline"), "\"forged\\nline\"");
    }
}
