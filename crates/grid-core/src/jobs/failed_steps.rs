//! Records failed, timed-out and unknown steps as events, grouped.
//!
//! A step that fails on 10,000 nodes in one entry is one event: failures of one job are grouped by step, outcome and
//! reason, the first [`NAMED`] nodes are named and the others counted. A run of a job has at most [`MOST_EVENTS`] such
//! events; one more says that further ones are left out, so that a job with a thousand steps cannot flood the history.
//! A failed attempt that is tried again is not a failed step: its outcome is not decided yet.

use grid_types::{Event, JobId, NodeOrd, Outcome, Reason, StepIndex};

use super::report::Report;
use crate::changes::History;
use crate::encoding::to_vec;
use crate::turn::Turn;

/// Nodes that one event names.
pub(crate) const NAMED: usize = 20;
/// Events of one run of a job.
pub(crate) const MOST_EVENTS: u32 = 100;
/// Of the worker's error.
const ERROR_BYTES: usize = 256;

impl Turn<'_> {
    /// An attempt has failed; whether its step has is decided afterwards.
    pub fn remember_failure(&mut self, job: JobId, node: NodeOrd, report: &Report) {
        if report.outcome.is_failure() {
            let error = report.error.as_deref().map(|error| cut(error).to_owned());
            self.failures.reports.insert((job, node), (report.reason.clone(), error));
        }
    }

    /// A step has failed, timed out or is unknown on a node, and no retry follows.
    pub fn record_failure(&mut self, id: JobId, step: StepIndex, ord: NodeOrd, outcome: Outcome) {
        // An attempt of an earlier entry: its retry was dropped just now.
        let dropped = || (Some(Reason::RetryDropped), None);
        let (reason, error) = self.failures.reports.remove(&(id, ord)).unwrap_or_else(dropped);
        let Some(node) = self.state.nodes.get(&ord).map(|node| node.id.clone()) else { return };
        let key = (id, step, outcome, to_vec(&reason));
        if let Some(at) = self.failures.groups.get(&key) {
            if let Some(History::Event(row)) = self.changes.history.get_mut(*at)
                && let Event::StepFailed { nodes, more, .. } = &mut row.event
            {
                // It is no event of one node any more.
                row.node = None;
                if nodes.len() < NAMED {
                    nodes.push(node);
                } else {
                    *more += 1;
                }
            }
            return;
        }
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        if job.head.failure_events > MOST_EVENTS {
            return;
        }
        job.head.failure_events += 1;
        let omitted = job.head.failure_events > MOST_EVENTS;
        self.changes.jobs.insert(id);
        if omitted {
            self.record_job_event(id, Event::StepFailuresOmitted { recorded: MOST_EVENTS });
            return;
        }
        self.failures.groups.insert(key, self.changes.history.len());
        let event = Event::StepFailed { step, outcome, reason, nodes: vec![node], more: 0, error };
        self.record_step_event(id, ord, event);
    }
}

