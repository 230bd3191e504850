//! A small world: a state, a leader's clock, a store in a temporary folder. Nothing is stored until `store` is called,
//! so that a test decides which entries are one batch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grid_core::{
    Applied, BeginTerm, CancelJob, Changes, Command, ConfirmRevoke, Effect, Entry, EntryHead, ExpireLease, FireTimers,
    MarkNode, Quotas, RecordResult, RegisterNode, Rejection, Reply, RequestHash, RestoredFrom, State, SubmitJob, apply,
    pending_effects,
};
use grid_store::{
    JobRow, LogFilter, Note, Position, Reader, ResultFilter, ResultRow, StepResult, Store, Stored, StoredOutput,
};
use grid_types::decl::builtin;
use grid_types::job::{Condition, JobSpec, Phase, Strategy, Task};
use grid_types::node::{Capacity, NodeFacts, NodeStatus};
use grid_types::{JobId, JobRef, LeaseKey, NodeOrd, Outcome};
use tempfile::TempDir;

pub type Lease = (NodeOrd, LeaseKey);

pub const WALL_MS: u64 = 1_790_000_000_000;

pub struct World {
    pub state: State,
    pub store: Store,
    pub folder: TempDir,
    pub now_ms: u64,
    /// Applied, not yet stored.
    pub unstored: Vec<Changes>,
    /// Everything that was ever applied.
    pub log: Vec<Entry>,
    pub index: u64,
    pub membership: Option<Vec<u8>>,
    next_job: u64,
    pub strategy: Strategy,
    /// Further rules of the next job.
    pub rules: fn(&mut JobSpec),
    pub namespace: &'static str,
    pub slots: u32,
    pub quotas: Quotas,
}

pub fn task(backend: &str, action: &str) -> Task {
    let decl = builtin().iter().find(|b| b.name == backend).unwrap().action(action).unwrap();
    Task {
        backend: backend.to_owned(),
        action: action.to_owned(),
        params: BTreeMap::new(),
        condition: Condition::Always,
        max_retries: 0,
        timeout: None,
        timeout_ms: 300_000,
        effect: decl.effect,
    }
}

pub fn leaf(backend: &str, action: &str) -> Phase {
    Phase::leaf(task(backend, action))
}

pub fn retrying(max_retries: u32) -> Phase {
    Phase::leaf(Task { max_retries, ..task("test", "fail") })
}

pub fn pipeline(tasks: Vec<Task>) -> Phase {
    Phase::pipeline(tasks)
}

