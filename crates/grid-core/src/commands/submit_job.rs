//! `SubmitJob`: a job is accepted. It starts at once if admission allows (the end of the same entry), or waits.

use std::sync::Arc;

use grid_types::job::{JobSpec, Target};
use grid_types::limits::{MAX_KEYS, MAX_ROWS};
use grid_types::{Event, JobEpoch, JobId, Name, NodeOrd};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::jobs::{Planned, plan};
use crate::state::{Job, JobHead, KeyRow, RequestHash};
use crate::turn::Turn;

/// Submits a job.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct SubmitJob {
    /// Its id, minted by the leader.
    #[n(0)]
    pub id: JobId,
    /// The namespace that it belongs to.
    #[n(1)]
    pub namespace: Name,
    /// What is to be done, with all defaults filled in.
    #[n(2)]
    pub spec: JobSpec,
    /// The idempotency key of the request.
    #[n(3)]
    pub key: Option<String>,
    /// The plan it is bound to.
    #[n(4)]
    pub plan: Option<Planned>,
    /// Of the request as it was parsed, before defaults (L8): what `key` is remembered with.
    #[n(5)]
    #[cbor(default)]
    pub request: RequestHash,
}

impl SubmitJob {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let key = self.key.as_ref().map(|key| (self.namespace.clone(), key.clone()));
        if let Some(known) = key.as_ref().and_then(|key| turn.state.keys.get(key)) {
            if known.request != self.request {
                let (job, first, second) = (known.job, known.request, self.request);
                return Err(Rejection::KeyConflict { job, first, second });
            }
            let is_kept = turn.state.jobs.contains_key(&known.job) || turn.state.stubs.contains_key(&known.job);
            return if is_kept {
                Ok(Reply::Submitted { job: known.job, repeated: true })
            } else {
                Err(Rejection::Forgotten(known.job))
            };
        }
        // L8: a key is never evicted for another one, or a repeated submit would run twice.
        if key.is_some() && turn.state.keys.len() >= MAX_KEYS {
            return Err(Rejection::TooManyKeys { limit: MAX_KEYS });
        }
        self.check(turn)?;
        let planned = self.planned_nodes(turn)?;
        let state = &mut turn.state;
        let head = JobHead::new(self.id, self.namespace.clone(), JobEpoch(1), &state.meta);
        let spec = Arc::new(self.spec.clone());
        let mut job = Job::new(head, spec);
        if let Some(nodes) = planned {
            job.freeze(nodes);
            turn.changes.started.insert(self.id);
        }
        state.jobs.insert(self.id, job);
        state.pending.insert(self.id);
        if let Some(key) = key {
            let row = KeyRow { key, job: self.id, at_ms: state.meta.now_ms, request: self.request };
            state.remember(row.clone());
            turn.changes.keys_added.push(row);
        }
        turn.changes.jobs.insert(self.id);
        turn.changes.submitted.insert(self.id);
        turn.record_job_event(self.id, Event::JobSubmitted { target: self.spec.target.clone() });
        Ok(Reply::Submitted { job: self.id, repeated: false })
    }

    /// The nodes that were seen in the plan, if the submit names one and it still holds.
    fn planned_nodes(&self, turn: &Turn<'_>) -> Result<Option<Vec<NodeOrd>>, Rejection> {
        let Some(planned) = &self.plan else { return Ok(None) };
        let (nodes, hash) = plan(turn.state, &self.spec, &planned.declarations);
        if hash == planned.hash { Ok(Some(nodes)) } else { Err(Rejection::PlanChanged) }
    }

    fn check(&self, turn: &Turn<'_>) -> Result<(), Rejection> {
        let state = &turn.state;
        if state.jobs.contains_key(&self.id) || state.stubs.contains_key(&self.id) {
            // Ids are minted above every earlier one; this is a leader with a broken clock and a lost memory.
            return Err(Rejection::IdTaken(self.id));
        }
        let is_narrowed = self.spec.exclude.is_some() || self.spec.limit.is_some();
        let matched = match self.spec.target {
            Target::Any if !is_narrowed => usize::from(!state.nodes.is_empty()),
            Target::Any => state.candidates(&self.spec).len().min(1),
            _ => state.candidates(&self.spec).len(),
        };
        if matched == 0 {
            return Err(Rejection::NoTarget(format!("no known node matches {}", self.spec.aim())));
        }
        let rows = self.spec.step_count().saturating_mul(matched);
        if rows > MAX_ROWS {
            let steps = self.spec.step_count();
            let problem = format!("{steps} steps on {matched} nodes are {rows} rows; a job has at most {MAX_ROWS}");
            return Err(Rejection::TooLarge(problem));
        }
        turn.check_queue()
    }
}

