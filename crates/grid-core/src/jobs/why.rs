//! Explains what a job is waiting for: one reason, the one that an operator would act on first.
//!
//! Words are made here because they are only answers; the event of a paused job stores the typed [`Wait`] (L2).
//! In this order: that the cluster was superseded; what waits for an operator; nodes that are away; what runs; what will be tried again; what waits for a slot
//! or for admission. Counts follow the first example, so that one line also does for ten thousand nodes.

use grid_types::node::NodeStatus;
use grid_types::wait::and_more;
use grid_types::{JobStatus, NodeOrd, Span, StepIndex, Wait};

use crate::state::{Cell, CellState, Job, Node, RanState, State};

/// The one thing that an unfinished job is waiting for. `unrecorded_ms`: how long ago the last entry was stamped, as far
/// as the reader knows; in an idle cluster the time of the state does not move.
#[must_use]
pub fn why(state: &State, job: &Job, unrecorded_ms: u64) -> String {
    let id = job.head.id;
    if let Some(superseded) = state.meta.superseded.as_ref().filter(|_| !job.head.status.is_ended()) {
        return format!(
            "this cluster was superseded by generation {}, shown by {}: the job goes no further here; ask the restored cluster",
            superseded.generation, superseded.by
        );
    }
    if let Some(backup) = &job.head.held {
        return held(state, job, backup);
    }
    if let Some((cell, node, more)) = examples(state, job, |_, node| job.awaits_journal(node)) {
        let (step, more) = (job.step_of(cell), and_more(more));
        return format!(
            "step {step} waits for {} to register after the restore: its journal knows whether it ran{more}",
            node.id
        );
    }
    if let Some(node) = job.awaited(state).filter(|_| job.head.status == JobStatus::Running && job.open == 0) {
        return format!("waits for {} to register after the restore: its journal knows what has run", node.id);
    }
    if let Some(wait) = first_wait(state, job, unrecorded_ms) {
        return wait.text(id);
    }
    match job.head.status {
        JobStatus::Pending => return waits_for_admission(state, job),
        JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled => {
            let waiting = examples(state, job, |cell, _| matches!(cell.state, CellState::Leased { .. }));
            return waiting.map_or_else(
                || job.head.status.to_string(),
                |(_, node, more)| {
                    let more = and_more(more);
                    format!("{}; waits for {} to confirm that nothing runs{more}", job.head.status, node.id)
                },
            );
        }
        JobStatus::Running => {}
    }
    // J10: what an operator sees to go on although the job has failed.
    let finishing = examples(state, job, |cell, _| cell.is_open() && job.finishes(cell)).map(|(_, node, more)| {
        let more = and_more(more);
        format!("; the job has failed, and the atomic pipeline that {} has begun is walked to its end{more}", node.id)
    });
    format!("{}{}", running(state, job, unrecorded_ms), finishing.unwrap_or_default())
}

/// What a running job waits for that no operator decides.
fn running(state: &State, job: &Job, unrecorded_ms: u64) -> String {
    let id = job.head.id;
    let at = |cell: &Cell| job.step_of(cell);
    if let Some((cell, node, more)) = examples(state, job, |cell, _| revoked(cell)) {
        return format!("step {} waits for {} to confirm that nothing runs{}", at(cell), node.id, and_more(more));
    }
    if let Some((cell, node, more)) = examples(state, job, |_, node| job.never_reached(node)) {
        return format!("step {} waits for agent {} to ask for it{}", at(cell), node.id, and_more(more));
    }
    let is_out = |cell: &Cell| matches!(cell.state, CellState::Leased { .. });
    let silent = examples(state, job, |cell, node| is_out(cell) && node.status == NodeStatus::Warning);
    if let Some((cell, node, more)) = silent {
        let for_ms = state.meta.wall_ms.saturating_sub(node.changed_wall_ms).saturating_add(unrecorded_ms);
        let since = Span::from_ms(for_ms / 1_000 * 1_000);
        return format!(
            "step {} runs on {}, which is silent: warning for {since}{}",
            at(cell),
            node.id,
            and_more(more)
        );
    }
    if let Some((cell, node, more)) = examples(state, job, |cell, _| is_out(cell)) {
        // It is not waited for: what runs there finishes.
        let draining = if node.status == NodeStatus::Draining { " (draining)" } else { "" };
        return format!("step {} runs on {}{draining}{}", at(cell), node.id, and_more(more));
    }
    if let Some((cell, node, more)) = examples(state, job, |cell, _| matches!(cell.state, CellState::Backoff { .. })) {
        let (attempt, more) = (cell.attempt, and_more(more));
        return format!("step {} on {} failed and is tried again, attempt {attempt}{more}", at(cell), node.id);
    }
    if let Some((cell, node, more)) = examples(state, job, |cell, _| cell.state == CellState::Queued) {
        let (slots, more) = (node.facts.capacity.slots, and_more(more));
        return format!("step {} waits for one of the {slots} slots of {}{more}", at(cell), node.id);
    }
    last_wait(state, job, unrecorded_ms).map_or_else(|| "it goes on".to_owned(), |wait| wait.text(id))
}

