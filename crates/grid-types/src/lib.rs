//! The types of Grid: ids, epochs, durations, specs, declarations, HTTP documents.
//!
//! No I/O, no clock, no async. All input from outside is parsed here into types that cannot hold an invalid value, so that the
//! state machine never meets one.
//! Not here: state transitions (`grid-core`), the wire between processes (`grid-proto`).

#![warn(missing_docs)]

pub mod api;
pub mod clock;
pub mod code;
mod coded;
pub mod decl;
pub mod event;
pub mod fault;
pub mod ids;
pub mod job;
pub mod lease_id;
pub mod limits;
pub mod name;
pub mod namespace;
pub mod node;
pub mod outcome;
pub mod reason;
pub mod span;
pub mod strict;
pub mod visible;
pub mod wait;

pub use code::Code;
pub use event::{Event, NodeCause};
pub use fault::{Fault, Faults};
pub use ids::{Attempt, JobEpoch, JobId, LeaderEpoch, LeaseKey, NodeOrd, SessionId, StepIndex};
pub use lease_id::LeaseId;
pub use name::{Name, NodeId};
pub use namespace::{JobRef, Namespace};
pub use outcome::{Detail, JobStatus, Outcome, RunKind};
pub use reason::{Reason, Revoked};
pub use span::Span;
pub use wait::{Wait, WaitingFor};
