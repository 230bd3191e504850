//! Checks the invariants of docs/protocol.md over the state. Tests and the simulator call [`violations`] after every
//! apply; a state that breaks one is a bug, whatever led to it. What only a sequence of entries shows (I7) is in [`Starts`].

mod starts;

use grid_types::job::Condition;
use grid_types::{JobStatus, Outcome, StepIndex};

use crate::state::{CellState, Job, State};

pub use starts::Starts;

/// Everything that is wrong with a state; empty for a sound one.
#[must_use]
pub fn violations(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    for job in state.jobs.values() {
        let mut report = |what: String| found.push(format!("{}: {what}", job.head.id));
        counts_add_up(job, &mut report);
        barriers_hold(state, job, &mut report);
        cells_are_sound(state, job, &mut report);
        no_offer_after_the_trip(state, job, &mut report);
        windows_hold(state, job, &mut report);
        held_jobs_rest(state, job, &mut report);
    }
    derived_state_follows(state, &mut found);
    found
}

/// I9: every expected node has exactly one outcome per step.
fn counts_add_up(job: &Job, report: &mut impl FnMut(String)) {
    let expected = job.expected.len() as u64;
    for (step, tally) in job.head.tallies.iter().enumerate() {
        if tally.total() != expected {
            report(format!("I9: step {step} has {} rows for {expected} nodes", tally.total()));
        }
    }
    let leased = job.cells.iter().filter(|c| matches!(c.state, CellState::Leased { .. })).count() as u64;
    if job.total(Outcome::Running) != leased {
        report(format!("I9: {} rows run, {leased} leases are out", job.total(Outcome::Running)));
    }
}

/// I5: before the current phase everything is settled, after it nothing has begun, but for what journals know (E2).
fn barriers_hold(state: &State, job: &Job, report: &mut impl FnMut(String)) {
    if job.head.status != JobStatus::Running {
        return;
    }
    let first = job.first_step();
    let next = StepIndex(first.0 + job.current_phase().map_or(0, |p| u32::try_from(p.tasks.len()).unwrap_or(0)));
    for (step, tally) in (0u32..).zip(&job.head.tallies) {
        let open = tally.count(Outcome::Pending) + tally.count(Outcome::Running);
        if step < first.0 && open > 0 {
            report(format!("I5: step {step} has {open} open rows, but the job is at step {first}"));
        }
        let done = job.scope.done.get(&StepIndex(step)).map_or(0, crate::state::Bits::count);
        let known = known_ahead(state, job, StepIndex(step));
        if step >= next.0 && u64::from(tally.count(Outcome::Pending) + done + known) != tally.total() {
            report(format!("I5: step {step} has begun, but the job is at step {first}"));
        }
    }
}

/// E2: what a restored job without open cells waits for.
fn awaits_others(state: &State, job: &Job) -> bool {
    job.runs_ahead() || job.awaited(state).is_some()
}

/// E2: nodes on which a step beyond the current phase runs or has ended, by their journals.
fn known_ahead(state: &State, job: &Job, step: StepIndex) -> u32 {
    let is_known = |(ord, cell): &(&grid_types::NodeOrd, &crate::state::Cell)| {
        let past = state.nodes.get(ord).and_then(|node| node.past.get(&job.head.id));
        cell.ahead.is_some_and(|ahead| ahead.step == step) || past.is_some_and(|past| past.recorded(step).is_some())
    };
    let restored = job.head.restored.is_some();
    let known = job.expected.iter().zip(&job.cells).filter(|_| restored).filter(is_known).count();
    u32::try_from(known).unwrap_or(u32::MAX)
}

/// I6, W7 and the bookkeeping of open cells.
fn cells_are_sound(state: &State, job: &Job, report: &mut impl FnMut(String)) {
    let open = job.cells.iter().filter(|c| c.is_open()).count();
    if usize::try_from(job.open).ok() != Some(open) {
        report(format!("{} cells are open, {} are counted", open, job.open));
    }
    if open == 0 && job.head.status != JobStatus::Pending && job.head.gate.is_none() && !awaits_others(state, job) {
        report("it has nothing to wait for, yet it is still there".to_owned());
    }
    for (position, (ord, cell)) in job.expected.iter().zip(&job.cells).enumerate() {
        let Some(node) = state.nodes.get(ord) else {
            report(format!("expects unknown node {ord}"));
            continue;
        };
        if !job.takes_part(position) && cell.state != CellState::Idle {
            report(format!("{} was left out of the retry, but its cell is {:?}", node.id, cell.state));
        }
        let (leased, waiting) = (node.leased_jobs.contains(&job.head.id), node.waiting.contains(&job.head.id));
        let fits = match cell.state {
            CellState::Idle | CellState::Backoff { .. } | CellState::Parked | CellState::Unresolved => {
                !leased && !waiting
            }
            CellState::Queued => !leased && waiting,
            CellState::Leased { .. } => leased && !waiting,
        };
        if !fits {
            report(format!("W7: cell of {} is {:?}, leased {leased}, waiting {waiting}", node.id, cell.state));
        }
        if cell.state != CellState::Idle && job.task_of(cell).is_none() {
            report(format!("I6: {} is beyond the end of its pipeline", node.id));
        }
        let may_be_ahead = job.head.restored.is_some() && matches!(cell.state, CellState::Leased { .. });
        let is_here = |ahead: crate::state::Ahead| ahead.is_open && ahead.step == job.place_of(cell);
        if cell.ahead.is_some_and(|ahead| !may_be_ahead || is_here(ahead)) {
            report(format!("E2: {} is said to run {:?} ahead of its barrier", node.id, cell.ahead));
        }
        if let CellState::Leased { epoch, revoked, .. } = cell.state
            && (epoch != job.head.epoch) != revoked.is_some()
        {
            report(format!("I3: lease of {} has epoch {epoch}, the job {}", node.id, job.head.epoch));
        }
        // W8: by itself only a definite failure is followed by another attempt; `unknown` if an operator says so.
        let last = cell.last.filter(|_| cell.state != CellState::Idle && job.runs_once(cell));
        if matches!(last, Some(Outcome::TimedOut | Outcome::Cancelled)) {
            report(format!("I7: a once step of {} that ended {last:?} is tried again", node.id));
        }
    }
}

