//! The leader's runtime: proposer, dispatcher, timers, leadership.

mod control;

pub use control::{Control, JobQuery, Output, Refusal, ResultQuery, Submitted};
