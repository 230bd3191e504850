//! Plans the timers that are due: the leader proposes them when their time has come.

use grid_core::{Command, FireTimers, State};

/// Leader time is written down at least this often while jobs run: what a restart loses of it counts against no timeout,
/// and must stay small.
const LOST_AT_MOST_MS: u64 = 1_000;
/// The same while only something slow waits, like a key that is remembered for a day: an idle cluster hardly writes.
const LOST_WHEN_IDLE_MS: u64 = 600_000;

/// The command that fires what is due, or tells the time, if either is wanted.
#[must_use]
pub fn due_timers(state: &State, now_ms: u64) -> Option<Command> {
    let due = state.next_due_ms()?;
    let untold = now_ms.saturating_sub(state.meta.now_ms);
    let most = if state.running_jobs() > 0 { LOST_AT_MOST_MS } else { LOST_WHEN_IDLE_MS };
    (due <= now_ms || untold >= most).then_some(Command::FireTimers(FireTimers {}))
}

#[cfg(test)]
mod tests {
    use super::{LOST_WHEN_IDLE_MS, due_timers};
    use grid_core::{IdempotencyKey, KeyRow, Meta, Parts, RequestHash, State};
    use grid_types::JobId;

    #[test]
    fn w6_time_is_told_when_something_is_due_and_often_enough_to_survive_a_restart() {
        let idle = State::default();
        assert_eq!(due_timers(&idle, u64::MAX), None, "nothing waits: an idle cluster writes nothing");
        let key: IdempotencyKey = ("default".parse().unwrap(), "k".to_owned());
        let keys = vec![KeyRow { key, job: JobId(1), at_ms: 5_000, request: RequestHash::default() }];
        let meta = Meta { now_ms: 5_000, ..Meta::default() };
        let waiting = State::from_parts(Parts { meta, keys, ..Parts::default() }).unwrap();
        assert_eq!(due_timers(&waiting, 5_000 + LOST_WHEN_IDLE_MS - 1), None);
        assert!(due_timers(&waiting, 5_000 + LOST_WHEN_IDLE_MS).is_some());
    }
}
