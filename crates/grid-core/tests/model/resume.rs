//! `resume`: a job that is interrupted, whatever by and however often, and resumed, ends like one that never was.
//!
//! Each (step, node) has a destiny: it succeeds, or it always fails. Two runs of the same job: one in which nothing happens
//! but destiny, and one with failures, deaths and cancels on top, resumed until a run went through undisturbed. The same
//! outcomes, and every success exactly once.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{Bits, Command, PastAttempt, ResultRow, ResumeJob};
use grid_types::job::{Condition, JobSpec, Strategy};
use grid_types::node::NodeStatus;
use grid_types::{JobId, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::dice::{Dice, Flavour};
use crate::play::Player;
use crate::rig::Rig;

/// What the leader reads of an ended job, from rows as the store has them, to resume it.
pub fn resume_command(rig: &Rig, id: JobId) -> Command {
    let job = rig.job(id);
    let mut done: BTreeMap<_, Bits> = BTreeMap::new();
    for row in rig.results.iter().filter(|row| row.job == id && row.outcome == Outcome::Success) {
        if !job.spec.is_cleanup(row.step) {
            done.entry(row.step).or_default().set(job.position(row.node).unwrap());
        }
    }
    Command::ResumeJob(ResumeJob {
        namespace: job.head.namespace.clone(),
        job: id,
        epoch: job.head.epoch,
        spec: JobSpec::clone(&job.spec),
        expected: job.expected.clone(),
        done,
        created_wall_ms: job.head.created_wall_ms,
        only: None,
        restored: None,
        run: job.head.run,
        complete_journals: None,
        unchanged: BTreeMap::new(),
        changed: changed(rig, id),
    })
}

/// Where attempts may have changed something, of steps that are not done.
fn changed(rig: &Rig, id: JobId) -> BTreeMap<StepIndex, Bits> {
    let job = rig.job(id);
    let is_done = |row: &ResultRow| {
        let mut same =
            rig.results.iter().filter(|other| (other.job, other.step, other.node) == (id, row.step, row.node));
        !job.spec.is_cleanup(row.step) && same.any(|other| other.outcome == Outcome::Success)
    };
    let mut changed: BTreeMap<_, Bits> = BTreeMap::new();
    for row in rig.results.iter().filter(|row| row.job == id && !is_done(row)) {
        let (_, task) = job.spec.steps().nth(row.step.0 as usize).unwrap();
        if PastAttempt::from(row).may_have_changed(task) {
            changed.entry(row.step).or_default().set(job.position(row.node).unwrap());
        }
    }
    changed
}

/// (step, node) that always fail.
type Doom = BTreeSet<(u32, u32)>;

impl Player {
    fn fulfil(&mut self, lease: (NodeOrd, LeaseKey)) {
        let doomed = self.doom.contains(&(lease.1.step.0, lease.0.0));
        self.report(&[(lease, if doomed { Outcome::Failed } else { Outcome::Success })]);
    }

    /// What an earlier run did on a node before that node came to the step at which it is bound to fail, because trouble
    /// elsewhere had closed the phase of that step: the undisturbed run never gets there. An `on_success` phase looks at the
    /// job, so there it may be the doom of any node.
    fn ahead_of_its_doom(&self, spec: &JobSpec, plain: &BTreeMap<(u32, u32), Outcome>) -> Vec<(u32, u32)> {
        let looks_at_all = |step: u32| {
            let (phase, _) = spec.steps().nth(step as usize).unwrap();
            spec.phases[phase].condition == Condition::OnSuccess
        };
        let ahead = self.rig.rows.iter().filter(|((_, step, node), row)| {
            let doomed = self.doom.iter().any(|(doom, at)| doom < step && (at == node || looks_at_all(*step)));
            doomed && row.0 == Outcome::Success && plain.get(&(*step, *node)) == Some(&Outcome::Skipped)
        });
        ahead.map(|((_, step, node), _)| (*step, *node)).collect()
    }
}

/// A job, and where it is bound to fail. Only `continue` makes the end of a failing job independent of who is quicker.
fn job_and_doom(dice: &mut Dice, flavour: Flavour) -> (JobSpec, Doom) {
    let mut spec = dice.job(flavour);
    // What is not known counts as a change, and trouble makes things unknown: such a task may run where it would not have.
    for task in spec.phases.iter_mut().flat_map(|phase| &mut phase.tasks) {
        if task.condition == Condition::OnChanged {
            task.condition = Condition::Always;
        }
    }
    let mut doom = Doom::new();
    if spec.strategy == Strategy::Continue && dice.one_in(2) {
        spec.failure_tolerate = None;
        let steps = u32::try_from(spec.step_count()).unwrap();
        doom = (0..=dice.roll(3)).map(|_| (dice.roll(steps), 1 + dice.roll(flavour.nodes))).collect();
    }
    (spec, doom)
}

/// Nothing but destiny, to the end.
fn run_undisturbed(player: &mut Player, job: JobId) {
    for _ in 0..4_000 {
        if !player.rig.state.jobs.contains_key(&job) {
            return;
        }
        let leases = player.rig.leases(false);
        match player.dice.maybe(&leases) {
            Some(lease) => player.fulfil(lease),
            None => player.advance(),
        }
        player.rig.agree();
    }
    panic!("it does not end");
}

/// Destiny and trouble, then the end by a cancel or by itself; everybody is back afterwards.
fn run_disturbed(player: &mut Player, job: JobId) {
    for _ in 0..player.dice.roll(30) {
        let leases = player.rig.leases(false);
        let lease = player.dice.maybe(&leases);
        match (player.dice.roll(12), lease) {
            (0, Some(lease)) => player.report(&[(lease, Outcome::Failed)]),
            (1, Some(lease)) => player.report(&[(lease, Outcome::TimedOut)]),
            (2, _) => player.expire(),
            (3, _) => player.mark(),
            (4, _) => player.register(),
            (5, _) => player.drain_or_leave(),
            (6, _) => player.new_leader(),
            (7, _) => player.advance(),
            (_, Some(lease)) => player.fulfil(lease),
            (_, None) => player.advance(),
        }
        player.rig.agree();
    }
    if player.dice.one_in(2) {
        player.cancel_job(job);
        player.rig.agree();
    }
    player.finish();
    for node in player.rig.model.nodes.keys().copied().collect::<Vec<_>>() {
        assert_eq!(player.rig.model.nodes[&node].status, NodeStatus::Ready);
    }
}

fn outcomes(player: &Player, job: JobId) -> BTreeMap<(u32, u32), Outcome> {
    player.rig.rows.iter().filter(|((id, ..), _)| *id == job).map(|((_, s, n), (o, _))| ((*s, *n), *o)).collect()
}

/// How often each (step, node) that is no clean-up has succeeded, over all runs.
fn successes(player: &Player, job: JobId) -> BTreeMap<(u32, u32), u32> {
    let spec = &player.rig.job(job).spec;
    let mut times = BTreeMap::new();
    for row in player.rig.results.iter().filter(|row| row.job == job && row.outcome == Outcome::Success) {
        if !spec.is_cleanup(row.step) {
            *times.entry((row.step.0, row.node.0)).or_default() += 1;
        }
    }
    times
}

pub fn interrupted_and_resumed_is_one_uninterrupted_run(seed: u64) {
    let mut dice = Dice::new(!seed);
    let flavour = Flavour { nodes: 1 + dice.roll(5), gates: false, timeouts: false, lacking: false };
    let (spec, doom) = job_and_doom(&mut dice, flavour);
    let mut plain = Player::new(seed, flavour);
    plain.doom.clone_from(&doom);
    let job = plain.submit_spec(spec.clone());
    plain.rig.agree();
    run_undisturbed(&mut plain, job);

    let mut player = Player::new(seed, flavour);
    player.rig.note(format!("bound to fail, as (step, node): {doom:?}"));
    player.doom = doom;
    assert_eq!(player.submit_spec(spec.clone()), job);
    player.rig.agree();
    for _ in 0..=dice.roll(3) {
        run_disturbed(&mut player, job);
        player.resume_job(job);
        player.rig.agree();
    }
    run_undisturbed(&mut player, job);
    assert_eq!(player.rig.job(job).head.status, plain.rig.job(job).head.status, "status");
    let (plain_rows, plain_times) = (outcomes(&plain, job), successes(&plain, job));
    let (mut rows, mut times) = (outcomes(&player, job), successes(&player, job));
    for key in player.ahead_of_its_doom(&spec, &plain_rows) {
        assert_eq!(times.remove(&key), rows.insert(key, Outcome::Skipped).map(|_| 1), "{key:?} once, and long ago");
    }
    assert_eq!(rows, plain_rows, "outcomes");
    assert_eq!(times, plain_times, "each success exactly once");
}
