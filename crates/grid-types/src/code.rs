//! Maps refusals to the answers of HTTP, gRPC and the command line, in one table.

/// Why a request was refused. Its name is the `error` of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The controller is not the leader; the body names the leader.
    NotLeader,
    /// The leader epoch, job epoch or attempt of the request is not current.
    StaleEpoch,
    /// No majority of the controllers can be reached.
    NoQuorum,
    /// The request may or may not have taken effect.
    OutcomeUnknown,
    /// A limit is reached; the same request may pass later.
    QueueFull,
    /// There is no such object.
    NotFound,
    /// The current state does not allow this.
    Conflict,
    /// Another live worker or agent has this name (W1).
    DuplicateNode,
    /// The cluster was restored elsewhere and refuses writes (E2).
    Superseded,
    /// The request cannot be read.
    BadRequest,
    /// The request can be read, and its content is not valid.
    Invalid,
    /// The body is too large.
    TooLarge,
    /// The body has another content type than is accepted.
    UnsupportedMedia,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The request names a host that this controller does not serve.
    WrongHost,
    /// The request comes from a web page, which may not change anything.
    Forbidden,
    /// A defect, or a failing disk.
    Internal,
}

struct Row {
    code: Code,
    word: &'static str,
    http: u16,
    /// The status codes of gRPC.
    grpc: i32,
    exit: u8,
}

const fn row(code: Code, word: &'static str, http: u16, grpc: i32, exit: u8) -> Row {
    Row { code, word, http, grpc, exit }
}

const TABLE: &[Row] = &[
    row(Code::NotLeader, "NOT_LEADER", 409, 9, 3),
    row(Code::StaleEpoch, "STALE_EPOCH", 409, 9, 5),
    row(Code::NoQuorum, "NO_QUORUM", 503, 14, 3),
    row(Code::OutcomeUnknown, "OUTCOME_UNKNOWN", 503, 14, 3),
    row(Code::QueueFull, "QUEUE_FULL", 429, 8, 5),
    row(Code::NotFound, "NOT_FOUND", 404, 5, 4),
    row(Code::Conflict, "CONFLICT", 409, 9, 5),
    row(Code::DuplicateNode, "DUPLICATE_NODE", 409, 6, 5),
    row(Code::Superseded, "SUPERSEDED", 409, 9, 5),
    row(Code::BadRequest, "BAD_REQUEST", 400, 3, 2),
    row(Code::Invalid, "INVALID", 422, 3, 2),
    row(Code::TooLarge, "TOO_LARGE", 413, 3, 2),
    row(Code::UnsupportedMedia, "UNSUPPORTED_MEDIA_TYPE", 415, 3, 2),
    row(Code::MethodNotAllowed, "METHOD_NOT_ALLOWED", 405, 12, 2),
    row(Code::WrongHost, "WRONG_HOST", 421, 3, 5),
    row(Code::Forbidden, "FORBIDDEN", 403, 7, 5),
    row(Code::Internal, "INTERNAL", 500, 13, 3),
];

impl Code {
    fn row(self) -> &'static Row {
        // The test below proves that the table is in the order of the enum.
        &TABLE[self as usize]
    }

    /// The name in `error`.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// The HTTP status.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.row().http
    }

    /// The number of the gRPC status code.
    #[must_use]
    pub fn grpc_number(self) -> i32 {
        self.row().grpc
    }

    /// The exit code of `gridc`.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        self.row().exit
    }

    /// The code with this name; `None` if this version does not know it.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.word == word).map(|row| row.code)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, TABLE};

    const DOCS: &str = include_str!("../../../docs/http.md");

    #[test]
    fn the_table_is_whole_and_says_what_the_contract_says() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.code as usize, i, "{}", row.word);
            assert_eq!(Code::from_word(row.word), Some(row.code));
            assert_eq!(row.code.word(), row.word);
            assert!(DOCS.contains(&format!("`{}`", row.word)), "docs/http.md does not explain {}", row.word);
            assert!((400..600).contains(&row.http) && row.grpc > 0 && (2..=5).contains(&row.exit), "{}", row.word);
        }
        assert_eq!(TABLE.len(), Code::Internal as usize + 1);
        assert_eq!((Code::QueueFull.http_status(), Code::NotFound.exit_code()), (429, 4));
    }
}
