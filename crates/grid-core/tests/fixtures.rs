//! Entries that earlier versions wrote: they are read, and give the state that they gave then (L2, I13).
//!
//! `fixtures/v<LEVEL>/entries` has a log with commands of every kind that the level knows, `state-hash` the state after it. They are
//! written once, by `cargo xtask fixtures`, for a level that has none yet, and never again: what an old version wrote
//! does not change. A change that adds a command raises the feature level and writes the next folder. Entries of a level
//! below `OLDEST_LEVEL` are only decoded. Until the folder of the newest level is written, its test is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use grid_core::{
    BeginLease, BeginTerm, CancelJob, Command, ConfirmJob, ConfirmRevoke, DrainNode, Entry, EntryHead, ExpireLease,
    FEATURE_LEVEL, Fenced, FireTimers, HandOut, JournalOfJob, LAST_COMMAND, LeaveNode, MarkNode, OLDEST_LEVEL,
    OrderDrain, PruneHistory, Quotas, RaiseFeatureLevel, ReclaimNodes, RecordResult, RegisterNode, RemoveNode,
    ReportJournal, ReportSnapshots, RequestHash, ResolveStep, RestoredFrom, ResumeJob, Shown, State, SubmitJob,
    Supersede, Verdict, apply, command_number, decode_entry, encode_command, encode_entry, violations,
};
use grid_types::node::{Capacity, NodeFacts, NodeStatus};
use grid_types::{JobEpoch, JobId, LeaseKey, Name, NodeCause, NodeOrd, Outcome, SessionId, StepIndex};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The log of a version: each entry as its length and its bytes.
fn payloads(folder: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(folder.join("entries")).unwrap();
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let (payload, next) = after.split_at(usize::try_from(u32::from_be_bytes(*len)).unwrap());
        found.push(payload.to_vec());
        rest = next;
    }
    found
}

