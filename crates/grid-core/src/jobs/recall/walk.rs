//! Random histories with backups, restores and workers that keep, lose, roll back or forget their journals, and start again
//! at any time. Whatever happens: a `once` step runs on a node at most once (I7, E2); what a journal named is never recorded
//! as skipped, and nothing but a cancel revokes it; and in the end every job ends. A failure prints its seed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use grid_types::job::{Condition, Offline, OnUnknown, Phase};
use grid_types::{JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::changes::History;
use crate::commands::{Command, JournalOfJob, Reply, ReportJournal, Verdict};
use crate::effect::{Effect, Offer, pending_effects};
use crate::state::{CellState, RanEnd, State};
use crate::world::{World, confirmed, leaf, pipeline, rolling, when};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }
}

/// A worker's folder: what a copy of it has, too.
#[derive(Clone, Default)]
struct Folder {
    journal_id: u64,
    /// `None`: it runs.
    leases: BTreeMap<LeaseKey, Option<Outcome>>,
    /// Those that were answered for good.
    answered: BTreeSet<LeaseKey>,
    tombstones: BTreeMap<JobId, JobEpoch>,
    dropped_to: Option<JobId>,
}

#[derive(Clone, Default)]
struct Machine {
    folder: Folder,
    /// An older copy.
    copy: Folder,
    nonce: u64,
}

struct Fleet {
    world: World,
    machines: BTreeMap<NodeOrd, Machine>,
    ran: BTreeMap<(JobId, StepIndex, NodeOrd), u32>,
    backup: Option<(State, usize)>,
    fresh: u64,
    jobs: Vec<JobId>,
    /// What journals named since the last restore, but for steps that may as well run again.
    named: BTreeSet<(JobId, StepIndex, NodeOrd)>,
    /// Rows of history that were looked at.
    looked: usize,
}

const NODES: u32 = 3;

impl Fleet {
    fn new() -> Self {
        let mut fleet = Self {
            world: World::new(),
            machines: BTreeMap::new(),
            ran: BTreeMap::new(),
            backup: None,
            fresh: 0,
            jobs: Vec::new(),
            named: BTreeSet::new(),
            looked: 0,
        };
        for node in 1..=NODES {
            fleet.fresh += 1;
            let folder = Folder { journal_id: fleet.fresh, ..Folder::default() };
            let machine = Machine { copy: folder.clone(), folder, nonce: fleet.fresh };
            fleet.machines.insert(NodeOrd(node), machine);
            fleet.register(node);
        }
        fleet
    }

    /// Registers, and answers what it is asked, as hub and worker do.
    fn register(&mut self, node: u32) {
        let machine = self.machines[&NodeOrd(node)].clone();
        let (journal, nonce) = (machine.folder.journal_id.to_le_bytes(), machine.nonce.to_le_bytes());
        self.fresh += 1;
        let folder = machine.folder;
        let held = folder.leases.keys().filter(|lease| !folder.answered.contains(lease)).copied().collect();
        self.world.register_with_journal(&format!("node-{node}"), &journal, &nonce, held).unwrap();
        let known = &self.world.state.nodes[&NodeOrd(node)];
        let jobs = self.world.state.to_ask(known);
        if jobs.is_empty() {
            return;
        }
        let session = known.session;
        let of_job = |job: JobId| JournalOfJob {
            job,
            forgotten: folder.tombstones.get(&job).copied(),
            leases: folder
                .leases
                .iter()
                .filter(|(lease, _)| lease.job == job)
                .map(|(lease, outcome)| (*lease, outcome.map(end)))
                .collect(),
        };
        let jobs: Vec<_> = jobs.into_iter().map(of_job).collect();
        let node = NodeOrd(node);
        for (lease, end) in jobs.iter().flat_map(|of_job| &of_job.leases) {
            let once = self.world.is_once(lease.job, lease.step);
            let of_this_run = lease.job_epoch >= self.world.job(lease.job).head.run_epoch;
            if of_this_run && (once || end.as_ref().is_none_or(|end| end.outcome == Outcome::Success)) {
                self.named.insert((lease.job, lease.step, node));
            }
        }
        let dropped_to = folder.dropped_to.unwrap_or(JobId(0));
        let report = ReportJournal { node, session, dropped_to, newest: JobId(0), jobs, is_last: true };
        assert!(self.world.apply(vec![Command::ReportJournal(report)]).replies[0].is_ok());
    }

    fn offers(&self) -> Vec<Offer> {
        let of_session = |offer: &Offer| {
            let generation = self.world.state.meta.leadership.epoch.generation;
            self.world.state.nodes[&offer.node].met == generation
        };
        let offers = pending_effects(&self.world.state).into_iter().filter_map(|effect| match effect {
            Effect::Offer(offer) => Some(offer),
            _ => None,
        });
        offers.filter(of_session).collect()
    }