/// The beginning of a text, at most [`ERROR_BYTES`] of it.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{MOST_EVENTS, NAMED, cut};
    use crate::changes::{EventRow, History};
    use crate::commands::Verdict;
    use crate::world::{World, leaf, retrying};
    use grid_types::job::{OnUnknown, Tolerance};
    use grid_types::{Event, JobId, Outcome, StepIndex};

    fn failures(world: &World, job: JobId) -> Vec<EventRow> {
        let rows = world.history.iter().filter_map(|row| match row {
            History::Event(row) if row.job == Some(job) && row.event.kind() == "StepFailed" => Some(row.clone()),
            _ => None,
        });
        rows.collect()
    }

    fn kinds(world: &World, job: JobId) -> Vec<&'static str> {
        let rows = world.history.iter().filter_map(|row| match row {
            History::Event(row) if row.job == Some(job) => Some(row.event.kind()),
            _ => None,
        });
        rows.collect()
    }

    #[test]
    fn issue13_26_one_entry_yields_one_event_per_step_outcome_and_reason() {
        let mut world = World::with_nodes(30);
        world.next_strategy_continue();
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let commands = world.offered().into_iter().enumerate().map(|(i, lease)| {
            let outcome = if i < 25 { Outcome::Failed } else { Outcome::TimedOut };
            world.result_command(lease, world.session(lease.0.0), outcome)
        });
        let commands: Vec<_> = commands.collect();
        world.apply(commands);
        let found = failures(&world, job);
        assert_eq!(found.len(), 2, "{found:#?}");
        let Event::StepFailed { step, outcome, nodes, more, error, .. } = &found[0].event else { panic!() };
        assert_eq!((*step, *outcome, nodes.len(), *more), (StepIndex(0), Outcome::Failed, NAMED, 5));
        assert_eq!((error.as_deref(), &found[0].node), (Some("boom"), &None));
        let text = found[0].event.text(Some(job));
        assert!(text.starts_with("step 0 failed on node-1, node-2, "), "{text}");
        assert!(text.ends_with("node-20 (and 5 more): boom (node-1)"), "{text}");
        assert!(found[1].event.text(Some(job)).starts_with("step 0 timed out on node-26, "), "{:?}", found[1]);
    }

    #[test]
    fn issue13_26_the_failure_of_one_node_is_told_with_it_and_before_what_follows_from_it() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.mark_dead(1);
        let found = failures(&world, job);
        assert_eq!(found[0].node.as_ref().unwrap().as_str(), "node-1");
        assert_eq!(found[0].event.text(Some(job)), "the outcome of step 0 is unknown: node dead");
        world.succeed_all_offered();
        assert_eq!(kinds(&world, job), ["JobSubmitted", "JobStarted", "StepFailed", "JobTripped", "JobEnded"]);
    }

    #[test]
    fn issue13_26_an_attempt_that_is_tried_again_is_no_failed_step() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![retrying("test", "fail", 1)]);
        world.fail(world.offered()[0]);
        assert!(failures(&world, job).is_empty());
        world.advance_ms(60_000);
        world.fail(world.offered()[0]);
        assert_eq!(failures(&world, job).len(), 1);
        let cancelled = world.submit("all", vec![retrying("test", "fail", 1)]);
        world.fail(world.offered()[0]);
        world.cancel(cancelled).unwrap();
        let text = failures(&world, cancelled)[0].event.text(Some(cancelled));
        assert_eq!(text, "step 0 failed: its retry was dropped");
    }

    #[test]
    fn issue13_26_an_unknown_that_waits_for_an_operator_is_told_once() {
        let mut world = World::with_nodes(2);
        world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
        let job = world.submit("node:node-1", vec![leaf("test", "record")]);
        world.report(world.offered()[0], Outcome::Unknown).unwrap();
        assert_eq!(failures(&world, job).len(), 1);
        world.cancel(job).unwrap();
        assert_eq!(failures(&world, job).len(), 1, "the cancel makes it no other failure");
        world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
        let judged = world.submit("node:node-1", vec![leaf("test", "record")]);
        world.report(world.offered()[0], Outcome::Unknown).unwrap();
        world.resolve(judged, 0, 1, Verdict::Failed).unwrap();
        let outcomes: Vec<_> = failures(&world, judged).into_iter().map(|row| row.event.text(Some(judged))).collect();
        assert_eq!(outcomes, ["the outcome of step 0 is unknown: boom", "step 0 failed: resolved by an operator"]);
    }

    #[test]
    fn issue13_26_a_run_has_a_bounded_number_of_them_and_the_next_run_starts_over() {
        let mut world = World::with_nodes(MOST_EVENTS + 7);
        world.next_job(|spec| spec.failure_tolerate = Some(Tolerance::Nodes(1_000)));
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        for lease in world.offered() {
            world.fail(lease);
        }
        let omitted = |world: &World| kinds(world, job).iter().filter(|kind| **kind == "StepFailuresOmitted").count();
        assert_eq!((failures(&world, job).len(), omitted(&world)), (MOST_EVENTS as usize, 1));
        world.resume(job).unwrap();
        world.fail(world.offered()[0]);
        assert_eq!((failures(&world, job).len(), omitted(&world)), (MOST_EVENTS as usize + 1, 1));
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "ä".repeat(200);
        assert_eq!(cut(&long).len(), 256);
        let odd = format!("a{}", "ä".repeat(200));
        assert_eq!(cut(&odd).len(), 255);
    }
}
