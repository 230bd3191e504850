//! Nodes and jobs together: what the documents say of slots (W7), being offline (J4), windows (J2) and admission (J3).
//!
//! The documents leave open who is served first. So after every entry the model is shown what the state machine chose
//! ([`Seen`]), takes each choice only if it was allowed at that moment, and then looks whether anything was left that had
//! to be done: a lost wake-up is a disagreement like any other.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::decl::EffectClass;
use grid_types::job::Offline;
use grid_types::node::NodeStatus;
use grid_types::{JobId, JobStatus, Outcome};

use crate::dice::RARE;
use crate::job::{At, Job, Trip, Walk};

pub struct Node {
    pub status: NodeStatus,
    pub slots: usize,
    /// Does not run every action.
    pub lacking: bool,
}

/// One lease as both sides name it: job, job epoch, step, attempt, node.
pub type Lease = (JobId, u32, u32, u32, u32);

/// What the state machine shows after an entry.
#[derive(Debug, Default)]
pub struct Seen {
    pub offered: BTreeSet<Lease>,
    pub revoked: BTreeSet<Lease>,
    /// (job, step, node) that are being worked on.
    pub open: BTreeSet<(JobId, u32, u32)>,
    pub backoff: BTreeSet<(JobId, u32)>,
    /// Nodes that wait for a place in the window.
    pub parked: BTreeSet<(JobId, u32)>,
    pub pending: BTreeSet<JobId>,
    /// (job, step, node) whose row shows a failure: who fails first without an attempt may trip the job for the others.
    pub failed: BTreeSet<(JobId, u32, u32)>,
    /// (job, step, node) that were skipped because the node was offline.
    pub offline: BTreeSet<(JobId, u32, u32)>,
}

#[derive(Default)]
pub struct Cluster {
    pub nodes: BTreeMap<u32, Node>,
    pub jobs: BTreeMap<JobId, Job>,
    pub max_concurrent: usize,
    pub now_ms: u64,
    /// Jobs that had a place in admission before the entry.
    pub admitted: BTreeSet<JobId>,
    /// The entry looked at the time: only then does a backoff end. Otherwise one that is gone was dropped by a trip.
    pub looked_at_time: bool,
}

impl Cluster {
    fn is_online(&self, node: u32) -> bool {
        matches!(self.nodes[&node].status, NodeStatus::Ready | NodeStatus::Warning)
    }

    fn has_free_slot(&self, node: u32) -> bool {
        let holds = |job: &&Job| {
            let walk = job.walks.get(&node).filter(|_| job.in_phase);
            walk.is_some_and(|walk| matches!(walk.at, At::Leased { .. }))
        };
        self.jobs.values().filter(holds).count() < self.nodes[&node].slots
    }

    pub fn waits_for_offline(job: &Job) -> bool {
        job.spec.offline == Offline::Wait && job.tripped != Some(Trip::Timeout) && !job.is_for_failures()
    }

    /// Follows from the entry and from what was chosen: to the end, where every choice is used up.
    pub fn settle(&mut self, seen: &Seen) {
        while self.advance_phases()
            || self.see_all(Self::see_backoff_end, seen)
            || self.see_all(Self::see_window, seen)
            || self.see_all(Self::see_offline, seen)
            || self.see_all(Self::refuse, seen)
            || self.see_all(Self::see_offline_retry, seen)
            || self.see_all(Self::see_offer, seen)
            || self.see_all(Self::see_entry, seen)
            || self.start_jobs(seen)
        {}
        self.check_leases(seen);
        for (id, node) in self.turns() {
            self.check_wait(id, node, seen);
        }
        let admitted = self.admitted_now();
        let waiting = self.jobs.values().any(|job| job.status == JobStatus::Pending);
        assert!(!waiting || admitted.len() >= self.max_concurrent, "a job waits although only {admitted:?} run");
        self.admitted = admitted;
        self.looked_at_time = false;
        self.move_deadlines();
    }

    fn advance_phases(&mut self) -> bool {
        let mut moved = false;
        let online: BTreeSet<u32> = self.nodes.keys().copied().filter(|node| self.is_online(*node)).collect();
        for job in self.jobs.values_mut() {
            job.online.clone_from(&online);
            while job.go_on() {
                moved = true;
            }
        }
        moved
    }