    /// W2, W3: what the journal knows is answered from it; anything else runs, a `once` step only if that is granted.
    fn serve(&mut self, offer: &Offer, outcome: Option<Outcome>) {
        let (node, lease) = (offer.node, offer.lease);
        let once = self.world.is_once(lease.job, lease.step);
        let folder = &mut self.machines.get_mut(&node).unwrap().folder;
        let buried = folder.tombstones.get(&lease.job).is_some_and(|epoch| *epoch >= lease.job_epoch);
        if buried && !offer.restored && !folder.leases.contains_key(&lease) {
            self.world.report((node, lease), Outcome::Unknown).unwrap();
            return;
        }
        let known = match folder.leases.entry(lease) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if once && self.world.begin((node, lease)) != Ok(Reply::Begun { granted: true }) => return,
            Entry::Vacant(unseen) => {
                *self.ran.entry((lease.job, lease.step, node)).or_default() += u32::from(once);
                unseen.insert(None)
            }
        };
        if let Some(outcome) = known.or(outcome) {
            *known = Some(outcome);
            if matches!(self.world.report((node, lease), outcome), Ok(Reply::Answered(_))) {
                folder.answered.insert(lease);
            }
        }
    }

    fn forget(&mut self, node: NodeOrd) {
        let folder = &mut self.machines.get_mut(&node).unwrap().folder;
        let jobs = &self.world.state.jobs;
        let Some(lease) = folder.leases.keys().find(|lease| !jobs.contains_key(&lease.job)).copied() else { return };
        folder.leases.retain(|other, _| other.job != lease.job);
        folder.tombstones.insert(lease.job, lease.job_epoch);
    }

    fn drop_oldest(&mut self, node: NodeOrd) {
        let folder = &mut self.machines.get_mut(&node).unwrap().folder;
        if let Some((job, _)) = folder.tombstones.pop_first() {
            folder.dropped_to = folder.dropped_to.max(Some(job));
        }
    }

    fn restart(&mut self, node: NodeOrd, dice: &mut Dice) {
        self.fresh += 1;
        let fresh = self.fresh;
        let machine = self.machines.get_mut(&node).unwrap();
        machine.nonce = fresh;
        match dice.roll(3) {
            0 => machine.folder = Folder { journal_id: fresh, ..Folder::default() },
            1 => machine.folder = machine.copy.clone(),
            _ => {}
        }
        for outcome in machine.folder.leases.values_mut() {
            outcome.get_or_insert(Outcome::Unknown);
        }
        self.lose_what_may_run_again(node);
    }

    /// What may run again is not known to have run any more: its process is gone, or its node is dead.
    fn lose_what_may_run_again(&mut self, node: NodeOrd) {
        let world = &self.world;
        self.named.retain(|(job, step, of)| *of != node || world.is_once(*job, *step));
    }

    fn restore(&mut self, dice: &mut Dice) {
        let Some((state, rows)) = self.backup.clone() else { return };
        for node in 1..=NODES {
            if dice.roll(3) == 0 {
                self.restart(NodeOrd(node), dice);
            }
        }
        let generation = self.world.state.meta.leadership.epoch.generation + 1;
        self.world.state = state;
        self.world.history.truncate(rows);
        self.named.clear();
        self.looked = rows;
        self.world.restore(generation);
        let live = |job: &JobId| self.world.state.jobs.contains_key(job);
        self.jobs.retain(live);
    }

    fn submit(&mut self, dice: &mut Dice) {
        match dice.roll(3) {
            0 => self.world.next_job(|spec| spec.on_unknown = OnUnknown::Wait),
            1 => self.world.next_strategy_continue(),
            _ => {}
        }
        if dice.roll(4) == 0 {
            self.world.next_job(|spec| spec.offline = Offline::Wait);
        }
        let phases = (0..=dice.roll(3)).map(|_| phase(dice)).collect();
        let job = self.world.submit("all", phases);
        self.jobs.push(job);
    }

    fn step(&mut self, dice: &mut Dice) {
        let node = NodeOrd(u32::try_from(dice.roll(u64::from(NODES))).unwrap() + 1);
        let job = self.jobs.get(usize::try_from(dice.roll(8)).unwrap()).copied();
        match dice.roll(26) {
            0 | 1 => self.submit(dice),
            2 => self.backup = Some((self.world.state.clone(), self.world.history.len())),
            3 if dice.roll(3) == 0 => self.restore(dice),
            4 => self.forget(node),
            5 => self.drop_oldest(node),
            6 => {
                let machine = self.machines.get_mut(&node).unwrap();
                machine.copy = machine.folder.clone();
            }
            7 | 8 => self.register(node.0),
            9 | 10 => {
                if let Some(job) = job {
                    let _ = self.world.confirm(job, None);
                }
            }
            11 => {
                self.restart(node, dice);
                self.register(node.0);
            }
            12 if dice.roll(3) == 0 => {
                if let Some(job) = job {
                    let _ = self.world.cancel(job);
                }
            }
            13 => self.resolve(dice),
            14 if dice.roll(4) == 0 && self.world.state.nodes[&node].status.is_online() => {
                self.world.mark_dead(node.0);
                self.lose_what_may_run_again(node);
            }
            15 => self.stop_revoked(),
            _ => {
                let offers = self.offers();
                let at = usize::try_from(dice.roll(8)).unwrap();
                let outcome = match dice.roll(8) {
                    0 | 1 => None,
                    2 => Some(Outcome::Failed),
                    _ => Some(Outcome::Success),
                };
                if let Some(offer) = offers.get(at % offers.len().max(1)) {
                    self.serve(offer, outcome);
                }
            }
        }
    }

    fn resolve(&mut self, dice: &mut Dice) {
        let unresolved = self.world.state.jobs.values().flat_map(|job| {
            let cells = job.expected.iter().zip(&job.cells).filter(|(_, cell)| cell.state == CellState::Unresolved);
            cells.map(|(node, cell)| (job.head.id, job.step_of(cell).0, node.0))
        });
        let Some((job, step, node)) = unresolved.into_iter().next() else { return };
        let verdict = if dice.roll(2) == 0 { Verdict::Success } else { Verdict::Failed };
        let _ = self.world.resolve(job, step, node, verdict);
    }

    /// W9: workers stop what is revoked.
    fn stop_revoked(&mut self) {
        for (node, lease) in self.world.revoked() {
            let folder = &mut self.machines.get_mut(&node).unwrap().folder;
            let ended =
                folder.leases.entry(lease).or_insert(Some(Outcome::Cancelled)).get_or_insert(Outcome::Cancelled);
            let _ = self.world.confirm_ended((node, lease), Some(*ended));
        }
    }

    fn check(&mut self) {
        let twice: Vec<_> = self.ran.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "I7: {twice:?}");
        for (_, lease) in self.world.revoked() {
            let status = self.world.status(lease.job);
            assert_eq!(status, JobStatus::Cancelled, "{lease} is revoked");
        }
        let has_result = |job, step, node| {
            let is_it = |row: &History| matches!(row, History::Result(row) if (row.job, row.step, row.node) == (job, step, node));
            self.world.history.iter().any(is_it)
        };
        for row in &self.world.history[self.looked..] {
            let History::Skip(skip) = row else { continue };
            let of_row = self.named.iter().filter(|(job, step, node)| {
                *job == skip.job && (skip.from..skip.to).contains(step) && skip.node.is_none_or(|only| only == *node)
            });
            for (job, step, node) in of_row {
                let cell = self.world.state.jobs.get(job).and_then(|job| job.lease_at(*node));
                let runs = cell.is_some_and(|(lease, _)| lease.step == *step);
                let is_alone = skip.node.is_some();
                let past = self.world.state.nodes[node].past.get(job);
                assert!(
                    runs && !is_alone || has_result(*job, *step, *node),
                    "step {step} of {job} on {node} is skipped: {skip:?}, {past:?}"
                );
            }
        }
        self.looked = self.world.history.len();
    }

    /// Everybody is back and does what is asked: every job ends.
    fn finish(&mut self, dice: &mut Dice) {
        for _ in 0..500 {
            for node in 1..=NODES {
                let known = &self.world.state.nodes[&NodeOrd(node)];
                let is_back = known.met == self.world.state.meta.leadership.epoch.generation;
                if !known.status.is_online() || !is_back {
                    self.register(node);
                }
            }
            for job in self.world.state.jobs.keys().copied().collect::<Vec<_>>() {
                let _ = self.world.confirm(job, None);
            }
            self.resolve(dice);
            self.stop_revoked();
            for offer in self.offers() {
                self.serve(&offer, Some(Outcome::Success));
                self.check();
            }
            if self.world.state.jobs.is_empty() {
                return;
            }
        }
        let stuck = self.world.state.jobs.values().map(|job| crate::why(&self.world.state, job, 0)).collect::<Vec<_>>();
        panic!("it never ends: {stuck:#?}");
    }
}