impl World {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let (store, stored) = Store::open(&folder.path().join("grid.db")).unwrap();
        assert_eq!(stored, Stored::default());
        let mut world = Self {
            state: State::default(),
            store,
            folder,
            now_ms: 0,
            unstored: Vec::new(),
            log: Vec::new(),
            index: 0,
            membership: None,
            next_job: 100,
            strategy: Strategy::FailFast,
            rules: |_| (),
            namespace: "default",
            slots: 4,
            quotas: Quotas::default(),
        };
        world.begin_term(5);
        world
    }

    /// `node-1` …, with every built-in backend.
    pub fn with_nodes(count: u32) -> Self {
        let mut world = Self::new();
        world.add_nodes(count);
        world
    }

    pub fn add_nodes(&mut self, count: u32) {
        let first = self.state.meta.next_ord + 1;
        let commands: Vec<_> =
            (first..first + count).map(|i| self.register_command(&format!("node-{i}"), "journal", 1, true)).collect();
        for chunk in commands.chunks(512) {
            assert!(self.apply(chunk.to_vec()).replies.iter().all(Result::is_ok));
        }
        self.store();
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("grid.db")
    }

    pub fn reader(&self) -> Reader {
        self.store.reader()
    }

    pub fn apply(&mut self, commands: Vec<Command>) -> Applied {
        let term = self.state.meta.leadership.term;
        self.apply_in(term, commands)
    }

    fn apply_in(&mut self, term: u64, commands: Vec<Command>) -> Applied {
        let head = EntryHead {
            epoch: self.state.meta.leadership.epoch,
            term,
            now_ms: self.now_ms,
            wall_ms: WALL_MS + self.now_ms,
            commands: u32::try_from(commands.len()).unwrap(),
        };
        let entry = Entry { head, commands };
        let mut applied = apply(&mut self.state, &entry);
        self.log.push(entry);
        self.index += 1;
        self.unstored.push(std::mem::take(&mut applied.changes));
        applied
    }

    pub fn one(&mut self, command: Command) -> Result<Reply, Rejection> {
        self.apply(vec![command]).replies.remove(0)
    }

    pub fn position(&self) -> Position {
        Position { term: self.state.meta.leadership.term, index: self.index }
    }

    /// Everything applied since the last time, as one batch.
    pub fn store(&mut self) {
        let changes = std::mem::take(&mut self.unstored);
        self.store.persist(&self.state, &changes, self.position(), self.membership.as_deref()).unwrap();
        self.fresh_rows_are_the_stored_ones();
    }

    /// What is answered to a submit from memory is what a reader finds.
    fn fresh_rows_are_the_stored_ones(&self) {
        for id in self.state.jobs.keys() {
            if let Some(fresh) = grid_store::fresh_job(&self.state, &named(self.namespace, *id)) {
                assert_eq!(self.reader().job(&named(self.namespace, *id)).unwrap(), Some(fresh));
            }
        }
    }

    pub fn begin_term(&mut self, term: u64) {
        self.begin_restored(term, None);
    }

    /// As a controller does: entries of two terms are never one batch.
    pub fn begin_restored(&mut self, term: u64, restored: Option<RestoredFrom>) {
        if !self.unstored.is_empty() {
            self.store();
        }
        let begin = Command::BeginTerm(BeginTerm {
            term,
            leader: format!("c{term}").parse().unwrap(),
            api_url: "http://127.0.0.1:1".to_owned(),
            grpc_addr: "127.0.0.1:2".to_owned(),
            quotas: self.quotas,
            cluster_id: "cluster".to_owned(),
            restored,
            feature_level: grid_core::FEATURE_LEVEL,
        });
        assert!(self.apply_in(term, vec![begin]).replies[0].is_ok());
    }

    pub fn register_command(&self, id: &str, journal: &str, boot: u64, all_backends: bool) -> Command {
        let backends = builtin().iter().filter(|b| all_backends || b.name == "ping").map(|b| {
            let actions = b.actions.iter().map(|a| a.name.to_owned()).collect();
            (b.name.to_owned(), actions)
        });
        Command::RegisterNode(RegisterNode {
            id: id.parse().unwrap(),
            facts: NodeFacts {
                hostname: format!("{id}.example"),
                groups: ["web".parse().unwrap()].into(),
                labels: [("rack".to_owned(), "r1".to_owned())].into(),
                backends: backends.collect(),
                capacity: Capacity { slots: self.slots, ..Capacity::default() },
                ..NodeFacts::default()
            },
            journal_id: format!("{journal}-{id}").into_bytes(),
            boot,
            nonce: boot.to_le_bytes().to_vec(),
            known_session_lives: false,
            agent: false,
            outstanding: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        })
    }

    pub fn try_submit(&mut self, target: &str, phases: Vec<Phase>, key: Option<String>) -> Result<Reply, Rejection> {
        self.next_job += 1;
        let mut spec = JobSpec { strategy: self.strategy, ..JobSpec::new(target.parse().unwrap(), phases) };
        (self.rules)(&mut spec);
        let namespace = self.namespace.parse().unwrap();
        self.one(Command::SubmitJob(SubmitJob {
            id: JobId(self.next_job),
            namespace,
            spec,
            key,
            plan: None,
            request: RequestHash::default(),
        }))
    }

    pub fn submit(&mut self, target: &str, phases: Vec<Phase>) -> JobId {
        match self.try_submit(target, phases, None) {
            Ok(Reply::Submitted { job, .. }) => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn cancel(&mut self, job: JobId) -> Result<Reply, Rejection> {
        self.one(Command::CancelJob(CancelJob { namespace: self.namespace.parse().unwrap(), job }))
    }

    /// Leases that are out: first those that count, then those that were revoked.
    pub fn leases(&self) -> (Vec<Lease>, Vec<Lease>) {
        let (mut offered, mut revoked) = (Vec::new(), Vec::new());
        for effect in pending_effects(&self.state) {
            match effect {
                Effect::Offer(offer) => offered.push((offer.node, offer.lease)),
                Effect::Revoke { node, lease } => revoked.push((node, lease)),
                Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => {}
            }
        }
        (offered, revoked)
    }

    pub fn offered(&self) -> Vec<Lease> {
        self.leases().0
    }

    pub fn result_command(&self, (node, lease): Lease, outcome: Outcome, output: &[u8]) -> Command {
        Command::RecordResult(RecordResult {
            node,
            session: self.state.nodes[&node].session,
            lease,
            outcome,
            error: outcome.is_failure().then(|| format!("boom {}", lease.attempt)),
            output_tail: output.to_vec(),
            output_bytes: u64::try_from(output.len()).unwrap(),
            output_truncated: false,
            detail: None,
            duration_ms: 2_345,
            started_wall_ms: WALL_MS + self.now_ms,
        })
    }

    pub fn report_with(&mut self, lease: Lease, outcome: Outcome, output: &[u8]) {
        self.one(self.result_command(lease, outcome, output)).unwrap();
    }

    pub fn report(&mut self, lease: Lease, outcome: Outcome) {
        self.report_with(lease, outcome, b"out\n");
    }

    pub fn confirm_command(&self, (node, lease): Lease, ended: Option<Outcome>) -> Command {
        Command::ConfirmRevoke(ConfirmRevoke {
            node,
            session: self.state.nodes[&node].session,
            lease,
            error: None,
            ended,
            duration_ms: 10,
            started_wall_ms: if ended.is_some() { WALL_MS } else { 0 },
            output_tail: Vec::new(),
            output_bytes: 0,
        })
    }

    pub fn expire(&mut self, (node, lease): Lease) {
        self.one(Command::ExpireLease(ExpireLease { node, lease, begun: false })).unwrap();
    }

    pub fn mark_command(&self, node: NodeOrd, to: NodeStatus) -> Command {
        let known = &self.state.nodes[&node];
        let (session, from) = (known.session, known.status);
        Command::MarkNode(MarkNode { node, session, from, to, cause: None })
    }

    pub fn advance_ms(&mut self, ms: u64) {
        self.now_ms += ms;
        self.one(Command::FireTimers(FireTimers {})).unwrap();
    }

    /// Opens what lies on the disk now, as after a `kill -9`.
    pub fn as_killed(&self) -> (TempDir, Store, Stored) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("grid.db");
        copy_files(&self.path(), &path);
        let (store, stored) = Store::open(&path).unwrap();
        (folder, store, stored)
    }

    /// The newest output of step 0 on a node.
    pub fn output(&self, job: JobId, node: &str) -> Option<StoredOutput> {
        let filter = LogFilter { nodes: vec![node.to_owned()], ..LogFilter::default() };
        let (rows, _) = self.reader().log_page(&named(self.namespace, job), &filter, None, 10).unwrap().unwrap();
        let row = rows.into_iter().find(|row| row.lease.step.0 == 0)?;
        self.reader().stored_output(&row.lease, row.node).unwrap()
    }

    pub fn job(&self, job: JobId) -> JobRow {
        self.reader().job(&named(self.namespace, job)).unwrap().unwrap()
    }

    /// One row of a stored job.
    pub fn row(&self, job: JobId, step: u32, node: &str) -> StepResult {
        result(&self.job(job), step, node).clone()
    }

    /// Every row of a job, page by page.
    pub fn all_rows(&self, job: JobId, limit: u32, step: Option<u32>, status: Option<Outcome>) -> Vec<ResultRow> {
        all_rows(&self.reader(), &named(self.namespace, job), limit, step, status)
    }
}

