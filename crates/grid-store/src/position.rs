//! Defines where the store is in the log.

/// The place of one entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}