/// What a stalled job waits for (J3): the cause that its event stores.
pub(crate) fn wait_of(state: &State, job: &Job) -> Option<Wait> {
    first_wait(state, job, 0).or_else(|| last_wait(state, job, 0))
}

/// What an operator has to decide before a job can go on. Cheaper than [`why`]: a list asks it of every job.
#[must_use]
pub fn operator_wait(state: &State, job: &Job) -> Option<Wait> {
    if let Some(backup) = &job.head.held {
        return Some(Wait::Held { backup: backup.clone() });
    }
    if job.head.status != JobStatus::Running {
        return None;
    }
    if let Some(phase) = job.head.gate {
        return Some(Wait::Confirmation { phase });
    }
    if let Some(first) = job.head.first.as_ref().filter(|first| first.through) {
        let (phase, first) = (job.head.phase, first.nodes.count());
        return Some(Wait::Others { phase, first, others: job.open });
    }
    // Counted by the job: most have none, and of those that do the first one is enough.
    let more = job.unresolved.checked_sub(1)?;
    let mut cells = job.cells.iter().zip(&job.expected).filter(|(cell, _)| cell.state == CellState::Unresolved);
    let (cell, node) = cells.find_map(|(cell, ord)| Some((cell, state.nodes.get(ord)?)))?;
    Some(Wait::Resolution { step: job.step_of(cell), node: node.id.clone(), more })
}

/// Waits that are named before anything that runs.
fn first_wait(state: &State, job: &Job, unrecorded_ms: u64) -> Option<Wait> {
    if let Some(wait) = operator_wait(state, job) {
        return Some(wait);
    }
    if job.head.status != JobStatus::Running {
        return None;
    }
    let away = |cell: &Cell, node: &Node| match cell.state {
        CellState::Idle | CellState::Parked => false,
        CellState::Leased { .. } => node.status.is_away() && node.status != NodeStatus::Draining,
        _ => node.status.is_away(),
    };
    examples(state, job, away).map(|found| away_wait(state, job, unrecorded_ms, found))
}

/// Nodes that are let into the phase as soon as they are back.
fn last_wait(state: &State, job: &Job, unrecorded_ms: u64) -> Option<Wait> {
    examples(state, job, |cell, node| is_away(job, cell, node)).map(|found| away_wait(state, job, unrecorded_ms, found))
}

fn away_wait(state: &State, job: &Job, unrecorded_ms: u64, (cell, node, more): (&Cell, &Node, u32)) -> Wait {
    let for_ms = state.meta.wall_ms.saturating_sub(node.changed_wall_ms).saturating_add(unrecorded_ms);
    Wait::Node { step: job.step_of(cell), node: node.id.clone(), status: node.status, for_ms, more }
}

