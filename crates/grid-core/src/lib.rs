//! The state machine: `apply` turns entries into a new state, replies, effects and rows to store.
//!
//! ```text
//!   Entry --apply--> State'  +  replies   (for the caller)   
//!                            +  effects   (for the leader; followers drop them)
//!                            +  changes   (for the store, on every replica)
//! ```
//!
//! Total, synchronous, deterministic (L2): no clock, no randomness, no I/O, no floats, ordered maps only.
//! Not here: when to propose what (`grid-plan`, `grid-controller`), SQL (`grid-store`), the wire (`grid-proto`).

#![warn(missing_docs)]

mod apply;
mod changes;
mod commands;
mod effect;
mod encoding;
mod entry;
mod invariants;
mod jobs;
mod levels;
mod nodes;
mod relevance;
mod state;
mod targets;
mod turn;

#[cfg(test)]
mod foreign_text;
#[cfg(test)]
mod random_walk;
#[cfg(test)]
mod world;

pub use apply::{Applied, apply};
pub use changes::{Changes, EventRow, History, PastAttempt, ResultRow, SkipRow};
pub use commands::{
    Answer, BeginLease, BeginTerm, CancelJob, Command, ConfirmJob, ConfirmRevoke, DrainNode, ExpireLease, Fenced,
    FireTimers, HandOut, JournalOfJob, LAST_COMMAND, LeaveNode, MAX_PRUNED, MAX_RECLAIMED, MarkNode, OrderDrain,
    PruneHistory, RaiseFeatureLevel, ReclaimNodes, RecordResult, RegisterNode, Rejection, RemoveNode, Reply,
    ReportJournal, ReportSnapshots, ResolveStep, RestoredFrom, ResumeJob, Shown, Stale, SubmitJob, Supersede, Verdict,
    first_n, level_of_command,
};
pub use effect::{Effect, Offer, node_effects, pending_effects};
pub use entry::{
    BadEntry, Entry, EntryHead, command_number, decode_entry, decode_entry_at, encode_command, encode_entry,
};
pub use invariants::{Starts, violations};
pub use jobs::{Doubt, Planned, operator_wait, plan, why};
pub use levels::{BadLevel, FEATURE_LEVEL, OLDEST_LEVEL, check_level};
pub use state::{
    Ahead, Bits, Cell, CellState, FirstNodes, IdempotencyKey, Job, JobHead, JobParts, KeyRow, Leadership, Meta, Node,
    Parts, Past, Quotas, Ran, RanEnd, RanState, RequestHash, Restored, Revoked, SECRET_BYTES, Scope, SecretHash, State,
    Stub, Superseded, Tally, Trip,
};
pub use targets::{Unmatched, unmatched};
