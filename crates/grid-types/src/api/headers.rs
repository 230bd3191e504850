//! Names of HTTP headers.

/// Header of every response: the id of the controller that answers.
pub const HEADER_NODE: &str = "x-grid-node";
/// Header of every response: its [`Role`](super::Role).
pub const HEADER_ROLE: &str = "x-grid-role";
/// Header of every response: its leader epoch. In a request: the epoch under which the request may take effect (E9).
pub const HEADER_EPOCH: &str = "x-grid-leader-epoch";
/// Header of a submit: its idempotency key (L8).
pub const HEADER_KEY: &str = "idempotency-key";
/// The `next` of a list that is a bare array.
pub const HEADER_NEXT: &str = "x-grid-next";
/// Header of a backup: BLAKE3 of the whole file, in hex.
pub const HEADER_BACKUP_BLAKE3: &str = "x-grid-backup-blake3";
/// Of a backup: the last log index in it.
pub const HEADER_BACKUP_INDEX: &str = "x-grid-backup-index";
/// Of a backup: the leader epoch of its state.
pub const HEADER_BACKUP_EPOCH: &str = "x-grid-backup-epoch";
/// Of a backup: `true` if no majority confirmed that nothing acknowledged is missing.
pub const HEADER_BACKUP_STALE: &str = "x-grid-backup-stale";
/// Of a backup: how many jobs it contains.
pub const HEADER_BACKUP_JOBS: &str = "x-grid-backup-jobs";
/// Of a backup: the time of its state.
pub const HEADER_BACKUP_TAKEN: &str = "x-grid-backup-taken-at";
