//! A controller's folder with a life behind it, and what was acknowledged in it: for tests of what becomes of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grid_core::{
    Command, Effect, Offer, Quotas, RecordResult, RegisterNode, RequestHash, Stub, SubmitJob, pending_effects,
};
use grid_plan::Thresholds;
use grid_raft::Start;
use grid_store::{JobRow, NodeRow, OutputGroup};
use grid_types::clock::SystemClock;
use grid_types::decl::builtin;
use grid_types::job::{Condition, JobSpec, Phase, Task};
use grid_types::node::{Capacity, NodeFacts};
use grid_types::{JobId, JobRef, Namespace, Outcome, StepIndex};
use tempfile::TempDir;

use crate::shared::Settings;
use crate::{Controller, OpenError, Opening, Pace};

pub fn opening(dir: &Path, node: &str, bootstrap: bool) -> Opening {
    Opening {
        settings: Settings {
            node_id: node.parse().unwrap(),
            api_url: "http://127.0.0.1:1".to_owned(),
            grpc_addr: "127.0.0.1:2".to_owned(),
            quotas: Quotas { max_concurrent: 50, max_pending: 50, ..Quotas::default() },
            thresholds: Thresholds { warning_ms: 3_600_000, unhealthy_ms: 3_700_000, dead_ms: 3_800_000 },
            heartbeat_ms: 5_000,
            history_ms: 30 * 24 * 3_600_000,
        },
        data_dir: dir.to_path_buf(),
        raft_addr: "127.0.0.1:3".to_owned(),
        peers: None,
        start: if bootstrap { Start::Bootstrap } else { Start::Existing },
        feature_level: crate::FEATURE_LEVEL,
        starts_paused: false,
        pace: Pace::default(),
        clock: Arc::new(SystemClock::new()),
        tasks: grid_tasks::Tasks::default(),
    }
}

pub async fn started(opening: Opening) -> Result<Controller, OpenError> {
    let controller = Controller::open(opening).await?;
    tokio::select! {
        () = controller.serves() => Ok(controller),
        why = controller.stopped() => panic!("it started and stopped again: {why}"),
    }
}

/// What the API acknowledged: it must never be less or different afterwards.
#[derive(Debug, PartialEq)]
pub struct Acknowledged {
    pub jobs: Vec<JobRow>,
    outputs: Vec<Option<Vec<OutputGroup>>>,
    nodes: Vec<NodeRow>,
    stubs: BTreeMap<JobId, Stub>,
    keys: Vec<String>,
}

impl Acknowledged {
    pub fn ended(&self) -> Vec<&JobRow> {
        self.jobs.iter().filter(|job| job.status.is_ended()).collect()
    }
}

pub fn acknowledged(controller: &Controller) -> Acknowledged {
    let reader = &controller.shared.reading.reader;
    let heads = reader.jobs(&job_ref(0).namespace, 1_000, &grid_store::JobFilter::default()).unwrap().items;
    let ids: Vec<JobId> = heads.iter().map(|head| head.id).collect();
    let state = controller.shared.state();
    Acknowledged {
        jobs: ids.iter().map(|id| reader.job(&job_ref(id.0)).unwrap().unwrap()).collect(),
        outputs: ids.iter().map(|id| reader.outputs(&job_ref(id.0), StepIndex(0)).unwrap()).collect(),
        nodes: reader.nodes(1_000, None, None).unwrap().items,
        stubs: state.stubs.clone(),
        keys: state.keys.keys().map(|(_, key)| key.clone()).collect(),
    }
}

/// The folder of `c1` as `kill -9` left it, the same closed in order, and what was acknowledged until then: ended and
/// running jobs from before, between and after two snapshots.
pub async fn lived() -> (TempDir, TempDir, Acknowledged) {
    let (closed, killed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let controller = started(opening(closed.path(), "c1", true)).await.unwrap();
    for node in ["n1", "n2", "n3"] {
        propose(&controller, register(node)).await;
    }
    for round in 0..3 {
        for n in 0..8 {
            propose(&controller, submit(JobId(round * 100 + n + 1))).await;
            if n != 5 {
                report_all(&controller).await;
            }
        }
        if round < 2 {
            controller.shared.log.raft.trigger_snapshot().await.unwrap();
        }
    }
    let before = acknowledged(&controller);
    assert!(before.jobs.len() == 24 && before.jobs.iter().any(|job| !job.status.is_ended()));
    // Nothing is under way now, so this is what a kill leaves.
    copy_all(closed.path(), killed.path());
    controller.shutdown().await;
    (killed, closed, before)
}

pub async fn propose(controller: &Controller, command: Command) {
    controller.shared.log.proposer.propose(&command).await.unwrap();
}

pub fn register(node: &str) -> Command {
    let backends = builtin().iter().map(|backend| {
        let actions = backend.actions.iter().map(|action| action.name.to_owned()).collect();
        (backend.name.to_owned(), actions)
    });
    let capacity = Capacity { slots: 4, ..Capacity::default() };
    Command::RegisterNode(RegisterNode {
        id: node.parse().unwrap(),
        facts: NodeFacts { backends: backends.collect(), capacity, ..NodeFacts::default() },
        journal_id: node.as_bytes().to_vec(),
        boot: 1,
        nonce: vec![1],
        known_session_lives: false,
        agent: false,
        outstanding: Vec::new(),
        unstarted: Vec::new(),
        secret: None,
    })
}

/// The job in the default namespace.
pub fn job_ref(id: u64) -> JobRef {
    JobRef { namespace: Namespace::DEFAULT.parse().unwrap(), id: JobId(id) }
}

/// Two steps on all nodes.
pub fn spec() -> JobSpec {
    let action =
        builtin().iter().find(|backend| backend.name == "test").and_then(|test| test.action("record")).unwrap();
    let task = Task {
        backend: "test".to_owned(),
        action: "record".to_owned(),
        params: BTreeMap::new(),
        condition: Condition::Always,
        max_retries: 0,
        timeout: None,
        timeout_ms: 300_000,
        effect: action.effect,
    };
    JobSpec::new("all".parse().unwrap(), vec![Phase::leaf(task.clone()), Phase::leaf(task)])
}

pub fn submit(id: JobId) -> Command {
    let key = Some(format!("key-{id}"));
    Command::SubmitJob(SubmitJob {
        id,
        namespace: "default".parse().unwrap(),
        spec: spec(),
        key,
        plan: None,
        request: RequestHash::default(),
    })
}

/// Settles every lease that is out, but those of one node: its jobs go on.
pub async fn report_all(controller: &Controller) {
    for result in report(controller) {
        propose(controller, result).await;
    }
}

/// The same, still to be proposed.
pub fn report(controller: &Controller) -> Vec<Command> {
    let offers: Vec<_> = pending_effects(&controller.shared.state())
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Offer(offer) if offer.node.0 != 3 || offer.lease.job.0 % 3 != 0 => Some(offer),
            _ => None,
        })
        .collect();
    let result = |offer: Offer| {
        let output = format!("output of {} on {}", offer.lease.job, offer.node.0).into_bytes();
        Command::RecordResult(RecordResult {
            node: offer.node,
            session: offer.session,
            lease: offer.lease,
            outcome: Outcome::Success,
            error: None,
            output_bytes: output.len() as u64,
            output_truncated: false,
            detail: None,
            output_tail: output,
            duration_ms: 7,
            started_wall_ms: 1_790_000_000_000,
        })
    };
    offers.into_iter().map(result).collect()
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub fn copy_all(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}