/// E2: what still runs although the job is held, and what the confirmation decides about.
fn held(state: &State, job: &Job, backup: &str) -> String {
    let id = job.head.id;
    let is_out = |cell: &Cell, _: &Node| matches!(cell.state, CellState::Leased { .. });
    let is_out = examples(state, job, is_out).map(|(cell, node, more)| (job.step_of(cell), node, more));
    let runs = is_out.or_else(|| known_to_run(state, job)).map_or_else(String::new, |(step, node, more)| {
        format!("step {step} still runs on {}{}; ", node.id, and_more(more))
    });
    let doubts = state.doubts(job);
    let name = |node: NodeOrd| state.nodes.get(&node).map_or_else(|| node.to_string(), |node| node.id.to_string());
    let doubtful = doubts.first().map_or_else(String::new, |first| {
        let more = and_more(u32::try_from(doubts.len() - 1).unwrap_or(u32::MAX));
        format!(
            ", with --rerun-once if once-only steps that may have run already are to run again: step {} on {}{more}",
            first.step,
            name(first.node)
        )
    });
    format!(
        "held: restored from a backup of {backup}; {runs}check whether it should continue, then `gridc job confirm {id}`\
         {doubtful}"
    )
}

/// What journals say to be running, of a job that has not started and so has no cells.
fn known_to_run<'a>(state: &'a State, job: &Job) -> Option<(StepIndex, &'a Node, u32)> {
    let mut found = state.nodes.values().filter_map(|node| {
        let past = node.past.get(&job.head.id)?;
        let mut held = past.ran.iter().filter(|(step, ran)| {
            ran.state == RanState::AtWorker && ran.epoch >= job.head.run_epoch && !past.decided.contains(step)
        });
        held.next().map(|(step, _)| (*step, node))
    });
    let (step, node) = found.next()?;
    Some((step, node, u32::try_from(found.count()).unwrap_or(u32::MAX)))
}

/// Is let in as soon as its node is back.
fn is_away(job: &Job, cell: &Cell, node: &Node) -> bool {
    let is_next = job.position(node.ord).is_some_and(|position| job.is_admitted(position));
    cell.state == CellState::Parked && is_next && job.waits_for(node)
}

fn revoked(cell: &Cell) -> bool {
    matches!(cell.state, CellState::Leased { revoked: Some(_), .. })
}

fn waits_for_admission(state: &State, job: &Job) -> String {
    let ahead = state.pending.range(..job.head.id).count();
    let (running, limit) = (state.running_jobs(), state.meta.quotas.max_concurrent);
    format!("waits to be started: {running} jobs run, at most {limit} may, and {ahead} are ahead of it")
}

