//! The background tasks of a leader. `open` starts them, `grid-tasks` watches them.

mod announce;
mod dispatch;
mod pruner;
mod snapshots;
mod ticker;

pub use announce::announce;
pub use dispatch::dispatch;
pub use pruner::prune;
pub use snapshots::follow as report_snapshots;
pub use ticker::tick;