fn phase(dice: &mut Dice) -> Phase {
    let task = |dice: &mut Dice| if dice.roll(3) == 0 { leaf("ping", "echo") } else { leaf("test", "record") };
    let phase = if dice.roll(2) == 0 { task(dice) } else { pipeline((0..2).map(|_| task(dice)).collect()) };
    match dice.roll(8) {
        0 => confirmed(phase),
        1 => rolling(1, phase),
        2 => when(Condition::OnFailure, phase),
        3 => Phase { atomic: phase.tasks.len() > 1, ..phase },
        _ => phase,
    }
}

fn end(outcome: Outcome) -> RanEnd {
    RanEnd { outcome, error: None, duration_ms: 0, started_wall_ms: 1, output_bytes: 0 }
}

#[test]
fn e2_no_restore_runs_a_once_step_twice_or_loses_one_whatever_became_of_the_journals() {
    let runs: u64 = std::env::var("MODEL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(600);
    let mut restored = 0;
    for seed in 1..=runs {
        let outcome = std::panic::catch_unwind(|| {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut fleet = Fleet::new();
            fleet.world.set_quotas(4, 50);
            for _ in 0..120 {
                fleet.step(&mut dice);
                fleet.check();
            }
            fleet.finish(&mut dice);
            fleet.world.state.meta.leadership.epoch.generation
        });
        match outcome {
            Ok(generation) => restored += u64::from(generation),
            Err(_) => panic!("seed {seed}"),
        }
    }
    assert!(restored > runs / 3, "the walk hardly restores: {restored}");
}
