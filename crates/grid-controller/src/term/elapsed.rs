//! Measures how much leader time has passed that no entry has recorded yet (W6).
//!
//! Leader time is stamped into entries. While nothing happens there are none, so a new leader that went on from the last
//! entry would give that time back: deadlines of waiting jobs would never be reached if leaders changed often enough.
//! So every controller measures, on its own monotonic clock, how long a leader has led since the last entry, and the
//! next `BeginTerm` records it. Time without a leader does not count. A leader also records its time every
//! 30 s (`leader::ticks`) while something waits for it: what a restart of all controllers can take back is no more than that.

use std::sync::{Mutex, PoisonError};

/// A tick that comes later says that this process was stopped, not that a leader led (V1).
const LONGEST_TICK_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub struct Elapsed(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Leader time of the last entry.
    recorded_ms: u64,
    unrecorded_ms: u64,
    last_mono_ms: Option<u64>,
}

impl Elapsed {
    /// `recorded_ms`: leader time of the last entry that is applied here.
    pub fn tick(&self, recorded_ms: u64, mono_ms: u64, is_led: bool) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = inner.last_mono_ms.replace(mono_ms).map_or(0, |last| mono_ms.saturating_sub(last));
        if inner.recorded_ms != recorded_ms {
            (inner.recorded_ms, inner.unrecorded_ms) = (recorded_ms, 0);
        } else if is_led {
            inner.unrecorded_ms += passed.min(LONGEST_TICK_MS);
        }
    }

    /// Leader time, at least: that of the last entry and what has passed since.
    pub fn now_ms(&self, recorded_ms: u64) -> u64 {
        recorded_ms + self.unrecorded_ms(recorded_ms)
    }

    /// What has passed since the last entry, at least.
    pub fn unrecorded_ms(&self, recorded_ms: u64) -> u64 {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.recorded_ms == recorded_ms { inner.unrecorded_ms } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use grid_core::{BeginTerm, Command, Entry, EntryHead, LeaveNode, Quotas, RequestHash, State, SubmitJob, apply};
    use grid_plan::due_timers;
    use grid_types::job::{JobSpec, Offline, Phase, Task};
    use grid_types::{JobId, JobStatus, NodeOrd};

    use super::Elapsed;
    use crate::life::register;

    const TICK_MS: u64 = 100;

    fn put(state: &mut State, term: u64, now_ms: u64, command: Command) {
        let epoch = state.meta.leadership.epoch;
        let head = EntryHead { epoch, term, now_ms, wall_ms: 0, commands: 1 };
        let applied = apply(state, &Entry { head, commands: vec![command] });
        assert!(applied.replies[0].is_ok(), "{:?}", applied.replies);
    }

    fn begin(term: u64) -> Command {
        Command::BeginTerm(BeginTerm {
            term,
            leader: "c1".parse().unwrap(),
            api_url: String::new(),
            grpc_addr: String::new(),
            quotas: Quotas::default(),
            cluster_id: "cluster".to_owned(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        })
    }

    /// A job that waits for an offline node, with a timeout of a minute.
    fn waiting() -> (State, JobId) {
        let mut state = State::default();
        put(&mut state, 1, 0, begin(1));
        put(&mut state, 1, 0, register("n1"));
        let session = state.nodes[&NodeOrd(1)].session;
        put(&mut state, 1, 0, Command::LeaveNode(LeaveNode { node: NodeOrd(1), session, nothing_outstanding: true }));
        let task = Task {
            backend: "test".to_owned(),
            action: "record".to_owned(),
            params: BTreeMap::new(),
            condition: grid_types::job::Condition::Always,
            max_retries: 0,
            timeout: None,
            timeout_ms: 300_000,
            effect: grid_types::decl::EffectClass::Once,
        };
        let mut spec = JobSpec::new("all".parse().unwrap(), vec![Phase::leaf(task)]);
        (spec.offline, spec.timeout) = (Offline::Wait, Some("60s".parse().unwrap()));
        let (id, namespace) = (JobId(7), "default".parse().unwrap());
        let request = RequestHash::default();
        let submit = SubmitJob { id, namespace, spec, key: None, plan: None, request };
        put(&mut state, 1, 0, Command::SubmitJob(submit));
        assert_eq!(state.jobs[&id].head.status, JobStatus::Running);
        (state, id)
    }

    /// Terms of two seconds, none of which reaches the deadline by itself.
    #[test]
    fn issue13_11_frequent_fail_overs_do_not_freeze_a_deadline() {
        let (mut state, id) = waiting();
        let (elapsed, mut mono_ms) = (Elapsed::default(), 5_000);
        let mut ended_after_ms = None;
        for term in 2..200 {
            let began_mono_ms = mono_ms;
            let now_ms = elapsed.now_ms(state.meta.now_ms);
            put(&mut state, term, now_ms, begin(term));
            let base_ms = state.meta.now_ms;
            for _ in 0..20 {
                mono_ms += TICK_MS;
                elapsed.tick(state.meta.now_ms, mono_ms, true);
                let now_ms = base_ms + mono_ms - began_mono_ms;
                if let Some(command) = due_timers(&state, now_ms) {
                    put(&mut state, term, now_ms, command);
                }
            }
            if state.jobs.get(&id).is_none_or(|job| job.head.status != JobStatus::Running) {
                ended_after_ms = Some(mono_ms - 5_000);
                break;
            }
        }
        let ended_after_ms = ended_after_ms.expect("the deadline is reached");
        assert!((60_000..70_000).contains(&ended_after_ms), "{ended_after_ms} ms");
    }

    #[test]
    fn w6_time_without_a_leader_and_of_a_stopped_process_does_not_count() {
        let elapsed = Elapsed::default();
        elapsed.tick(100, 0, true);
        elapsed.tick(100, 100, true);
        elapsed.tick(100, 90_000, false);
        assert_eq!(elapsed.now_ms(100), 200);
        elapsed.tick(100, 180_000, true);
        assert_eq!(elapsed.now_ms(100), 1_200, "as a late tick");
        assert_eq!(elapsed.now_ms(5_000), 5_000, "an entry has recorded it");
        elapsed.tick(5_000, 180_100, true);
        assert_eq!(elapsed.now_ms(5_000), 5_000);
    }
}