/// One of the results that a row of a job contains.
pub fn result<'a>(job: &'a JobRow, step: u32, node: &str) -> &'a StepResult {
    let mut rows = job.results.as_ref().unwrap().iter();
    &rows.find(|row| row.step == step && row.node == node).unwrap().result
}

/// The reason that is recorded with a result, as text.
pub fn reason(result: &StepResult) -> Option<String> {
    match result.note.as_ref()? {
        Note::Reason(reason) => Some(reason.text(JobId(1))),
        other => panic!("{other:?}"),
    }
}

/// The job as callers of a namespace name it.
pub fn named(namespace: &str, id: JobId) -> JobRef {
    JobRef { namespace: namespace.parse().unwrap(), id }
}

pub fn all_rows(
    reader: &Reader,
    job: &JobRef,
    limit: u32,
    step: Option<u32>,
    status: Option<Outcome>,
) -> Vec<ResultRow> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = reader
            .results(job, limit, after, ResultFilter { step, status, ..ResultFilter::default() })
            .unwrap()
            .unwrap();
        assert!(page.items.len() <= limit as usize);
        assert!(page.next.is_none() || page.items.len() == limit as usize, "a page before the last is full");
        rows.extend(page.items);
        if page.next.is_none() {
            return rows;
        }
        after = page.next;
    }
}

/// The database before its WAL: what a checkpoint moves meanwhile is then in both.
pub fn copy_files(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    let wal = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
    if wal(from).exists() {
        std::fs::copy(wal(from), wal(to)).unwrap();
    }
}