/// I8: after the trip nothing waits but clean-up and atomic pipelines that have begun (J10).
fn no_offer_after_the_trip(state: &State, job: &Job, report: &mut impl FnMut(String)) {
    if job.head.tripped.is_none() || job.may_go_on() {
        return;
    }
    for (ord, cell) in job.expected.iter().zip(&job.cells) {
        let waits = !matches!(cell.state, CellState::Idle | CellState::Leased { .. });
        // E2: it is not offered, it waits for its journal to say that it ran.
        let waits = waits && !state.nodes.get(ord).is_some_and(|node| job.may_have_run(node));
        if waits && !job.goes_on(cell) && job.task_of(cell).is_none_or(|task| task.condition != Condition::OnFailure) {
            report(format!("I8: node {ord} still waits for a lease after the trip"));
        }
    }
}

/// I8: never more nodes in a phase than its window has places. J3: what only waits has no place in admission.
fn windows_hold(state: &State, job: &Job, report: &mut impl FnMut(String)) {
    let inside = job.cells.iter().filter(|c| !matches!(c.state, CellState::Idle | CellState::Parked)).count();
    let room = job.window();
    // E2: what journals say to be running is in the phase, whether it has room or not.
    let is_full = room.is_some_and(|room| inside > usize::try_from(room).unwrap_or(usize::MAX));
    if is_full && job.head.restored.is_none() {
        report(format!("I8: {inside} nodes are in a phase for {room:?}"));
    }
    let is_early = |(at, cell): (usize, &crate::state::Cell)| {
        !job.is_admitted(at) && !matches!(cell.state, CellState::Idle | CellState::Parked)
    };
    if job.head.restored.is_none() && job.cells.iter().enumerate().any(is_early) {
        report("J13: a node is in the phase before its first nodes were confirmed".to_owned());
    }
    let admitted = job.head.status == JobStatus::Running && !job.is_stalled();
    if admitted != state.running.contains(&job.head.id) {
        report(format!("J3: stalled {}, but admitted {}", job.is_stalled(), !admitted));
    }
    if job.waits_for_a_person() && job.head.status == JobStatus::Running && job.head.deadline_ms.is_some() {
        report("J3: its deadline runs while it waits for an operator".to_owned());
    }
}

/// E2: of a held job only leases that a worker already had are out, and it does not wait to be started.
fn held_jobs_rest(state: &State, job: &Job, report: &mut impl FnMut(String)) {
    if job.head.held.is_none() {
        return;
    }
    let out = job.expected.iter().zip(&job.cells).filter(|(node, cell)| {
        let past = state.nodes.get(node).and_then(|node| node.past.get(&job.head.id));
        let is_adopted = past.is_some_and(|past| past.decided.contains(&job.step_of(cell)));
        matches!(cell.state, CellState::Leased { revoked: None, .. }) && !is_adopted
    });
    let out = out.count();
    if out > 0 || state.pending.contains(&job.head.id) {
        report(format!("E2: it is held, but {out} leases are out or it waits to be started"));
    }
}

/// I13: what is derived is what a restart would derive.
fn derived_state_follows(state: &State, found: &mut Vec<String>) {
    match State::from_parts(state.to_parts()) {
        Ok(again) if again == *state => {}
        Ok(_) => found.push("I13: a restart would give another state".to_owned()),
        Err(e) => found.push(format!("I13: a restart would fail: {e}")),
    }
    for node in state.nodes.values() {
        let may_run = |id| state.jobs.get(id).is_none_or(|job| job.may_be_offered(node));
        if node.status.is_online() && node.has_free_slot() && node.waiting.iter().any(may_run) {
            found.push(format!("{} has a free slot and jobs that wait for one", node.id));
        }
    }
    let quota = usize::try_from(state.meta.quotas.max_concurrent).unwrap_or(usize::MAX);
    if state.running_jobs() < quota && state.pending_jobs() > 0 {
        found.push("jobs wait although more may run".to_owned());
    }
}