    /// Asks of every node whose turn it may be whether that choice was made; the earlier questions come first again
    /// after each round of answers.
    fn see_all(&mut self, see: fn(&mut Self, JobId, u32, &Seen) -> bool, seen: &Seen) -> bool {
        let answers = self.turns().into_iter().map(|(id, node)| see(self, id, node, seen));
        answers.filter(|moved| *moved).count() > 0
    }

    /// Nodes that want a lease, now or after their backoff.
    fn turns(&self) -> Vec<(JobId, u32)> {
        let running = self.jobs.iter().filter(|(_, job)| job.status == JobStatus::Running && job.in_phase);
        let turns = running.flat_map(|(id, job)| {
            let wanting =
                job.walks.iter().filter(|(_, w)| matches!(w.at, At::Parked | At::Waiting | At::Backoff { .. }));
            wanting.map(|(node, _)| (*id, *node))
        });
        turns.collect()
    }

    fn start_jobs(&mut self, seen: &Seen) -> bool {
        let pending = |job: &Job| job.status == JobStatus::Pending;
        let Some(id) = self.jobs.iter().find(|(_, job)| pending(job)).map(|(id, _)| *id) else { return false };
        if seen.pending.contains(&id) {
            return false;
        }
        // One that takes its place back does so whatever else happens (J3).
        let before = self.admitted_now().intersection(&self.admitted).count();
        assert!(before < self.max_concurrent, "{id} started beside {before} others");
        let (nodes, now_ms): (Vec<u32>, u64) = (self.nodes.keys().copied().collect(), self.now_ms);
        self.jobs.get_mut(&id).unwrap().start(&nodes, now_ms);
        self.admitted.insert(id);
        true
    }

    fn see_backoff_end(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        let job = &self.jobs[&id];
        let At::Backoff { since_ms } = job.walks[&node].at else { return false };
        if seen.backoff.contains(&(id, node)) || !self.looked_at_time {
            return false;
        }
        let earliest = since_ms + plain_backoff_ms(job.walks[&node].attempt) * 8 / 10;
        if self.now_ms < earliest {
            return false;
        }
        self.jobs.get_mut(&id).unwrap().walk(node).at = At::Waiting;
        true
    }

    /// J2: a node is let in while there is room; one that goes away before it has begun is put back, and shows as put back or,
    /// if that let somebody in whose failure tripped the job, as decided.
    fn see_window(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        let awaited = Self::waits_for_offline(&self.jobs[&id]) && !self.is_online(node);
        let job = self.jobs.get_mut(&id).unwrap();
        let walk = job.walks[&node];
        let open = seen.open.contains(&(id, job.step_of(&walk), node));
        let parked = seen.parked.contains(&(id, node)) && open;
        match walk.at {
            At::Parked if !parked && !awaited && job.has_place(node) => job.unpark(node),
            At::Waiting if job.phase_has_window() && (parked || !open) && !walk.begun && awaited => {
                let walk = job.walk(node);
                (walk.entered, walk.at) = (false, At::Parked);
            }
            _ => return false,
        }
        true
    }

    fn see_offline(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        self.jobs[&id].walks[&node].last.is_none() && self.pass_over(id, node, seen)
    }

    /// A retry of a node that is not there. Its row shows the failure before, whether the node was offline or another failure
    /// of the entry tripped the job; so the failures that trip no other way come first.
    fn see_offline_retry(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        self.jobs[&id].walks[&node].last.is_some() && self.pass_over(id, node, seen)
    }

    fn pass_over(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        let job = &self.jobs[&id];
        let step = job.step_of(&job.walks[&node]);
        let allowed = job.walks[&node].at == At::Waiting
            && !self.is_online(node)
            && !Self::waits_for_offline(job)
            && job.has_place(node);
        let key = (id, step, node);
        let fails = job.fails_offline() || job.walks[&node].last.is_some();
        let shown = if fails { seen.failed.contains(&key) } else { seen.offline.contains(&key) };
        if !allowed || !shown || seen.open.contains(&key) {
            return false;
        }
        self.jobs.get_mut(&id).unwrap().pass_over(node);
        true
    }

