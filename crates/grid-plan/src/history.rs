//! Old history: which ended jobs nobody has to remember any more (L6).

use grid_core::{MAX_PRUNED, PruneHistory, State};

/// The next jobs to forget, oldest first; none if nothing is that old.
///
/// `now_ms` is leader time: days without a leader do not count, and a wall clock that jumps forgets nothing (W6).
#[must_use]
pub fn old_history(state: &State, now_ms: u64, history_ms: u64) -> Option<PruneHistory> {
    let ended_before_ms = now_ms.checked_sub(history_ms)?;
    let old = state.stubs.iter().filter(|(_, stub)| stub.ended_ms < ended_before_ms);
    let jobs: Vec<_> = old.take(MAX_PRUNED).map(|(id, _)| *id).collect();
    (!jobs.is_empty()).then_some(PruneHistory { ended_before_ms, jobs })
}

#[cfg(test)]
mod tests {
    use super::old_history;
    use grid_core::{MAX_PRUNED, Parts, State, Stub};
    use grid_types::{JobEpoch, JobId, JobStatus};

    #[test]
    fn l6_the_oldest_go_first_and_only_so_many_at_once() {
        let stub = |ended_ms| Stub { epoch: JobEpoch(1), status: JobStatus::Completed, ended_ms };
        let stubs = (1..=2_000u64).map(|id| (JobId(id), stub(10_000 + id))).collect();
        let state = State::from_parts(Parts { stubs, ..Parts::default() }).unwrap();
        assert_eq!(old_history(&state, 20_000, 20_001), None, "longer than time itself");
        assert_eq!(old_history(&state, 20_000, 9_999), None, "nothing is that old");
        let some = old_history(&state, 20_000, 9_997).unwrap();
        assert_eq!((some.ended_before_ms, some.jobs), (10_003, vec![JobId(1), JobId(2)]));
        let many = old_history(&state, 20_000, 1).unwrap();
        assert_eq!((many.jobs.len(), many.jobs[0]), (MAX_PRUNED, JobId(1)));
    }
}
