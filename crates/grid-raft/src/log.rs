//! Keeps the log on disk: entries and votes, and what proves that none of them is missing.
//!
//! ```text
//!   store   openraft's log storage over `raft-log`      record  the bytes of an entry, a vote, a membership
//!   mark    how far the log was flushed                  check   the files, before anything opens them
//! ```

pub mod check;
pub mod mark;
pub mod record;
pub mod store;
