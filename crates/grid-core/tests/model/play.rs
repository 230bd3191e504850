//! Random events in a random order: results, deaths, returns, time, leaders, people, and what comes twice or too late.
//! After each one the model and the state machine have to agree; at the end everything comes back and has to end.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{
    Answer, BeginLease, CancelJob, Command, ConfirmJob, ConfirmRevoke, EntryHead, RecordResult, Reply, RequestHash,
    ResolveStep, SubmitJob, Verdict,
};
use grid_types::decl::EffectClass;
use grid_types::node::NodeStatus;
use grid_types::{Attempt, Detail, JobEpoch, JobId, JobStatus, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::cluster::{Cluster, Lease};
use crate::dice::{Dice, Flavour};
use crate::job::{At, says_changed};
use crate::resume::resume_command;
use crate::rig::{Rig, name_of};

pub struct Player {
    pub rig: Rig,
    pub dice: Dice,
    pub flavour: Flavour,
    /// (step, node) that never succeed.
    pub doom: BTreeSet<(u32, u32)>,
    next_job: u64,
    sent: Vec<Command>,
    /// Which process began a lease.
    granted: BTreeMap<Lease, u64>,
}

impl Player {
    pub fn new(seed: u64, flavour: Flavour) -> Self {
        let mut dice = Dice::new(seed);
        let slots: Vec<_> =
            (0..flavour.nodes).map(|_| (dice.pick(&[1, 1, 2]), flavour.lacking && dice.one_in(4))).collect();
        let max_concurrent = dice.pick(&[1, 2, 5]);
        let rig = Rig::new(seed, &slots, max_concurrent);
        Self { rig, dice, flavour, doom: BTreeSet::new(), next_job: 100, sent: Vec::new(), granted: BTreeMap::new() }
    }

    /// One random event.
    pub fn step(&mut self) {
        match self.dice.roll(40) {
            0 => self.submit(),
            1..=10 => self.result(),
            11..=14 => self.begin(),
            15 | 16 => self.results_together(),
            17 | 18 => self.confirm_revoke(),
            19 => self.expire(),
            20..=23 => self.mark(),
            24 | 25 => self.register(),
            26 => self.drain_or_leave(),
            27 => self.new_leader(),
            28..=32 => self.advance(),
            33 if self.dice.one_in(3) => self.cancel(),
            34 => self.confirm_gate(),
            35 => self.resolve(),
            36 => self.resume(),
            38 => self.journal(),
            37 if self.dice.one_in(4) => self.rig.join(1, false),
            _ => self.stale(),
        }
        self.rig.agree();
    }

    /// One for many nodes at once: most of them answer.
    pub fn wide_step(&mut self) {
        match self.dice.roll(8) {
            0..=3 => self.results_together(),
            4 => self.advance(),
            5 => self.mark(),
            6 => self.drain_or_leave(),
            _ => self.step(),
        }
        self.rig.agree();
    }

    pub fn submit(&mut self) {
        let spec = self.dice.job(self.flavour);
        self.submit_spec(spec);
    }

    pub fn submit_spec(&mut self, spec: grid_types::job::JobSpec) -> JobId {
        self.next_job += 1;
        let id = JobId(self.next_job);
        self.rig.note(format!("submit {id}: {}", crate::brief(&spec)));
        self.rig.model.jobs.insert(id, crate::job::Job::new(spec.clone(), 1));
        let namespace = "default".parse().unwrap();
        let reply = self.rig.one(Command::SubmitJob(SubmitJob {
            id,
            namespace,
            spec,
            key: None,
            plan: None,
            request: RequestHash::default(),
        }));
        assert_eq!(reply, Ok(Reply::Submitted { job: id, repeated: false }));
        id
    }

    fn outcome(&mut self, (node, lease): (NodeOrd, LeaseKey)) -> Outcome {
        if self.doom.contains(&(lease.step.0, node.0)) {
            return Outcome::Failed;
        }
        let once = self.effect_of(lease) == EffectClass::Once;
        match self.dice.roll(12) {
            0 | 1 => Outcome::Failed,
            2 => Outcome::TimedOut,
            3 if once => Outcome::Unknown,
            _ => Outcome::Success,
        }
    }

    fn effect_of(&self, lease: LeaseKey) -> EffectClass {
        self.rig.model.jobs[&lease.job].spec.steps().nth(lease.step.0 as usize).unwrap().1.effect
    }

    pub fn result_command(&self, (node, lease): (NodeOrd, LeaseKey), outcome: Outcome) -> Command {
        Command::RecordResult(RecordResult {
            node,
            session: self.rig.state.nodes[&node].session,
            lease,
            outcome,
            error: outcome.is_failure().then(|| "boom".to_owned()),
            output_tail: b"out".to_vec(),
            output_bytes: 3,
            output_truncated: false,
            detail: (outcome != Outcome::Unknown)
                .then(|| says_changed(lease.step.0, node.0, lease.attempt.0))
                .flatten()
                .map(|changed| Detail { changed: Some(changed), ..Detail::default() }),
            duration_ms: 42,
            started_wall_ms: 7,
        })
    }

    fn result(&mut self) {
        let leases = self.rig.leases(false);
        if let Some(lease) = self.dice.maybe(&leases) {
            let outcome = self.outcome(lease);
            self.report(&[(lease, outcome)]);
        }
    }

    fn results_together(&mut self) {
        let leases = self.rig.leases(false);
        let many = leases.into_iter().filter(|_| self.dice.one_in(2)).collect::<Vec<_>>();
        let reports: Vec<_> = many.into_iter().map(|lease| (lease, self.outcome(lease))).collect();
        self.report(&reports);
    }

    pub fn report(&mut self, reports: &[((NodeOrd, LeaseKey), Outcome)]) {
        let commands: Vec<_> = reports.iter().map(|(lease, outcome)| self.result_command(*lease, *outcome)).collect();
        self.rig.note(format!("result {:?}", reports.iter().map(|(l, o)| (name_of(*l), *o)).collect::<Vec<_>>()));
        let head = self.rig.head();
        let applied = self.rig.apply(head, &commands);
        for (reply, ((node, lease), outcome)) in applied.replies.iter().zip(reports) {
            assert_eq!(*reply, Ok(Reply::Answered(Answer::Committed)), "{lease} of node {node} is out");
            let now_ms = self.rig.model.now_ms;
            self.rig.model.heard(node.0);
            self.rig.model.jobs.get_mut(&lease.job).unwrap().attempt_ended(node.0, *outcome, now_ms);
        }
        self.sent.extend(commands);
    }

    pub fn confirm_revoke(&mut self) {
        let leases = self.rig.leases(true);
        let Some((node, lease)) = self.dice.maybe(&leases) else { return };
        let doomed = self.doom.contains(&(lease.step.0, node.0));
        let best = if doomed { Outcome::Failed } else { Outcome::Success };
        let ended = self.dice.pick(&[None, Some(Outcome::Cancelled), Some(best), Some(Outcome::Failed)]);
        self.rig.note(format!("revoke confirmed {:?}: {ended:?}", name_of((node, lease))));
        let command = Command::ConfirmRevoke(ConfirmRevoke {
            node,
            session: self.rig.state.nodes[&node].session,
            lease,
            ended,
            duration_ms: 1,
            started_wall_ms: if ended.is_some() { 2 } else { 0 },
            output_tail: Vec::new(),
            output_bytes: 0,
            error: None,
        });
        self.rig.one(command.clone()).unwrap();
        self.sent.push(command);
        self.rig.model.jobs.get_mut(&lease.job).unwrap().confirm_revoke(node.0, ended);
    }

    /// W3: a worker asks to start a `once` lease. I7: no lease is ever granted to two processes.
    pub fn begin(&mut self) {
        let leases: Vec<_> = self
            .rig
            .leases(false)
            .into_iter()
            .filter(|(_, lease)| self.effect_of(*lease) == EffectClass::Once)
            .collect();
        let Some((node, lease)) = self.dice.maybe(&leases) else { return };
        let process = self.rig.boots[&node.0];
        let session = self.rig.state.nodes[&node].session;
        self.rig.note(format!("process {process} begins {:?}", name_of((node, lease))));
        let reply = self.rig.one(Command::BeginLease(BeginLease { node, session, lease }));
        self.rig.model.heard(node.0);
        let walk = self.rig.model.jobs.get_mut(&lease.job).unwrap().walk(node.0);
        let At::Leased { begun, .. } = &mut walk.at else { panic!("{lease} is out") };
        let first = *begun.get_or_insert(process);
        assert_eq!(reply, Ok(Reply::Begun { granted: first == process }));
        let granted = *self.granted.entry(name_of((node, lease))).or_insert(first);
        assert_eq!(granted, first, "I7: {lease} was granted to two processes");
        if first != process {
            // The process that began it is gone, and this one has not run it.
            let now_ms = self.rig.model.now_ms;
            self.rig.model.jobs.get_mut(&lease.job).unwrap().expire(node.0, now_ms);
        }
    }

    fn some_job(&mut self) -> Option<JobId> {
        let jobs: Vec<JobId> = self.rig.model.jobs.keys().copied().collect();
        self.dice.maybe(&jobs)
    }

    fn cancel(&mut self) {
        let Some(job) = self.some_job() else { return };
        self.cancel_job(job);
    }

    pub fn cancel_job(&mut self, job: JobId) {
        self.rig.note(format!("cancel {job}"));
        let command = Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job });
        if self.rig.model.jobs[&job].status.is_ended() {
            let head = self.rig.head();
            return self.rig.ignored(head, command);
        }
        self.rig.one(command).unwrap();
        self.rig.model.jobs.get_mut(&job).unwrap().cancel();
    }

    pub fn confirm_gate(&mut self) {
        let Some(job) = self.some_job() else { return };
        self.rig.note(format!("a person confirms {job}"));
        let command = Command::ConfirmJob(ConfirmJob {
            namespace: "default".parse().unwrap(),
            job,
            phase: None,
            held: None,
            rerun_once: false,
        });
        let model = self.rig.model.jobs.get_mut(&job).unwrap();
        match (model.gate, model.asks) {
            (true, _) => (model.gate, model.confirmed) = (false, true),
            (false, true) => model.admit_all(),
            (false, false) => {
                let head = self.rig.head();
                return self.rig.ignored(head, command);
            }
        }
        self.rig.one(command).unwrap();
    }

    pub fn resolve(&mut self) {
        let mut unresolved = Vec::new();
        for (id, job) in self.rig.model.jobs.iter().filter(|(_, job)| job.in_phase) {
            let waiting = job.walks.iter().filter(|(_, walk)| walk.at == At::Unresolved);
            unresolved.extend(waiting.map(|(node, walk)| (*id, *node, job.step_of(walk))));
        }
        let Some((job, node, step)) = self.dice.maybe(&unresolved) else { return };
        let doomed = self.doom.contains(&(step, node));
        let verdict = self.dice.pick(&[Verdict::Success, Verdict::Failed, Verdict::Retry]);
        let verdict = if doomed { Verdict::Failed } else { verdict };
        self.rig.note(format!("a person says of {job} step {step} on {node}: {verdict:?}"));
        let namespace = "default".parse().unwrap();
        let name = format!("node-{node}").parse().unwrap();
        let command = ResolveStep { namespace, job, step: StepIndex(step), node: name, verdict };
        let away = !matches!(self.rig.model.nodes[&node].status, NodeStatus::Ready | NodeStatus::Warning);
        if verdict == Verdict::Retry && away && !Cluster::waits_for_offline(&self.rig.model.jobs[&job]) {
            let head = self.rig.head();
            return self.rig.ignored(head, Command::ResolveStep(command));
        }
        self.rig.one(Command::ResolveStep(command)).unwrap();
        let model = self.rig.model.jobs.get_mut(&job).unwrap();
        model.unknown.remove(&(step, node));
        let attempt = model.walks[&node].attempt;
        match verdict {
            Verdict::Success => model.settle(node, Outcome::Success, attempt),
            Verdict::Failed => model.settle(node, Outcome::Failed, attempt),
            Verdict::Retry => {
                let walk = model.walk(node);
                (walk.attempt, walk.last, walk.at) = (attempt + 1, Some(Outcome::Unknown), At::Waiting);
            }
        }
    }

    /// W8: a worker that came back finds in its journal how something ended that nobody knew.
    fn journal(&mut self) {
        let mut lost = Vec::new();
        for (id, job) in self.rig.model.jobs.iter().filter(|(_, job)| job.status == JobStatus::Running) {
            lost.extend(
                job.unknown.iter().map(|((step, node), (epoch, attempt))| (*id, *step, *node, *epoch, *attempt)),
            );
        }
        let Some((job, step, node, epoch, attempt)) = self.dice.maybe(&lost) else { return };
        let outcome = self.dice.pick(&[Outcome::Success, Outcome::Failed, Outcome::TimedOut]);
        self.rig.note(format!("journal of {node} on {job} step {step} attempt {attempt}: {outcome}"));
        let lease = LeaseKey { job, job_epoch: JobEpoch(epoch), step: StepIndex(step), attempt: Attempt(attempt) };
        let command = self.result_command((NodeOrd(node), lease), outcome);
        let reply = self.rig.one(command.clone());
        assert_eq!(reply, Ok(Reply::Answered(Answer::Committed)), "W8: it may be settled once");
        self.sent.push(command);
        let now_ms = self.rig.model.now_ms;
        self.rig.model.heard(node);
        self.rig.model.jobs.get_mut(&job).unwrap().journal_says(step, node, outcome, now_ms);
    }

    fn resume(&mut self) {
        let Some(job) = self.some_job() else { return };
        self.resume_job(job);
    }

    pub fn resume_job(&mut self, job: JobId) {
        self.rig.note(format!("resume {job}"));
        let command = resume_command(&self.rig, job);
        let model = &self.rig.model.jobs[&job];
        if !model.status.is_ended() || model.has_leases() {
            let head = self.rig.head();
            return self.rig.ignored(head, command);
        }
        let again = model.resumed();
        self.rig.model.jobs.insert(job, again);
        self.rig.forget_rows(job);
        self.rig.one(command).unwrap();
    }

    /// Something that was said before, or belongs to another session or leader; or the journal that settles an unknown.
    fn stale(&mut self) {
        let Some(command) = self.dice.maybe(&(0..self.sent.len()).collect::<Vec<_>>()) else { return };
        let command = match self.sent[command].clone() {
            Command::RecordResult(mut result) => {
                result.session = self.rig.state.nodes[&result.node].session;
                if self.dice.one_in(3) {
                    result.session.0 += 1;
                }
                Command::RecordResult(result)
            }
            other => other,
        };
        self.rig.note(format!("again: {}", crate::short(&command)));
        let head = self.rig.head();
        let head = if self.dice.one_in(3) { EntryHead { term: head.term + 1, ..head } } else { head };
        if let Command::RecordResult(result) = &command {
            let node = &self.rig.state.nodes[&result.node];
            // Whoever speaks is there, whatever it says.
            if node.session == result.session && head.term == self.rig.head().term && node.status != NodeStatus::Ready {
                self.rig.one(command.clone()).unwrap();
                return self.rig.model.heard(result.node.0);
            }
        }
        self.rig.ignored(head, command);
    }

    /// Every node comes back, every person answers: everything ends.
    pub fn finish(&mut self) {
        self.rig.note("--- everything comes back ---".to_owned());
        for node in self.rig.model.nodes.keys().copied().collect::<Vec<_>>() {
            self.register_node(node, false);
            self.rig.agree();
        }
        // In a window of one place every step of every node needs a round of its own, and most rounds are for others.
        let steps: usize = self.rig.model.jobs.values().map(|job| job.spec.step_count()).sum();
        for _ in 0..4_000 + 20 * steps * self.rig.model.nodes.len() {
            if self.rig.model.jobs.values().all(|job| job.status.is_ended() && !job.has_leases()) {
                assert!(self.rig.state.jobs.is_empty(), "something is left");
                return;
            }
            match self.dice.roll(8) {
                0 => self.results_together(),
                1 => self.result(),
                2 => self.begin(),
                3 => self.confirm_revoke(),
                4 => self.resolve(),
                5 => self.confirm_gate(),
                _ => self.advance(),
            }
            self.rig.agree();
        }
        panic!("it does not end");
    }
}
