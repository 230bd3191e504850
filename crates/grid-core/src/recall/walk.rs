//! Random histories with backups, restores and workers that keep, lose, roll back or forget their journals: whatever
//! happens, a `once` step runs on a node at most once (I7, E2). A failure prints its seed.

use std::collections::BTreeMap;

use grid_types::decl::EffectClass;
use grid_types::job::{OnUnknown, Phase};
use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::commands::{Command, JournalOfJob, ReportJournal};
use crate::effect::{Effect, Offer, pending_effects};
use crate::state::{RanEnd, State};
use crate::world::{World, leaf, pipeline};

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
        self.world.register(&format!("node-{node}"), &journal, self.fresh, &nonce, false).unwrap();
        let known = &self.world.state.nodes[&NodeOrd(node)];
        let jobs = self.world.state.to_ask(known);
        if jobs.is_empty() {
            return;
        }
        let session = known.session;
        let folder = machine.folder;
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
        let jobs = jobs.into_iter().map(of_job).collect();
        let (node, dropped_to) = (NodeOrd(node), folder.dropped_to.unwrap_or(JobId(0)));
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

    /// W2: what the journal knows is answered from it; anything else runs.
    fn serve(&mut self, offer: &Offer, reports: bool) {
        let (node, lease) = (offer.node, offer.lease);
        let folder = &mut self.machines.get_mut(&node).unwrap().folder;
        let once = offer.task().unwrap().effect == EffectClass::Once;
        let buried = folder.tombstones.get(&lease.job).is_some_and(|epoch| *epoch >= lease.job_epoch);
        if buried && !offer.restored && !folder.leases.contains_key(&lease) {
            self.world.report((node, lease), Outcome::Unknown).unwrap();
            return;
        }
        if let std::collections::btree_map::Entry::Vacant(unseen) = folder.leases.entry(lease) {
            unseen.insert(None);
            if once {
                *self.ran.entry((lease.job, lease.step, node)).or_default() += 1;
            }
        }
        if reports {
            folder.leases.insert(lease, Some(Outcome::Success));
            let _ = self.world.report((node, lease), Outcome::Success);
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
        self.world.restore(generation);
        let live = |job: &JobId| self.world.state.jobs.contains_key(job);
        self.jobs.retain(live);
    }

    fn step(&mut self, dice: &mut Dice) {
        let node = NodeOrd(u32::try_from(dice.roll(u64::from(NODES))).unwrap() + 1);
        match dice.roll(20) {
            0 | 1 => {
                if dice.roll(2) == 0 {
                    self.world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
                } else {
                    self.world.next_strategy_continue();
                }
                let phases = (0..=dice.roll(3)).map(|_| phase(dice)).collect();
                let job = self.world.submit("all", phases);
                self.jobs.push(job);
            }
            2 => self.backup = Some((self.world.state.clone(), self.world.history.len())),
            3 if dice.roll(3) == 0 => self.restore(dice),
            4 => self.forget(node),
            5 => self.drop_oldest(node),
            6 => {
                let machine = self.machines.get_mut(&node).unwrap();
                machine.copy = machine.folder.clone();
            }
            7 | 8 => self.register(node.0),
            9 => {
                let job = self.jobs.get(usize::try_from(dice.roll(8)).unwrap()).copied();
                if let Some(job) = job {
                    let _ = self.world.confirm(job, None);
                }
            }
            _ => {
                let offers = self.offers();
                let at = usize::try_from(dice.roll(8)).unwrap();
                if let Some(offer) = offers.get(at % offers.len().max(1)) {
                    self.serve(offer, dice.roll(4) > 0);
                }
            }
        }
    }
}

fn phase(dice: &mut Dice) -> Phase {
    let task = |dice: &mut Dice| if dice.roll(3) == 0 { leaf("ping", "echo") } else { leaf("test", "record") };
    if dice.roll(2) == 0 { task(dice) } else { pipeline((0..2).map(|_| task(dice)).collect()) }
}

fn end(outcome: Outcome) -> RanEnd {
    RanEnd { outcome, error: None, duration_ms: 0, started_wall_ms: 1, output_bytes: 0 }
}

#[test]
fn e2_no_restore_runs_a_once_step_twice_whatever_became_of_the_journals() {
    let mut restored = 0;
    for seed in 1..=600u64 {
        let outcome = std::panic::catch_unwind(|| {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut fleet = Fleet::new();
            fleet.world.set_quotas(4, 50);
            for _ in 0..120 {
                fleet.step(&mut dice);
                let twice: Vec<_> = fleet.ran.iter().filter(|(_, times)| **times > 1).collect();
                assert!(twice.is_empty(), "{twice:?}");
            }
            fleet.world.state.meta.leadership.epoch.generation
        });
        match outcome {
            Ok(generation) => restored += generation,
            Err(_) => panic!("seed {seed}"),
        }
    }
    assert!(restored > 200, "the walk hardly restores: {restored}");
}