fn hash_of(state: &State) -> String {
    state.hash().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn l2_the_entries_of_every_version_are_read_and_give_the_state_that_they_gave() {
    if std::env::var_os("GRID_FIXTURES").is_some_and(|word| word == "write") {
        write(&root().join(format!("v{FEATURE_LEVEL}")));
    }
    let mut numbers = BTreeSet::new();
    for level in 1..=FEATURE_LEVEL {
        let folder = root().join(format!("v{level}"));
        if level == FEATURE_LEVEL && !folder.join("entries").exists() {
            eprintln!("skipped: run `cargo xtask fixtures` to write {}", folder.display());
            return;
        }
        let mut state = State::default();
        for payload in payloads(&folder) {
            let entry: Entry = decode_entry(&payload).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
            numbers.extend(entry.commands.iter().filter_map(|command| command_number(&encode_command(command))));
            if level < OLDEST_LEVEL {
                continue;
            }
            apply(&mut state, &entry);
            assert_eq!(violations(&state), Vec::<String>::new());
        }
        if level >= OLDEST_LEVEL {
            let recorded = fs::read_to_string(folder.join("state-hash")).unwrap();
            assert_eq!(hash_of(&state), recorded.trim(), "{}", folder.display());
        }
    }
    let missing: Vec<u32> = (0..=LAST_COMMAND).filter(|number| !numbers.contains(number)).collect();
    assert_eq!(
        missing,
        Vec::<u32>::new(),
        "commands without a fixture: raise FEATURE_LEVEL and run `cargo xtask fixtures`"
    );
}

/// Nothing that is there is touched.
fn write(folder: &Path) {
    if folder.join("entries").exists() {
        return;
    }
    fs::create_dir_all(folder).unwrap();
    let mut log = Log::default();
    log.live();
    assert!(log.refused <= 2, "most of a fixture should take effect: {} refused", log.refused);
    fs::write(folder.join("entries"), &log.bytes).unwrap();
    fs::write(folder.join("state-hash"), hash_of(&log.state) + "\n").unwrap();
}

#[derive(Default)]
struct Log {
    state: State,
    bytes: Vec<u8>,
    refused: usize,
    now_ms: u64,
}

impl Log {
    fn put(&mut self, command: &Command) {
        self.now_ms += 1_000;
        let leadership = &self.state.meta.leadership;
        let term = if let Command::BeginTerm(begin) = command { begin.term } else { leadership.term };
        let wall_ms = 1_790_000_000_000 + self.now_ms;
        let head = EntryHead { epoch: leadership.epoch, term, now_ms: self.now_ms, wall_ms, commands: 1 };
        let payload = encode_entry(head, [&encode_command(command)]);
        self.bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        self.bytes.extend(&payload);
        let applied = apply(&mut self.state, &decode_entry(&payload).unwrap());
        self.refused += applied.replies.iter().filter(|reply| reply.is_err()).count();
    }

    fn begin(&mut self, term: u64, restored: Option<RestoredFrom>) {
        self.put(&Command::BeginTerm(BeginTerm {
            term,
            leader: name("c1"),
            api_url: "http://10.0.0.1:8765".to_owned(),
            grpc_addr: "10.0.0.1:8767".to_owned(),
            quotas: Quotas::default(),
            cluster_id: "fixture".to_owned(),
            restored,
            feature_level: FEATURE_LEVEL,
        }));
    }

    fn register(&mut self, id: &str, agent: bool) {
        let actions = ["record", "sleep", "fail"].map(str::to_owned).into();
        let facts = NodeFacts {
            hostname: format!("{id}.lan"),
            groups: [name("web")].into(),
            labels: [("rack".to_owned(), "r7".to_owned())].into(),
            backends: [("test".to_owned(), actions)].into(),
            capacity: Capacity { slots: 4, ..Capacity::default() },
            ..NodeFacts::default()
        };
        let (id, journal_id) = (id.parse().unwrap(), id.as_bytes().to_vec());
        let nonce = b"nonce".to_vec();
        self.put(&Command::RegisterNode(RegisterNode {
            id,
            facts,
            journal_id,
            boot: 1,
            nonce,
            known_session_lives: false,
            agent,
            outstanding: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        }));
    }

    fn submit(&mut self, id: u64, more: &Value) {
        let step = json!({"backend": "test", "action": "record", "params": {"path": "/tmp/lines"}, "max_retries": 1});
        let mut body = json!({"target": "all", "tasks": [step, {"tasks": [step, step]}], "strategy": "continue"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec = grid_types::job::parse_job(&body).unwrap();
        let key = Some(format!("key-{id}"));
        self.put(&Command::SubmitJob(SubmitJob {
            id: JobId(id),
            namespace: name("default"),
            spec,
            key,
            plan: None,
            request: RequestHash::default(),
        }));
    }

    fn lease(&self, job: u64, node: u32) -> (NodeOrd, SessionId, LeaseKey) {
        let ord = NodeOrd(node);
        (ord, self.state.nodes[&ord].session, self.state.jobs[&JobId(job)].lease_at(ord).unwrap().0)
    }

    fn report(&mut self, job: u64, node: u32, outcome: Outcome) {
        let (node, session, lease) = self.lease(job, node);
        self.put(&Command::RecordResult(RecordResult {
            node,
            session,
            lease,
            outcome,
            error: (outcome != Outcome::Success).then(|| "exit code 3".to_owned()),
            output_tail: b"some output".to_vec(),
            output_bytes: 11,
            output_truncated: false,
            detail: None,
            duration_ms: 7,
            started_wall_ms: 1_790_000_000_500,
        }));
    }

    /// A cluster with two workers and an agent, jobs in every state, and a restore at the end.
    fn live(&mut self) {
        let namespace = name("default");
        self.begin(1, None);
        self.put(&Command::RaiseFeatureLevel(RaiseFeatureLevel { level: FEATURE_LEVEL }));
        self.register("n1", false);
        self.register("n2", false);
        self.register("n3", true);
        self.submit(1, &json!({}));
        let (node, session, lease) = self.lease(1, 3);
        self.put(&Command::HandOut(HandOut { node, session, leases: vec![lease], returned: false }));
        self.report(1, 3, Outcome::Success);
        let (node, session, lease) = self.lease(1, 1);
        self.put(&Command::BeginLease(BeginLease { node, session, lease }));
        self.report(1, 1, Outcome::Success);
        self.report(1, 2, Outcome::Failed);
        self.now_ms += 60_000;
        self.put(&Command::FireTimers(FireTimers {}));
        let (epoch, command) = (self.state.meta.leadership.epoch.wire(), Box::new(Command::FireTimers(FireTimers {})));
        self.put(&Command::Fenced(Fenced { epoch, command }));
        self.submit(2, &json!({}));
        let (node, session, lease) = self.lease(2, 1);
        self.put(&Command::CancelJob(CancelJob { namespace: namespace.clone(), job: JobId(2) }));
        self.put(&Command::ConfirmRevoke(ConfirmRevoke {
            node,
            session,
            lease,
            ended: None,
            error: None,
            duration_ms: 3,
            started_wall_ms: 1_790_000_000_600,
            output_tail: Vec::new(),
            output_bytes: 0,
        }));
        self.submit(3, &json!({"on_unknown": "wait", "target": "node:n1"}));
        let (node, _, lease) = self.lease(3, 1);
        self.put(&Command::ExpireLease(ExpireLease { node, lease, begun: false }));
        self.put(&Command::ResolveStep(ResolveStep {
            namespace: namespace.clone(),
            job: JobId(3),
            step: StepIndex(0),
            node: "n1".parse().unwrap(),
            verdict: Verdict::Success,
        }));
        let gated = json!({"tasks": [{"backend": "test", "action": "fail", "confirm": true}], "target": "node:n1"});
        self.submit(4, &gated);
        let confirm =
            ConfirmJob { namespace: namespace.clone(), job: JobId(4), phase: None, held: None, rerun_once: false };
        self.put(&Command::ConfirmJob(confirm));
        let spec = self.state.jobs[&JobId(4)].spec.clone();
        self.report(4, 1, Outcome::Failed);
        let (expected, done) = (vec![NodeOrd(1)], BTreeMap::new());
        let (job, epoch, created_wall_ms) = (JobId(4), JobEpoch(1), 1_790_000_000_000);
        let resume = ResumeJob {
            namespace,
            job,
            epoch,
            spec: (*spec).clone(),
            expected,
            done,
            created_wall_ms,
            only: None,
            restored: None,
            run: 1,
            complete_journals: None,
            unchanged: BTreeMap::new(),
            changed: BTreeMap::new(),
        };
        self.put(&Command::ResumeJob(resume));
        let session = self.state.nodes[&NodeOrd(2)].session;
        let (from, to) = (NodeStatus::Ready, NodeStatus::Warning);
        let cause = Some(NodeCause::Silent { silent_ms: 15_000, mass: false });
        self.put(&Command::MarkNode(MarkNode { node: NodeOrd(2), session, from, to, cause }));
        self.put(&Command::OrderDrain(OrderDrain { node: NodeOrd(2), drain: true }));
        self.put(&Command::DrainNode(DrainNode { node: NodeOrd(2), session }));
        self.put(&Command::LeaveNode(LeaveNode { node: NodeOrd(2), session, nothing_outstanding: false }));
        self.put(&Command::RemoveNode(RemoveNode { node: NodeOrd(2), force: true, lapsed: false }));
        let tombstone = (NodeOrd(2), self.state.nodes[&NodeOrd(2)].session);
        self.put(&Command::ReclaimNodes(ReclaimNodes { nodes: vec![tombstone] }));
        self.put(&Command::PruneHistory(PruneHistory {
            ended_before_ms: u64::MAX,
            jobs: vec![JobId(2)],
            events_before_ms: 5,
        }));
        self.begin(2, Some(RestoredFrom { generation: 1, backup: "2026-10-01T00:00:00Z".to_owned() }));
        self.after_restore();
    }
}

impl Log {
    /// A worker answers for its journal (E2), and the restored cluster is itself superseded.
    fn after_restore(&mut self) {
        self.register("n1", false);
        let (node, lease) = (NodeOrd(1), LeaseKey { job: JobId(4), job_epoch: JobEpoch(2), ..LeaseKey::FIRST });
        self.put(&Command::ReportJournal(ReportJournal {
            node,
            session: self.state.nodes[&node].session,
            dropped_to: JobId(1),
            newest: JobId(9),
            jobs: vec![JournalOfJob { job: JobId(4), forgotten: Some(JobEpoch(1)), leases: vec![(lease, None)] }],
            is_last: true,
        }));
        let shown = Some(Shown { generation: 2, by: Some("worker n1".to_owned()), n: None });
        self.put(&Command::Supersede(Supersede { shown }));
        self.put(&Command::Supersede(Supersede { shown: None }));
        let failing = |problem| ReportSnapshots { controller: name("c1"), problem };
        self.put(&Command::ReportSnapshots(failing(Some("no space left on device".to_owned()))));
        self.put(&Command::ReportSnapshots(failing(None)));
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}
