//! Checks I7: a `once` attempt runs at most once, and another one comes only by W8.
//!
//! A state does not say what ran before it, so this watches entries as they are applied. A `once` step runs on a node when
//! a worker process is granted to begin it (W3), or when an agent is given it (W10). After that no other process and no
//! other attempt may be granted, until the node has reported a definite failure or an operator has asked for another run;
//! what has succeeded never runs again, but for clean-ups, which every run repeats (J8, J9).
//! Not here: what a restore takes back (`recall::walk`); with a restored term everything is forgotten.

use std::collections::BTreeMap;

use grid_types::decl::EffectClass;
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, Outcome, SessionId, StepIndex};

use crate::apply::Applied;
use crate::changes::History;
use crate::commands::{BeginLease, Command, HandOut, Reply, Verdict};
use crate::entry::Entry;
use crate::state::State;

/// Which `once` steps have run where, as far as the entries say that were shown.
#[derive(Debug, Default)]
pub struct Starts {
    /// The worker process behind a session.
    processes: BTreeMap<SessionId, Vec<u8>>,
    newest: BTreeMap<(JobId, StepIndex, NodeOrd), Start>,
}

#[derive(Debug)]
struct Start {
    epoch: JobEpoch,
    attempt: Attempt,
    /// None: an agent, which may not even be given it again.
    process: Option<Vec<u8>>,
    next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It runs, or nobody knows how it ended.
    Nothing,
    AnotherAttempt,
    /// It has succeeded, in this run if it is a clean-up.
    Never,
}

impl Starts {
    /// What an entry has done against I7. `state`: as the entry left it.
    pub fn violations(&mut self, state: &State, entry: &Entry, applied: &Applied) -> Vec<String> {
        let mut found = Vec::new();
        for (command, reply) in entry.commands.iter().zip(&applied.replies) {
            if let Ok(reply) = reply {
                self.watch(state, applied, command, reply, &mut found);
            }
        }
        for row in &applied.changes.history {
            let History::Result(row) = row else { continue };
            let Some(start) = self.newest.get_mut(&(row.job, row.step, row.node)) else { continue };
            start.next = match row.outcome {
                Outcome::Success => Next::Never,
                Outcome::Failed => Next::AnotherAttempt,
                _ => start.next,
            };
        }
        for id in &applied.changes.pruned {
            self.newest.retain(|(job, ..), _| job != id);
        }
        found
    }

    fn watch(&mut self, state: &State, applied: &Applied, command: &Command, reply: &Reply, found: &mut Vec<String>) {
        let is_once = |lease: &LeaseKey| {
            let live = state.jobs.get(&lease.job);
            let job = live.or_else(|| applied.changes.retired.iter().find(|job| job.head.id == lease.job));
            let step = usize::try_from(lease.step.0).ok();
            let task = job.zip(step).and_then(|(job, step)| job.spec.steps().nth(step));
            task.is_some_and(|(_, task)| task.effect == EffectClass::Once)
        };
        match (command, reply) {
            (Command::Fenced(fenced), _) => self.watch(state, applied, &fenced.command, reply, found),
            (Command::BeginTerm(begin), _) if begin.restored.is_some() => *self = Self::default(),
            (Command::RegisterNode(node), Reply::Registered { session, .. }) => {
                self.processes.insert(*session, node.nonce.clone());
            }
            (Command::BeginLease(BeginLease { node, session, lease }), Reply::Begun { granted: true })
                if is_once(lease) =>
            {
                let process = self.processes.get(session).cloned().unwrap_or_default();
                found.extend(self.begins(*node, *lease, Some(process)));
            }
            (Command::HandOut(HandOut { node, returned, .. }), Reply::HandedOut { leases, .. }) => {
                for lease in leases.iter().filter(|lease| is_once(lease)) {
                    if *returned {
                        self.newest.remove(&(lease.job, lease.step, *node));
                    } else {
                        found.extend(self.begins(*node, *lease, None));
                    }
                }
            }
            (Command::ResolveStep(resolve), _) if resolve.verdict == Verdict::Retry => {
                let node = state.node_by_id(&resolve.node).map(|node| node.ord);
                self.asked_for(|(job, step, at), next| {
                    next == Next::Nothing && (*job, *step, Some(*at)) == (resolve.job, resolve.step, node)
                });
            }
            (Command::ResumeJob(resume), _) => self.asked_for(|(job, step, _), next| {
                *job == resume.job && (next == Next::Nothing || resume.spec.is_cleanup(*step))
            }),
            _ => {}
        }
    }

    /// An operator wants it to run again.
    fn asked_for(&mut self, concerns: impl Fn(&(JobId, StepIndex, NodeOrd), Next) -> bool) {
        let again = self.newest.iter_mut().filter(|(key, start)| concerns(key, start.next));
        again.for_each(|(_, start)| start.next = Next::AnotherAttempt);
    }

