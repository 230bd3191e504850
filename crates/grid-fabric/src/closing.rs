//! Defines why a stream is closed, and the word for it in `Closing.reason`.

use grid_proto::{Foreign, v1};

/// Why the controller ends the stream of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The controller does not lead.
    NotLeader,
    /// The session is not known, its secret is another, or its node is gone or has registered again.
    StaleSession,
    /// A second stream was opened with the secret of this session.
    Replaced,
    /// The controller stops.
    Shutdown,
    /// The worker read too slowly; it opens a new session and receives again what is still true.
    Overflow,
    /// An operator removed the node: the worker ends, and is a new node if it is started again.
    Removed,
}

impl CloseReason {
    const ALL: [Self; 6] =
        [Self::NotLeader, Self::StaleSession, Self::Replaced, Self::Shutdown, Self::Overflow, Self::Removed];

    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NotLeader => "NOT_LEADER",
            Self::StaleSession => "STALE_SESSION",
            Self::Replaced => "REPLACED",
            Self::Shutdown => "SHUTDOWN",
            Self::Overflow => "OVERFLOW",
            Self::Removed => "REMOVED",
        }
    }

    /// The reason that a message names; `None` if this version does not know it.
    #[must_use]
    pub fn of(closing: &v1::Closing) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == closing.reason)
    }

    /// The message; `leader_url` may be empty.
    #[must_use]
    pub fn message(self, leader_url: String) -> v1::Closing {
        v1::Closing { reason: self.word().to_owned(), leader_url }
    }
}

/// The reason for a log, with what it means where the word alone is not clear.
#[must_use]
pub fn explained(closing: &v1::Closing) -> String {
    let word = &closing.reason;
    match CloseReason::of(closing) {
        Some(CloseReason::Replaced) => format!("{word}: another stream was opened with the secret of this session"),
        Some(CloseReason::StaleSession) => format!("{word}: the controller does not know this session any more"),
        Some(_) => word.clone(),
        None => Foreign(word).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use grid_proto::v1;

    use super::{CloseReason, explained};

    #[test]
    fn every_reason_is_read_as_it_is_written() {
        for reason in CloseReason::ALL {
            assert_eq!(CloseReason::of(&reason.message(String::new())), Some(reason));
        }
        let unknown = v1::Closing { reason: "LATER".to_owned(), leader_url: String::new() };
        assert_eq!(CloseReason::of(&unknown), None);
    }

    #[test]
    fn issue14_2_a_worker_logs_what_a_replaced_stream_means() {
        let replaced = CloseReason::Replaced.message(String::new());
        assert_eq!(explained(&replaced), "REPLACED: another stream was opened with the secret of this session");
        let forged = v1::Closing { reason: "forged\nline".to_owned(), leader_url: String::new() };
        assert_eq!(explained(&forged), "\"forged\\nline\"");
    }
}
