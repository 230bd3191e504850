//! Applies the rules of jobs: everything that follows, without a further command, from what happened to one.
//!
//! ```text
//!   walk      which phase, which step on which node      recall    what may be offered of a restored job
//!   members   which nodes a phase is for                 ahead     what journals know of steps that it has not reached
//!   window    who is let into a phase                    hold      restored jobs until an operator confirms them
//!   lease     slots, results, retries, revokes           unknown   outcomes that nobody knew
//!   skip      steps that will not run                    ending    verdicts, and what is left of a job
//!   pause     gates, waits, admission                    failed_steps   events about failed steps
//!   first     canaries: nodes that run a phase first     trip      failures, and what they stop
//! ```
//!
//! They work on a [`Turn`](crate::turn::Turn). `why` and `plan` only read the state.
//! Not here: commands (`commands`), the order in which consequences are settled (`apply`), data (`state`).

mod ahead;
mod backoff;
mod ending;
mod failed_steps;
mod first;
mod hold;
mod lease;
mod members;
mod pause;
mod plan;
mod recall;
mod report;
mod skip;
mod trip;
mod unknown;
mod walk;
mod why;
mod window;

pub use plan::{Planned, plan};
pub use recall::Doubt;
pub(crate) use report::{Facts, Report, cut};
pub use why::{operator_wait, why};
