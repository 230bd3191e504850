//! Time in the state machine: whoever leads says when it has come.

use grid_core::{Command, FireTimers, State};

/// The command that fires what is due, if anything is.
#[must_use]
pub fn due_timers(state: &State, now_ms: u64) -> Option<Command> {
    state.next_due_ms().filter(|due| *due <= now_ms).map(|_| Command::FireTimers(FireTimers {}))
}