impl Turn<'_> {
    /// Admission: one that can start at once never waits; of those that wait there are only so many.
    pub(crate) fn check_queue(&self) -> Result<(), Rejection> {
        let quotas = self.state.meta.quotas;
        let starts = u32::try_from(self.state.running.len()).unwrap_or(u32::MAX) < quotas.max_concurrent;
        let pending = u32::try_from(self.state.pending.len()).unwrap_or(u32::MAX);
        if (pending > 0 || !starts) && pending >= quotas.max_pending {
            return Err(Rejection::QueueFull { pending, limit: quotas.max_pending });
        }
        self.check_waiting()
    }

    /// Jobs that wait for an operator or for offline nodes hold no place, so they need a bound of their own. Only new work
    /// is refused: a running job may still reach a gate.
    fn check_waiting(&self) -> Result<(), Rejection> {
        let (state, limit) = (&self.state, self.state.meta.quotas.max_waiting);
        let most = state.jobs.len().saturating_sub(state.pending.len() + state.running.len());
        if u32::try_from(most).is_ok_and(|most| most < limit) {
            return Ok(());
        }
        let waiting = u32::try_from(state.waiting_jobs()).unwrap_or(u32::MAX);
        if waiting < limit { Ok(()) } else { Err(Rejection::TooManyWaiting { waiting, limit }) }
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestHash, SubmitJob};
    use crate::commands::{Command, Rejection, Reply};
    use crate::state::KeyRow;
    use crate::world::{World, confirmed, leaf};
    use grid_types::job::Offline;
    use grid_types::limits::MAX_KEYS;
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn a_job_starts_at_once_and_offers_its_first_step() {
        let mut world = World::with_nodes(3);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(world.status(job), JobStatus::Running);
        assert_eq!(world.offered().len(), 3);
        assert_eq!(world.count(job, 0, Outcome::Running), 3);
    }

    #[test]
    fn e4_the_same_key_gives_the_same_job() {
        let mut world = World::with_nodes(1);
        let first = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k1"));
        let second = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k1"));
        let Ok(Reply::Submitted { job, repeated: false }) = first else { panic!("{first:?}") };
        assert_eq!(second, Ok(Reply::Submitted { job, repeated: true }));
        world.finish_all();
        let third = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k1"));
        assert_eq!(third, Ok(Reply::Submitted { job, repeated: true }), "L8: whatever happens to the job");
        world.advance_ms(grid_types::limits::KEY_TTL_MS);
        let fourth = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k1"));
        assert!(matches!(fourth, Ok(Reply::Submitted { repeated: false, .. })), "L8: for 24 h");
    }

    #[test]
    fn j12_the_same_key_with_another_request_is_a_conflict_that_names_the_job_and_both_hashes() {
        let mut world = World::with_nodes(1);
        let submit = |world: &mut World, request: &[u8]| {
            let request = RequestHash::of(request);
            let Command::SubmitJob(submit) = world.submit_command("all", vec![leaf("ping", "echo")], Some("k1")) else {
                unreachable!()
            };
            world.apply(vec![Command::SubmitJob(SubmitJob { request, ..submit })]).replies.remove(0)
        };
        let first = submit(&mut world, b"one");
        let Ok(Reply::Submitted { job, repeated: false }) = first else { panic!("{first:?}") };
        let rejection = Rejection::KeyConflict { job, first: RequestHash::of(b"one"), second: RequestHash::of(b"two") };
        let text = rejection.to_string();
        let conflict = Err(rejection);
        assert_eq!(submit(&mut world, b"two"), conflict);
        assert_eq!(submit(&mut world, b"one"), Ok(Reply::Submitted { job, repeated: true }));
        world.finish_all();
        assert_eq!(submit(&mut world, b"two"), conflict, "whatever happened to the job");
        assert_eq!(world.state.jobs.len() + world.state.stubs.len(), 1);
        assert!(text.contains(&job.to_string()) && text.contains(&RequestHash::of(b"two").to_string()), "{text}");
    }

    #[test]
    fn l8_keys_are_never_evicted_and_at_the_cap_a_submit_with_a_key_is_refused() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let kept = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("kept"));
        world.finish_all();
        let Ok(Reply::Submitted { job: of_kept, .. }) = kept else { panic!("{kept:?}") };
        for i in 0..MAX_KEYS - 1 {
            let key = ("default".parse().unwrap(), format!("k{i}"));
            let at_ms = world.state.meta.now_ms;
            world.state.remember(KeyRow { key, job, at_ms, request: RequestHash::default() });
        }
        let refused = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("one-more"));
        assert_eq!(refused, Err(Rejection::TooManyKeys { limit: MAX_KEYS }));
        assert!(world.submit_keyed("all", vec![leaf("ping", "echo")], None).is_ok(), "without a key");
        let again = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("kept"));
        assert_eq!(again, Ok(Reply::Submitted { job: of_kept, repeated: true }));
    }

    #[test]
    fn j6_a_target_that_matches_no_known_node_is_refused() {
        let mut world = World::with_nodes(1);
        let refused = world.submit_keyed("group:nobody", vec![leaf("ping", "echo")], None);
        assert!(matches!(refused, Err(Rejection::NoTarget(_))));
        assert!(world.state.jobs.is_empty());
    }

    #[test]
    fn admission_lets_so_many_run_and_so_many_wait() {
        let mut world = World::with_nodes(1);
        world.set_quotas(1, 2);
        let jobs: Vec<_> = (0..3).map(|_| world.submit("all", vec![leaf("ping", "echo")])).collect();
        assert_eq!(world.status(jobs[1]), JobStatus::Pending);
        let refused = world.submit_keyed("all", vec![leaf("ping", "echo")], None);
        assert_eq!(refused, Err(Rejection::QueueFull { pending: 2, limit: 2 }));
        world.succeed_all_offered();
        assert_eq!(world.status(jobs[0]), JobStatus::Completed);
        assert_eq!(world.status(jobs[1]), JobStatus::Running, "the oldest goes first");
        assert_eq!(world.status(jobs[2]), JobStatus::Pending);
    }

    #[test]
    fn issue13_19_jobs_that_wait_for_an_operator_are_bounded() {
        let mut world = World::with_nodes(1);
        world.state.meta.quotas.max_waiting = 2;
        let gates: Vec<_> = (0..2).map(|_| world.submit("all", vec![confirmed(leaf("ping", "echo"))])).collect();
        let refused = world.submit_keyed("all", vec![leaf("ping", "echo")], None);
        assert_eq!(refused, Err(Rejection::TooManyWaiting { waiting: 2, limit: 2 }));
        world.confirm(gates[0], None).unwrap();
        world.cancel(gates[1]).unwrap();
        world.submit("all", vec![leaf("ping", "echo"), confirmed(leaf("ping", "echo"))]);
        let third = world.submit("all", vec![leaf("ping", "echo"), confirmed(leaf("ping", "echo"))]);
        world.state.meta.quotas.max_waiting = 1;
        world.succeed_all_offered();
        assert_eq!(world.state.waiting_jobs(), 2, "a running job may still reach a gate");
        assert_eq!(world.status(third), JobStatus::Running);
    }

    #[test]
    fn issue13_19_jobs_that_wait_for_offline_nodes_count_too() {
        let mut world = World::with_nodes(1);
        world.state.meta.quotas.max_waiting = 1;
        world.leave(1);
        world.next_job(|spec| spec.offline = Offline::Wait);
        world.submit("all", vec![leaf("ping", "echo")]);
        let refused = world.submit_keyed("all", vec![leaf("ping", "echo")], None);
        assert_eq!(refused, Err(Rejection::TooManyWaiting { waiting: 1, limit: 1 }));
    }

    #[test]
    fn l4_more_rows_than_a_job_may_have_are_refused() {
        let mut world = World::with_nodes(2_001);
        let refused = world.submit_keyed("all", vec![leaf("ping", "echo"); 1_000], None);
        assert!(matches!(refused, Err(Rejection::TooLarge(_))), "{refused:?}");
    }
}