/// The first cell that fits, and how many more do.
fn examples<'a>(
    state: &'a State,
    job: &'a Job,
    fits: impl Fn(&Cell, &Node) -> bool,
) -> Option<(&'a Cell, &'a Node, u32)> {
    let cells = job.cells.iter().zip(&job.expected).filter_map(|(cell, ord)| Some((cell, state.nodes.get(ord)?)));
    let mut found = cells.filter(|(cell, node)| fits(cell, node));
    let (cell, node) = found.next()?;
    Some((cell, node, u32::try_from(found.count()).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::{operator_wait, why};
    use crate::world::{World, confirmed, leaf, retrying};
    use grid_types::job::{Offline, OnUnknown};
    use grid_types::node::NodeStatus;
    use grid_types::{JobId, Outcome, WaitingFor};

    fn said(world: &World, job: JobId) -> String {
        why(&world.state, world.job(job), 0)
    }

    /// Entries carry the time of the state, and an idle cluster has none.
    #[test]
    fn why_durations_grow_without_entries() {
        let mut world = World::with_nodes(2);
        world.mark_dead(2);
        world.next_job(|spec| spec.offline = Offline::Wait);
        let job = world.submit("node:node-2", vec![leaf("ping", "echo")]);
        assert_eq!(said(&world, job), "step 0 waits for node-2, dead for 0s");
        assert_eq!(why(&world.state, world.job(job), 12_345), "step 0 waits for node-2, dead for 12s");
    }

    #[test]
    fn why_says_that_a_step_runs_on_a_draining_node() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.order_drain(1, true).unwrap();
        assert_eq!(said(&world, job), "step 0 runs on node-1 (draining)");
        world.cancel(job).unwrap();
        assert_eq!(said(&world, job), "cancelled; waits for node-1 to confirm that nothing runs");
        let mut world = World::with_nodes(1);
        world.order_drain(1, true).unwrap();
        world.next_job(|spec| spec.offline = Offline::Wait);
        let waits = world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(said(&world, waits), "step 0 waits for node-1, draining for 0s");
    }

    #[test]
    fn why_names_a_silent_node_first() {
        let mut world = World::with_nodes(3);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.mark(2, world.session(2), NodeStatus::Ready, NodeStatus::Warning).unwrap();
        world.advance_ms(7_500);
        assert_eq!(said(&world, job), "step 0 runs on node-2, which is silent: warning for 7s");
        world.mark(3, world.session(3), NodeStatus::Ready, NodeStatus::Warning).unwrap();
        assert!(said(&world, job).ends_with(" (and 1 more)"));
    }

    #[test]
    fn every_cause_of_waiting_has_its_words() {
        let mut world = World::with_nodes(2);
        world.set_quotas(1, 9);
        let job = world.submit("all", vec![retrying("test", "fail", 1)]);
        let second = world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(said(&world, job), "step 0 runs on node-1 (and 1 more)");
        assert_eq!(said(&world, second), "waits to be started: 1 jobs run, at most 1 may, and 0 are ahead of it");
        let leases = world.offered();
        world.succeed(leases[1]);
        world.fail(leases[0]);
        assert_eq!(said(&world, job), "step 0 on node-1 failed and is tried again, attempt 2");
        world.cancel(job).unwrap();
        assert_eq!(said(&world, second), "step 0 runs on node-1 (and 1 more)");
        world.cancel(second).unwrap();
        assert_eq!(said(&world, second), "cancelled; waits for node-1 to confirm that nothing runs (and 1 more)");
    }

    #[test]
    fn waits_for_people_and_nodes_say_what_to_do() {
        let mut world = World::with_nodes(3);
        let gate = world.submit("all", vec![confirmed(leaf("ping", "echo"))]);
        assert_eq!(said(&world, gate), format!("phase 0 is waiting for confirmation: gridc job confirm {gate}"));
        world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
        let unknown = world.submit("node:node-1", vec![leaf("test", "record")]);
        world.report(world.offered()[0], Outcome::Unknown).unwrap();
        let words = said(&world, unknown);
        assert!(words.contains(&format!("gridc job resolve {unknown} --step 0 --node node-1")), "{words}");
        let decision =
            |world: &World, job| operator_wait(&world.state, world.job(job)).and_then(|wait| wait.waiting_for());
        assert_eq!(decision(&world, gate), Some(WaitingFor::Confirmation));
        assert_eq!(decision(&world, unknown), Some(WaitingFor::Resolution));
        world.leave(2);
        world.next_job(|spec| spec.offline = Offline::Wait);
        let away = world.submit("node:node-2", vec![leaf("ping", "echo")]);
        world.advance_ms(41_000);
        assert_eq!(decision(&world, away), None, "nobody can decide that");
        assert_eq!(said(&world, away), "step 0 waits for node-2, left for 41s");
    }

    #[test]
    fn j10_an_atomic_pipeline_that_is_finished_after_a_trip_is_named() {
        let mut world = World::with_nodes(3);
        let pipeline = crate::world::pipeline(vec![leaf("ping", "echo"), leaf("ping", "echo")]);
        let job = world.submit("all", vec![grid_types::job::Phase { atomic: true, ..pipeline }]);
        assert_eq!(said(&world, job), "step 0 runs on node-1 (and 2 more)");
        world.fail(world.offered()[2]);
        let finishing = "; the job has failed, and the atomic pipeline that node-1 has begun is walked to its end";
        assert_eq!(said(&world, job), format!("step 0 runs on node-1 (and 1 more){finishing} (and 1 more)"));
        world.succeed(world.offered()[0]);
        world.succeed(world.offered()[1]);
        assert_eq!(said(&world, job), format!("step 1 runs on node-1 (and 1 more){finishing} (and 1 more)"));
    }

    #[test]
    fn a_full_node_is_named() {
        let mut world = World::new();
        world.register_with_slots("small", 1);
        world.submit("all", vec![leaf("ping", "echo")]);
        let second = world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(said(&world, second), "step 0 waits for one of the 1 slots of small");
    }
}
