//! Pure planners: they look at the state and at the messages of the nodes, and propose commands. `apply` checks again
//! what they propose, so a planner that is late or wrong costs an entry, never a promise.

mod backstop;
mod history;
mod liveness;
mod timers;

pub use backstop::Backstop;
pub use history::{Unused, old_history, unused_nodes};
pub use liveness::{Liveness, Thresholds};
pub use timers::due_timers;
