//! Defines the errors of a call, and the exit codes of a command line for them.

use std::time::Duration;

use grid_types::Code;
use grid_types::api::{ErrorDoc, FaultDoc};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The list of servers is empty.
    #[error("no server given: name a controller, like http://127.0.0.1:8765")]
    NoServer,
    /// One of the servers has an address that cannot be used.
    #[error("{text:?} is not the address of a controller: {problem}")]
    BadServer {
        /// The address as given.
        text: String,
        /// The problem with it.
        problem: String,
    },
    /// No controller answered in time.
    #[error("no controller reachable for {}: {}", seconds(.waited), .tried.join("; "))]
    Unreachable {
        /// How long the call was tried.
        waited: Duration,
        /// The result of each server in the last round.
        tried: Vec<String>,
        /// A request may have arrived: its answer was lost.
        maybe_done: bool,
    },
    /// A controller refused the request.
    #[error("{0}")]
    Refused(Refusal),
    /// The answer is not one of a controller.
    #[error("{url} does not answer as a Grid controller: {problem}; check the address")]
    Unexpected {
        /// The URL of the request.
        url: String,
        /// The problem with the answer.
        problem: String,
    },
    /// An answer began as it should and is not whole.
    #[error("the answer of {url} is not whole: {problem}")]
    BrokenOff {
        /// Who answered.
        url: String,
        /// What is missing or wrong, and after how many bytes.
        problem: String,
    },
    /// The system returned no random numbers.
    #[error("cannot make a random idempotency key: {0}")]
    NoRandomness(String),
    /// The HTTP client could not be created.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
}

/// The refusal of a controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.line())]
pub struct Refusal {
    /// Status of the response.
    pub http_status: u16,
    /// The code in the body, known to this version or not.
    pub word: String,
    /// The explanation, for an operator.
    pub message: String,
    /// Every fault of the input, with its field.
    pub details: Vec<FaultDoc>,
    /// A request may have been carried out although it was refused (`OUTCOME_UNKNOWN`, or a lost answer before).
    pub maybe_done: bool,
}

impl Error {
    /// The exit code of a command that failed with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoServer | Self::BadServer { .. } => 2,
            Self::Unreachable { .. }
            | Self::Unexpected { .. }
            | Self::BrokenOff { .. }
            | Self::NoRandomness(_)
            | Self::Setup(_) => 3,
            Self::Refused(refusal) => refusal.exit_code(),
        }
    }

    /// No controller could answer; the same call may succeed later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
            || matches!(self.code(), Some(Code::NotLeader | Code::NoQuorum | Code::OutcomeUnknown))
    }

    /// The request may have taken effect despite the error.
    #[must_use]
    pub fn maybe_done(&self) -> bool {
        match self {
            Self::Unreachable { maybe_done, .. } => *maybe_done,
            Self::Refused(refusal) => refusal.maybe_done,
            Self::NoServer
            | Self::BadServer { .. }
            | Self::Unexpected { .. }
            | Self::BrokenOff { .. }
            | Self::NoRandomness(_)
            | Self::Setup(_) => false,
        }
    }

    /// The refusal's code, if it is one that this version knows.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refusal) => refusal.code(),
            _ => None,
        }
    }
}

impl Refusal {
    pub(crate) fn new(http_status: u16, doc: ErrorDoc) -> Self {
        let maybe_done = Code::from_word(&doc.error) == Some(Code::OutcomeUnknown);
        Self { http_status, word: doc.error, message: doc.message, details: doc.details, maybe_done }
    }

    /// The code of the refusal, if this version knows it.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        Code::from_word(&self.word)
    }

    /// By the table; a code that only a newer controller knows is mapped by its HTTP status.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.code(), self.http_status) {
            (Some(code), _) => code.exit_code(),
            (None, 404 | 410) => 4,
            (None, 401 | 403 | 409 | 412 | 429) => 5,
            (None, 400..=499) => 2,
            (None, _) => 3,
        }
    }

    fn line(&self) -> String {
        if self.message.is_empty() { self.word.clone() } else { format!("{} ({})", self.message, self.word) }
    }
}

fn seconds(waited: &Duration) -> String {
    grid_types::span::seconds_text(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use grid_types::api::ErrorDoc;

    fn exit_code(http_status: u16, word: &str) -> u8 {
        Refusal::new(http_status, ErrorDoc { error: word.to_owned(), ..ErrorDoc::default() }).exit_code()
    }

    #[test]
    fn refusals_exit_as_the_contract_says_even_if_their_word_is_new() {
        assert_eq!(exit_code(422, "INVALID"), 2);
        assert_eq!(exit_code(409, "NOT_LEADER"), 3);
        assert_eq!(exit_code(404, "NOT_FOUND"), 4);
        assert_eq!(exit_code(429, "QUEUE_FULL"), 5);
        assert_eq!(exit_code(403, "FORBIDDEN_ON_SUNDAYS"), 5);
        assert_eq!(exit_code(404, "NO_SUCH_THING"), 4);
        assert_eq!(exit_code(400, "NEW_FAULT"), 2);
        assert_eq!(exit_code(507, "NEW_TROUBLE"), 3);
    }
}