    fn begins(&mut self, node: NodeOrd, lease: LeaseKey, process: Option<Vec<u8>>) -> Option<String> {
        let LeaseKey { job, job_epoch: epoch, step, attempt } = lease;
        let start = Start { epoch, attempt, process, next: Next::Nothing };
        let before = self.newest.get(&(job, step, node));
        let problem = before.and_then(|before| {
            let is_same = (before.epoch, before.attempt) == (epoch, attempt);
            // A worker process that did not get the answer asks again.
            let repeats = is_same && before.process.is_some() && before.process == start.process;
            let follows = !is_same && before.next == Next::AnotherAttempt;
            let says = format!(
                "I7: {lease} begins on node {node} after {}/{}: {:?}",
                before.epoch, before.attempt, before.next
            );
            (!repeats && !follows).then_some(says)
        });
        if before.is_none_or(|before| (before.epoch, before.attempt) != (epoch, attempt)) {
            self.newest.insert((job, step, node), start);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use grid_types::Outcome;

    use super::Starts;
    use crate::apply::Applied;
    use crate::changes::Changes;
    use crate::commands::{BeginLease, Command, Reply};
    use crate::entry::Entry;
    use crate::world::{World, leaf};

    /// As if a state machine had granted it.
    fn granted(starts: &mut Starts, world: &World, commands: Vec<Command>, replies: Vec<Reply>) -> usize {
        let replies = replies.into_iter().map(Ok).collect();
        let applied = Applied { replies, effects: Vec::new(), changes: Changes::default() };
        starts.violations(&world.state, &Entry { head: world.head(), commands }, &applied).len()
    }

    #[test]
    fn i7_another_process_and_another_attempt_are_noticed() {
        let mut world = World::with_nodes(1);
        world.submit("all", vec![leaf("test", "record")]);
        let (node, lease) = world.offered()[0];
        let session = world.state.nodes[&node].session;
        let begin = |session, lease| vec![Command::BeginLease(BeginLease { node, session, lease })];
        let register = |nonce: &[u8]| World::register_command("node-1", b"journal-1", 2, nonce, 4);
        let mut starts = Starts::default();
        let grant = || vec![Reply::Begun { granted: true }];
        let registered = |session| vec![Reply::Registered { node, session }];
        assert_eq!(granted(&mut starts, &world, vec![register(b"one")], registered(session)), 0);
        assert_eq!(granted(&mut starts, &world, begin(session, lease), grant()), 0);
        assert_eq!(granted(&mut starts, &world, begin(session, lease), grant()), 0, "the same process asks again");
        let next = grid_types::LeaseKey { attempt: grid_types::Attempt(2), ..lease };
        assert_eq!(granted(&mut starts, &world, begin(session, next), grant()), 1, "nothing is known of the first");
        let mut starts = Starts::default();
        assert_eq!(granted(&mut starts, &world, begin(session, lease), grant()), 0);
        let other = grid_types::SessionId(session.0 + 1);
        assert_eq!(granted(&mut starts, &world, vec![register(b"two")], registered(other)), 0);
        assert_eq!(granted(&mut starts, &world, begin(other, lease), grant()), 1, "another process");
    }

    #[test]
    fn i7_a_definite_failure_and_an_operator_allow_another_attempt() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![crate::world::retrying("test", "record", 1)]);
        world.begin_all();
        world.report(world.offered()[0], Outcome::Failed).unwrap();
        world.advance_ms(60_000);
        world.begin_all();
        world.report(world.offered()[0], Outcome::TimedOut).unwrap();
        assert_eq!(world.status(job), grid_types::JobStatus::Failed);
        world.resume(job).unwrap();
        world.begin_all();
        world.finish_all();
        assert_eq!(world.status(job), grid_types::JobStatus::Completed);
    }

    #[test]
    fn i7_the_next_run_begins_clean_ups_again_and_nothing_else_that_succeeded() {
        let mut world = World::with_nodes(1);
        let cleanup = crate::world::when(grid_types::job::Condition::OnFailure, leaf("test", "record"));
        let job = world.submit("all", vec![leaf("test", "record"), leaf("test", "record"), cleanup]);
        let mut starts = Starts::default();
        let mut begun = Vec::new();
        for outcome in [Outcome::Success, Outcome::Failed, Outcome::Success] {
            world.begin_all();
            let (node, lease) = world.offered()[0];
            let session = world.state.nodes[&node].session;
            let begin = Command::BeginLease(BeginLease { node, session, lease });
            assert_eq!(granted(&mut starts, &world, vec![begin], vec![Reply::Begun { granted: true }]), 0);
            let rows = world.history.len();
            world.report((node, lease), outcome).unwrap();
            let changes = Changes { history: world.history[rows..].to_vec(), ..Changes::default() };
            let applied = Applied { replies: Vec::new(), effects: Vec::new(), changes };
            starts.violations(&world.state, &Entry { head: world.head(), commands: Vec::new() }, &applied);
            begun.push((node, session, lease));
        }
        assert_eq!(world.status(job), grid_types::JobStatus::Failed);
        let resume = world.resume_command(job);
        world.one(resume.clone()).unwrap();
        assert_eq!(granted(&mut starts, &world, vec![resume], vec![Reply::Done]), 0);
        let job_epoch = world.job(job).head.epoch;
        for ((node, session, lease), violations) in begun.into_iter().zip([1, 0, 0]) {
            let lease = grid_types::LeaseKey { job_epoch, ..lease };
            let begin = Command::BeginLease(BeginLease { node, session, lease });
            let found = granted(&mut starts, &world, vec![begin], vec![Reply::Begun { granted: true }]);
            assert_eq!(found, violations, "{lease}");
        }
    }
}
