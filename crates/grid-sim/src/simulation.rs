//! Runs the simulated time and the order of events, and does what a test asks for.

mod controllers;
mod network;
mod workers;

use grid_core::{CancelJob, Command, RequestHash, SubmitJob};
use grid_fabric::Credential;
use grid_proto::v1;
use grid_testkit::Dice;
use grid_types::{JobId, JobStatus, LeaseKey, Outcome, SessionId, StepIndex};
use grid_worker::engine::Input;
use grid_worker::engine::book::Work;
use grid_worker::engine::record::Status;

use crate::check::Check;
use crate::controller::{Controller, Then};
use crate::faults::Faults;
use crate::machine::{Machine, Restart};
use crate::schedule::Schedule;

pub use network::Way;

const TICK_MS: u64 = 200;
const MISHAPS_MS: u64 = 1_000;

/// One leader at a time, its workers, and everything between them.
pub struct Simulation {
    pub faults: Faults,
    pub check: Check,
    /// What happened, in order, if it is kept.
    pub trace: Option<Vec<String>>,
    now_ms: u64,
    dice: Dice,
    schedule: Schedule<Event>,
    controller: Controller,
    machines: Vec<Machine>,
    links: Vec<network::Link>,
}

/// What happens at a time.
#[derive(Debug)]
enum Event {
    Tick,
    Mishaps,
    /// The entry of the proposals that wait is committed.
    Commit,
    OpenTerm {
        epoch: u64,
    },
    FullMandate {
        epoch: u64,
    },
    /// The controller notices that a stream is over.
    StreamEnded {
        session: SessionId,
    },
    ToController {
        machine: usize,
        process: u64,
        call: Call,
    },
    ToWorker {
        machine: usize,
        process: u64,
        input: Box<Input>,
    },
    Woken {
        machine: usize,
        wake: u64,
    },
    /// Everything up to `length` of the journal is on disk.
    Synced {
        machine: usize,
        process: u64,
        length: usize,
        up_to: u64,
    },
    Fork {
        machine: usize,
        process: u64,
        work: Box<Work>,
    },
    Ends {
        machine: usize,
        process: u64,
        lease: LeaseKey,
        status: Status,
    },
    Starts {
        machine: usize,
        process: u64,
    },
}

impl Event {
    /// The process that has to be alive, and awake, for it.
    fn process(&self) -> Option<(usize, u64)> {
        match self {
            Self::ToWorker { machine, process, .. }
            | Self::Synced { machine, process, .. }
            | Self::Fork { machine, process, .. }
            | Self::Ends { machine, process, .. } => Some((*machine, *process)),
            _ => None,
        }
    }
}

/// What a worker asks of its controller.
#[derive(Debug)]
enum Call {
    Register(Box<v1::RegisterNodeRequest>),
    Open { credential: Credential, first: Box<v1::FromWorker> },
    Message { session: SessionId, message: Box<v1::FromWorker> },
}

impl Simulation {
    /// With a leader, and `workers` that are about to register.
    #[must_use]
    pub fn new(seed: u64, workers: usize, faults: Faults) -> Self {
        let mut simulation = Self {
            faults,
            check: Check::default(),
            trace: None,
            now_ms: 1_000,
            dice: Dice::new(seed),
            schedule: Schedule::default(),
            controller: Controller::default(),
            machines: (0..workers).map(Machine::new).collect(),
            links: vec![network::Link::default(); workers],
        };
        simulation.controller.depose(simulation.now_ms, 0);
        simulation.controller.open_term(simulation.now_ms);
        simulation.schedule.at(simulation.now_ms, Event::Tick);
        simulation.schedule.at(simulation.now_ms + MISHAPS_MS, Event::Mishaps);
        for machine in 0..workers {
            simulation.handle(machine, Input::Woken);
        }
        simulation
    }

    /// # Panics
    /// When the job is not valid.
    pub fn submit(&mut self, id: u64, job: &serde_json::Value) -> JobId {
        let spec = grid_types::job::parse_job(job).unwrap_or_else(|faults| panic!("{faults:?}"));
        let (id, namespace) = (JobId(id), "default".parse().unwrap_or_else(|_| unreachable!("a name")));
        let submit = SubmitJob { id, namespace, spec, key: None, plan: None, request: RequestHash::default() };
        self.propose(vec![Command::SubmitJob(submit)], Then::Nothing);
        id
    }

    pub fn cancel(&mut self, job: JobId) {
        let namespace = "default".parse().unwrap_or_else(|_| unreachable!("a name"));
        self.propose(vec![Command::CancelJob(CancelJob { namespace, job })], Then::Nothing);
    }

    /// Handles what happens until `is_over`. Returns whether that was within `limit_ms`.
    pub fn run_until(&mut self, limit_ms: u64, mut is_over: impl FnMut(&Self) -> bool) -> bool {
        let end_ms = self.now_ms + limit_ms;
        while !is_over(self) {
            let Some((at_ms, event)) = self.schedule.next() else { return false };
            if at_ms > end_ms {
                self.schedule.at(at_ms, event);
                self.now_ms = end_ms;
                return false;
            }
            self.now_ms = self.now_ms.max(at_ms);
            self.happen(event);
        }
        true
    }

