//! Restores in a test's world: nodes that come back and say what their journals know (E2).

use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd, Outcome, SessionId};

use super::{Lease, World};
use crate::commands::{Command, ConfirmJob, JournalOfJob, RegisterNode, Rejection, Reply, ReportJournal};
use crate::state::RanEnd;

/// A lease that a journal names: still outstanding, or how it ended.
pub(crate) type Named = (Lease, Option<Outcome>);

impl World {
    /// The process that was registered before registers again.
    pub fn come_back(&mut self, node: u32) {
        self.come_back_as(node, format!("journal-{node}").as_bytes(), b"nonce");
    }

    pub fn come_back_as(&mut self, node: u32, journal: &[u8], nonce: &[u8]) {
        let boot = self.state.nodes[&NodeOrd(node)].boot + 1;
        self.register(&format!("node-{node}"), journal, boot, nonce, false).unwrap();
    }

    /// A worker process registers with what its journal has.
    pub fn register_with_journal(
        &mut self,
        id: &str,
        journal: &[u8],
        nonce: &[u8],
        outstanding: Vec<LeaseKey>,
    ) -> Result<Reply, Rejection> {
        let Command::RegisterNode(worker) = Self::register_command(id, journal, 2, nonce, 4) else { unreachable!() };
        self.one(Command::RegisterNode(RegisterNode { outstanding, ..worker }))
    }

    /// Comes back with everything it knew, and says it.
    pub fn return_whole(&mut self, node: u32, jobs: &[JobId], named: &[Named]) {
        self.come_back(node);
        self.report_journal(node, jobs, named).unwrap();
    }

    pub fn report_journal(&mut self, node: u32, jobs: &[JobId], named: &[Named]) -> Result<Reply, Rejection> {
        self.report_journal_as(node, self.session(node), jobs, named)
    }

    pub fn report_journal_as(
        &mut self,
        node: u32,
        session: u64,
        jobs: &[JobId],
        named: &[Named],
    ) -> Result<Reply, Rejection> {
        let of_job = |job: &JobId| JournalOfJob { job: *job, forgotten: None, leases: leases_of(*job, node, named) };
        let jobs = jobs.iter().map(of_job).collect();
        self.one(Command::ReportJournal(ReportJournal {
            node: NodeOrd(node),
            session: SessionId(session),
            dropped_to: JobId(0),
            newest: JobId(0),
            jobs,
            is_last: true,
        }))
    }

    /// An answer with tombstones, or of a journal that has dropped jobs up to an id.
    pub fn report_gaps(&mut self, node: u32, job: JobId, forgotten: Option<JobEpoch>, dropped_to: JobId) {
        let session = SessionId(self.session(node));
        let jobs = vec![JournalOfJob { job, forgotten, leases: Vec::new() }];
        let (node, newest) = (NodeOrd(node), JobId(0));
        let command = ReportJournal { node, session, dropped_to, newest, jobs, is_last: true };
        self.one(Command::ReportJournal(command)).unwrap();
    }

    pub fn confirm_rerun(&mut self, job: JobId) -> Result<Reply, Rejection> {
        let namespace = "default".parse().unwrap();
        self.one(Command::ConfirmJob(ConfirmJob { namespace, job, phase: None, held: None, rerun_once: true }))
    }
}

fn leases_of(job: JobId, node: u32, named: &[Named]) -> Vec<(LeaseKey, Option<RanEnd>)> {
    let own = named.iter().filter(|((ord, lease), _)| ord.0 == node && lease.job == job);
    let end = |outcome| RanEnd { outcome, error: None, duration_ms: 42, started_wall_ms: 7, output_bytes: 0 };
    own.map(|((_, lease), outcome)| (*lease, outcome.map(end))).collect()
}