    /// Who is there and cannot run its step at all has failed without an attempt: before anything else is offered (J1).
    fn refuse(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        let job = &self.jobs[&id];
        let walk = job.walks[&node];
        let lacks = walk.at == At::Waiting && self.nodes[&node].lacking && job.task_of(&walk).action == RARE;
        let fails = lacks && self.is_online(node) && seen.failed.contains(&(id, job.step_of(&walk), node));
        if fails {
            self.jobs.get_mut(&id).unwrap().settle(node, Outcome::Failed, 0);
        }
        fails
    }

    fn see_offer(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        let job = &self.jobs[&id];
        let walk = &job.walks[&node];
        let lease = (id, job.epoch, job.step_of(walk), walk.attempt, node);
        let allowed = walk.at == At::Waiting && self.is_online(node) && job.has_place(node) && self.has_free_slot(node);
        if !allowed || !seen.offered.contains(&lease) {
            return false;
        }
        self.jobs.get_mut(&id).unwrap().take(node);
        true
    }

    /// A node that is there but busy may take its place before its lease.
    fn see_entry(&mut self, id: JobId, node: u32, seen: &Seen) -> bool {
        let job = &self.jobs[&id];
        let walk = &job.walks[&node];
        let allowed = walk.at == At::Waiting && !walk.entered && job.has_place(node) && !self.has_free_slot(node);
        if !allowed || !seen.open.contains(&(id, job.step_of(walk), node)) || seen.parked.contains(&(id, node)) {
            return false;
        }
        self.jobs.get_mut(&id).unwrap().walk(node).entered = true;
        true
    }