    /// Lets time pass.
    pub fn run_for(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    fn happen(&mut self, event: Event) {
        if let Some((machine, process)) = event.process() {
            let known = &self.machines[machine];
            if known.process != process || !known.is_up {
                return;
            }
            if known.frozen_until_ms > self.now_ms {
                return self.schedule.at(known.frozen_until_ms, event);
            }
        }
        match event {
            Event::Tick => self.tick(),
            Event::Mishaps => self.mishaps(),
            Event::Commit => self.commit(),
            Event::OpenTerm { epoch } => self.open_term(epoch),
            Event::FullMandate { epoch } => self.full_mandate(epoch),
            Event::StreamEnded { session } => self.stream_ended(session),
            Event::ToController { machine, process, call } => self.called(machine, process, call),
            Event::ToWorker { machine, input, .. } => self.handle(machine, *input),
            Event::Woken { machine, wake } => self.woken(machine, wake),
            Event::Synced { machine, length, up_to, .. } => self.synced(machine, length, up_to),
            Event::Fork { machine, work, .. } => self.fork(machine, *work),
            Event::Ends { machine, lease, status, .. } => self.lease_ends(machine, lease, status),
            Event::Starts { machine, process } => self.start_again(machine, process),
        }
    }

    /// What goes wrong by chance, once a second.
    fn mishaps(&mut self) {
        self.schedule.at(self.now_ms + MISHAPS_MS, Event::Mishaps);
        let faults = self.faults;
        if self.chance(faults.leader_change) {
            self.change_leader();
        } else if self.chance(faults.mandate) {
            self.lose_mandate();
        }
        for machine in 0..self.machines.len() {
            if self.chance(faults.restart) {
                self.restart(machine, Restart::Process);
            } else if self.chance(faults.reboot) {
                self.restart(machine, Restart::Machine);
            } else if self.chance(faults.broken_stream) {
                self.break_stream(machine);
            } else if self.chance(faults.frozen) {
                let ms = self.dice.roll(15_000);
                self.freeze(machine, ms);
            }
        }
    }

    fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.dice.roll(100) < percent
    }

    fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>7} {}", self.now_ms, what(self));
            self.trace.iter_mut().for_each(|trace| trace.push(line.clone()));
        }
    }

    /// How a job ended; none: it has not.
    #[must_use]
    pub fn ended(&self, job: JobId) -> Option<JobStatus> {
        match self.controller.state.jobs.get(&job) {
            Some(job) => Some(job.head.status).filter(|status| status.is_ended()),
            None => self.controller.state.stubs.get(&job).map(|stub| stub.status),
        }
    }

    /// Whether every worker has a session with the leader.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let is_open = |session: SessionId| self.controller.streams.contains_key(&session);
        self.machines.iter().all(|machine| machine.session.is_some_and(is_open))
    }

    /// Whether every job that was accepted has ended, and nothing of any is left to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.controller.state.jobs.is_empty()
            && self.controller.waiting() == 0
            && self.machines.iter().all(|machine| machine.is_up && machine.running.is_empty())
    }

    /// The jobs that have not ended, and what each waits for.
    #[must_use]
    pub fn unfinished(&self) -> Vec<String> {
        let state = &self.controller.state;
        state
            .jobs
            .iter()
            .map(|(id, job)| format!("{id}: {:?} {:?}", job.head.status, grid_core::why(state, job, 0)))
            .collect()
    }

    /// How many proposals are not committed yet.
    #[must_use]
    pub fn uncommitted(&self) -> usize {
        self.controller.waiting()
    }

    /// The newest outcome of a step on a machine.
    #[must_use]
    pub fn outcome(&self, job: JobId, step: u32, machine: usize) -> Option<Outcome> {
        let nodes = self.nodes();
        let is_of = |row: &&grid_core::ResultRow| {
            row.job == job && row.step == StepIndex(step) && nodes.get(&row.node) == Some(&machine)
        };
        self.check.results.iter().rfind(is_of).map(|row| row.outcome)
    }

    /// How often a step was started on a machine.
    #[must_use]
    pub fn starts(&self, job: JobId, step: u32, machine: usize) -> usize {
        let is_of =
            |run: &&crate::Run| run.machine == machine && run.lease.job == job && run.lease.step == StepIndex(step);
        self.check.runs.iter().filter(is_of).count()
    }

    /// Whether a lease of the step runs there now.
    #[must_use]
    pub fn runs(&self, job: JobId, step: u32, machine: usize) -> bool {
        let is_it = |run: &crate::Run| {
            run.machine == machine && run.lease.job == job && run.lease.step == StepIndex(step) && run.to_ms.is_none()
        };
        self.check.runs.iter().any(is_it)
    }

    /// Everything that must not be.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.controller.violations.iter().chain(&self.check.violations).cloned().collect()
    }

    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }
}