    fn check_leases(&self, seen: &Seen) {
        let (mut offered, mut revoked) = (BTreeSet::new(), BTreeSet::new());
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.in_phase) {
            for (node, walk) in &job.walks {
                let At::Leased { epoch, revoked: why, .. } = walk.at else { continue };
                let lease = (*id, epoch, job.step_of(walk), walk.attempt, *node);
                if why.is_some() {
                    revoked.insert(lease)
                } else {
                    offered.insert(lease)
                };
            }
        }
        let forbidden: Vec<_> = seen.offered.difference(&offered).collect();
        assert!(forbidden.is_empty(), "offered, but the model forbids it: {forbidden:?}");
        let lost: Vec<_> = offered.difference(&seen.offered).collect();
        assert!(lost.is_empty(), "the model says it is out: {lost:?}");
        assert_eq!(seen.revoked, revoked, "leases to be given back");
    }

    /// Whoever still waits must have a reason.
    fn check_wait(&self, id: JobId, node: u32, seen: &Seen) {
        let job = &self.jobs[&id];
        let walk = job.walks[&node];
        if let At::Backoff { .. } = walk.at {
            return assert!(seen.backoff.contains(&(id, node)), "{id} on {node}: its backoff is not over: {walk:?}");
        }
        let has_reason = !job.has_place(node)
            || (!self.has_free_slot(node) && walk.at == At::Waiting)
            || (!self.is_online(node) && Self::waits_for_offline(job));
        assert!(has_reason, "{id} step {} on {node} waits for nothing: {walk:?}", job.step_of(&walk));
    }

    /// After leader time was looked at, nothing that is due may still wait for it.
    pub fn check_timers(&self) {
        for (id, node) in self.turns() {
            let walk = self.jobs[&id].walks[&node];
            if let At::Backoff { since_ms } = walk.at {
                let latest = since_ms + plain_backoff_ms(walk.attempt) * 12 / 10;
                assert!(self.now_ms < latest, "{id} on {node}: a retry due at {latest} still waits");
            }
        }
    }

    fn admitted_now(&self) -> BTreeSet<JobId> {
        let runs = |job: &Job| job.status == JobStatus::Running && !self.is_stalled(job);
        self.jobs.iter().filter(|(_, job)| runs(job)).map(|(id, _)| *id).collect()
    }

    /// J3: everything it has open waits for a person or for offline nodes, or behind those.
    fn is_stalled(&self, job: &Job) -> bool {
        let waits = |(node, walk): (&u32, &crate::job::Walk)| match walk.at {
            At::Ended | At::Unresolved => true,
            At::Parked | At::Waiting => {
                !job.has_place(*node) || (!self.is_online(*node) && Self::waits_for_offline(job))
            }
            At::Backoff { .. } | At::Leased { .. } => false,
        };
        job.gate || job.asks || (job.in_phase && job.walks.iter().all(waits))
    }

    fn waits_for_a_person(&self, job: &Job) -> bool {
        let unresolved = job.in_phase && job.walks.values().any(|walk| walk.at == At::Unresolved);
        job.gate || job.asks || (unresolved && self.is_stalled(job))
    }

    /// J3: a job's time does not pass while it waits for a person.
    fn move_deadlines(&mut self) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let waits = self.waits_for_a_person(&self.jobs[&id]);
            let now_ms = self.now_ms;
            let job = self.jobs.get_mut(&id).unwrap();
            match job.deadline_ms {
                Some(deadline_ms) if waits => {
                    job.left_ms = deadline_ms.saturating_sub(now_ms);
                    job.deadline_ms = None;
                }
                None if !waits && job.status == JobStatus::Running && job.tripped != Some(Trip::Timeout) => {
                    job.deadline_ms = Some(now_ms + job.left_ms);
                }
                _ => {}
            }
        }
    }

    pub fn fire_timers(&mut self) {
        self.looked_at_time = true;
        let now_ms = self.now_ms;
        let due = |job: &&mut Job| job.status == JobStatus::Running && job.deadline_ms.is_some_and(|at| at <= now_ms);
        for job in self.jobs.values_mut().filter(due) {
            job.time_is_over();
        }
    }

    /// Whoever reports is there: a silence that was noticed is over.
    pub fn heard(&mut self, node: u32) {
        let status = &mut self.nodes.get_mut(&node).unwrap().status;
        if matches!(status, NodeStatus::Warning | NodeStatus::Unhealthy) {
            *status = NodeStatus::Ready;
        }
    }

    /// The node holds nothing: what is out to it never arrived, but for what it had begun (W1).
    pub fn take_back_leases(&mut self, node: u32) {
        self.each_lease(node, |job, walk, now_ms| match walk.at {
            At::Leased { begun: Some(_), .. } => lose(job, node, now_ms),
            _ => job.take_back(node),
        });
    }

    /// What runs on the node will not be heard of: `unknown`, unless it never began (E8).
    pub fn lose_leases(&mut self, node: u32) {
        self.each_lease(node, |job, _, now_ms| {
            if job.never_ran(node) {
                job.take_back(node);
            } else {
                lose(job, node, now_ms);
            }
        });
    }

    /// W1: a worker registers with what its journal has: nothing, or all. A `once` lease that has begun and is missing is
    /// unknown; of what was revoked a new journal cannot say how it ended.
    pub fn register(&mut self, node: u32, names_all: bool, new_journal: bool) {
        self.each_lease(node, |job, walk, now_ms| {
            let At::Leased { revoked, begun, .. } = walk.at else { return };
            // It may run again, and then its result says nothing about what the first execution changed.
            let effect = job.task_of(&walk).effect;
            job.walks.entry(node).and_modify(|at| at.changed |= effect != EffectClass::Pure);
            let is_once = effect == EffectClass::Once;
            let is_lost = if is_once { begun.is_some() } else { revoked.is_some() && new_journal };
            if is_lost && !names_all {
                lose(job, node, now_ms);
            }
        });
    }

    fn each_lease(&mut self, node: u32, mut act: impl FnMut(&mut Job, Walk, u64)) {
        let now_ms = self.now_ms;
        for job in self.jobs.values_mut().filter(|job| job.in_phase) {
            let walk = job.walks.get(&node).copied().filter(|walk| matches!(walk.at, At::Leased { .. }));
            if let Some(walk) = walk {
                act(job, walk, now_ms);
            }
        }
    }
}

fn lose(job: &mut Job, node: u32, now_ms: u64) {
    let walk = job.walks[&node];
    if matches!(walk.at, At::Leased { revoked: Some(_), .. }) {
        // Only a lease that may have run is lost.
        if job.task_of(&walk).effect != EffectClass::Pure {
            job.touched.insert((job.step_of(&walk), node));
        }
        job.note_unknown(node);
        job.settle(node, Outcome::Unknown, walk.attempt);
    } else {
        job.attempt_ended(node, Outcome::Unknown, now_ms);
    }
}

/// 1, 2, 4 … 30 s before attempt 2, 3, 4 …
fn plain_backoff_ms(attempt: u32) -> u64 {
    (1_000u64 << (attempt - 2).min(10)).min(30_000)
}
