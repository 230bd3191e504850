//! A running controller: opens the data folder, starts its parts, and answers the API.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use grid_core::{CancelJob, Command, Rejection, Reply, State, SubmitJob};
use grid_plan::{Backstop, Liveness};
use grid_proto::v1;
use grid_raft::{LogPosition, MachinePosition, Raft, Start};
use grid_store::{Reader, Store, StoreError};
use grid_types::api::{CancelDoc, JobDoc, ListDoc, NodeDoc, OutputGroupDoc, ResultRowDoc, Role, RoleDoc, StatusDoc};
use grid_types::clock::Clock;
use grid_types::job::JobSpec;
use grid_types::{Code, Faults, JobId, LeaseKey, Name, NodeId, StepIndex};
use tokio::sync::{Notify, mpsc, watch};

use crate::control::{Control, JobQuery, Output, Refusal, ResultQuery, Submitted};
use crate::hub::FabricHub;
use crate::machine::{ControllerMachine, Replies};
use crate::output_desk::OutputDesk;
use crate::proposer::{NoReply, Proposer};
use crate::shared::{Settings, Shared, Soft};
use crate::{dispatch, leader, log_size, ticker};

/// Where and how to start.
pub struct Opening {
    pub settings: Settings,
    pub data_dir: PathBuf,
    /// As peers reach this member.
    pub raft_addr: String,
    pub bootstrap: bool,
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{}: cannot be made", .path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stored state contradicts itself: {0}; restore a backup into an empty folder")]
    Contradiction(String),
    #[error(transparent)]
    Raft(#[from] grid_raft::OpenError),
}

/// A handle to a running controller; clones share it.
#[derive(Clone)]
pub struct Controller {
    shared: Arc<Shared>,
    raft: Raft<Replies>,
    last_job: Arc<Mutex<Option<JobId>>>,
}

impl Controller {
    pub async fn open(opening: Opening) -> Result<Self, OpenError> {
        let dir = &opening.data_dir;
        std::fs::create_dir_all(dir).map_err(|source| OpenError::Folder { path: dir.clone(), source })?;
        let (store, stored) = Store::open(&dir.join("state.sqlite"))?;
        let reader = store.reader();
        let state = State::from_parts(stored.parts).map_err(OpenError::Contradiction)?;
        let state = Arc::new(RwLock::new(state));
        let (effects, effects_out) = mpsc::unbounded_channel();
        let position = MachinePosition {
            applied: stored.applied.map(|at| LogPosition { term: at.term, index: at.index }),
            membership: stored.membership,
        };
        let machine = ControllerMachine::new(Arc::clone(&state), store, position, effects);
        let raft_id = raft_id(&opening.settings.node_id);
        let mut config = grid_raft::Config::new(raft_id, opening.raft_addr, dir.join("raft"));
        // Nobody else could need them.
        config.keep_entries = 0;
        let start = if opening.bootstrap { Start::Bootstrap } else { Start::Existing };
        let raft = Raft::open(config, start, machine).await?;

        let (term, term_out) = watch::channel(None);
        let proposer = Proposer::start(raft.clone(), term_out.clone());
        let soft = Soft { liveness: Liveness::new(opening.settings.thresholds), backstop: Backstop::default() };
        let role = RoleDoc {
            node_id: opening.settings.node_id.to_string(),
            role: Role::Standby,
            leader_epoch: None,
            leader_id: None,
            leader_url: None,
            leader_grpc: None,
        };
        let shared = Arc::new(Shared {
            settings: opening.settings,
            clock: opening.clock,
            state,
            reader,
            proposer,
            term: term_out,
            role: Mutex::new(role),
            sessions: Mutex::default(),
            soft: Mutex::new(soft),
            output_desk: OutputDesk::default(),
        });
        shared.publish_role(false);
        let deposed = Arc::new(Notify::new());
        tokio::spawn(dispatch::dispatch(Arc::clone(&shared), effects_out, Arc::clone(&deposed)));
        tokio::spawn(leader::follow(Arc::clone(&shared), raft.clone(), term, deposed));
        tokio::spawn(ticker::tick(Arc::clone(&shared)));
        tokio::spawn(log_size::keep_short(raft.clone()));
        Ok(Self { shared, raft, last_job: Arc::default() })
    }

    /// What the fabric asks.
    #[must_use]
    pub fn hub(&self) -> FabricHub {
        FabricHub::new(Arc::clone(&self.shared))
    }

    /// Resolves when this controller leads.
    pub async fn leads(&self) {
        let mut term = self.shared.term.clone();
        // An ended channel means that the member has stopped; `stopped` says why.
        let _ = term.wait_for(Option::is_some).await;
    }

    /// Resolves with the reason when the log or the store can go on no more; the process must end (L2).
    pub async fn stopped(&self) -> String {
        self.raft.stopped().await
    }

    pub async fn shutdown(&self) {
        self.shared.sessions().end_all(grid_fabric::closing::SHUTDOWN);
        self.raft.shutdown().await;
    }

    /// L7: for comparing replicas.
    #[must_use]
    pub fn state_hash(&self) -> [u8; 32] {
        self.shared.state().hash()
    }

    fn mint_job_id(&self) -> Result<JobId, Refusal> {
        let mut random = [0u8; 4];
        let no_randomness = |e| Refusal::new(Code::Internal, format!("no randomness: {e}"));
        getrandom::fill(&mut random).map_err(no_randomness)?;
        let newest = {
            let state = self.shared.state();
            let live = state.jobs.last_key_value().map(|(id, _)| *id);
            let ended = state.stubs.last_key_value().map(|(id, _)| *id);
            live.max(ended)
        };
        let mut last = self.last_job.lock().unwrap_or_else(PoisonError::into_inner);
        let id = JobId::mint(self.shared.clock.wall_ms(), u32::from_le_bytes(random), newest.max(*last));
        *last = Some(id);
        Ok(id)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let reader = self.shared.reader.clone();
        let read = tokio::task::spawn_blocking(move || query(&reader)).await;
        let failed = |e: &dyn std::fmt::Display| Refusal::new(Code::Internal, format!("cannot read the state: {e}"));
        read.map_err(|e| failed(&e))?.map_err(|e| failed(&e))
    }

    async fn whole_output(&self, node: &NodeId, lease: LeaseKey) -> Result<Vec<u8>, String> {
        let ord = self.shared.state().node_by_id(node).map(|node| node.ord).ok_or("its node is not known any more")?;
        let ask = |request| {
            let message = v1::ToWorker { log_request: Some(request), ..v1::ToWorker::default() };
            self.shared.sessions().of_node(ord).is_some_and(|session| session.send(message))
        };
        self.shared.output_desk.fetch(lease, ask).await
    }

    fn freshen(&self, mut doc: NodeDoc) -> NodeDoc {
        let heard = self.shared.sessions().heard_wall_ms(grid_types::NodeOrd(doc.ordinal));
        if let Some(heard) = heard {
            doc.last_seen = doc.last_seen.max(grid_store::time_text(heard));
        }
        doc
    }
}

/// Stable for a node id, so that a folder tells whose it is.
fn raft_id(node: &Name) -> u64 {
    let hash = node
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash >> 1 | 1
}

fn refused(no_reply: NoReply) -> Refusal {
    let rejection = match no_reply {
        NoReply::NotLeader => return Refusal::new(Code::NotLeader, no_reply.to_string()),
        NoReply::TooLarge(why) => return Refusal::new(Code::TooLarge, why),
        NoReply::OutcomeUnknown(why) => return Refusal::new(Code::OutcomeUnknown, why),
        NoReply::Rejected(rejection) => rejection,
    };
    let message = rejection.to_string();
    let on_field = |field: &str| {
        let mut faults = Faults::default();
        faults.add(field, message.clone());
        Refusal::invalid(faults)
    };
    match rejection {
        Rejection::NoTarget(_) => on_field("target"),
        Rejection::TooLarge(_) => on_field("tasks"),
        Rejection::QueueFull { .. } => Refusal::new(Code::QueueFull, message),
        Rejection::NoJob(_) | Rejection::NoNode(_) => Refusal::new(Code::NotFound, message),
        Rejection::StaleLeader { .. } => Refusal::new(Code::NotLeader, message),
        Rejection::DuplicateNode(_) => Refusal::new(Code::DuplicateNode, message),
        Rejection::IdTaken(_) => Refusal::new(Code::OutcomeUnknown, message),
        Rejection::Ended { .. } | Rejection::StaleSession { .. } | Rejection::StatusMoved { .. } => {
            Refusal::new(Code::Conflict, message)
        }
    }
}

fn no_job(job: JobId) -> Refusal {
    Refusal::new(Code::NotFound, format!("{job} is not known"))
}

impl Control for Controller {
    fn role(&self) -> RoleDoc {
        self.shared.role()
    }

    fn is_ready(&self) -> bool {
        self.raft.leadership().borrow().leader.is_some() && self.shared.role().leader_epoch.is_some()
    }

    async fn submit(&self, namespace: &str, spec: JobSpec, key: Option<String>) -> Result<Submitted, Refusal> {
        let namespace: Name = namespace.parse().map_err(|e| Refusal::new(Code::NotFound, format!("namespace {e}")))?;
        let command = SubmitJob { id: self.mint_job_id()?, namespace: namespace.clone(), spec, key };
        let reply = self.shared.proposer.propose(&Command::SubmitJob(command)).await.map_err(refused)?;
        let Reply::Submitted { job, repeated } = reply else {
            return Err(Refusal::new(Code::Internal, "unexpected reply to a submit"));
        };
        Ok(Submitted { job: self.job(namespace.as_str(), job).await?, repeated })
    }

    async fn cancel(&self, namespace: &str, job: JobId) -> Result<CancelDoc, Refusal> {
        let namespace: Name = namespace.parse().map_err(|_| no_job(job))?;
        let command = Command::CancelJob(CancelJob { namespace, job });
        match self.shared.proposer.propose(&command).await.map_err(refused)? {
            Reply::Cancelled { job, status } => Ok(CancelDoc { id: job.to_string(), status }),
            _ => Err(Refusal::new(Code::Internal, "unexpected reply to a cancel")),
        }
    }

    async fn job(&self, namespace: &str, job: JobId) -> Result<JobDoc, Refusal> {
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.job(&namespace, job)).await?.ok_or_else(|| no_job(job))
    }

    async fn jobs(&self, namespace: &str, query: JobQuery) -> Result<ListDoc<JobDoc>, Refusal> {
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.jobs(&namespace, query.limit, query.before, query.status)).await
    }

    async fn results(&self, namespace: &str, job: JobId, query: ResultQuery) -> Result<ListDoc<ResultRowDoc>, Refusal> {
        let namespace = namespace.to_owned();
        let ResultQuery { limit, after, step, status } = query;
        let found = self.read(move |reader| reader.results(&namespace, job, limit, after, step, status)).await?;
        found.ok_or_else(|| no_job(job))
    }

    async fn output(&self, namespace: &str, job: JobId, step: StepIndex, node: NodeId) -> Result<Output, Refusal> {
        let namespace = namespace.to_owned();
        let asked = node.clone();
        let stored = self.read(move |reader| reader.output(&namespace, job, step, &asked)).await?;
        let none = || Refusal::new(Code::NotFound, format!("{job} has no output of step {step} on {node}"));
        let stored = stored.ok_or_else(none)?;
        let kept = u64::try_from(stored.tail.len()).unwrap_or(u64::MAX);
        if stored.total_bytes > kept {
            match self.whole_output(&node, stored.lease).await {
                Ok(whole) => return Ok(Output { tail: whole, total_bytes: stored.total_bytes }),
                Err(why) => tracing::debug!(%node, lease = %stored.lease, "only the end of the output: {why}"),
            }
        }
        Ok(Output { tail: stored.tail, total_bytes: stored.total_bytes })
    }

    async fn outputs(&self, namespace: &str, job: JobId, step: StepIndex) -> Result<Vec<OutputGroupDoc>, Refusal> {
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.outputs(&namespace, job, step)).await?.ok_or_else(|| no_job(job))
    }

    async fn nodes(&self, limit: u32, after: Option<NodeId>) -> Result<ListDoc<NodeDoc>, Refusal> {
        let list = self.read(move |reader| reader.nodes(limit, after.as_ref())).await?;
        Ok(ListDoc { items: list.items.into_iter().map(|doc| self.freshen(doc)).collect(), next: list.next })
    }

    async fn node(&self, node: NodeId) -> Result<NodeDoc, Refusal> {
        let none = format!("node {node} is not known");
        let found = self.read(move |reader| reader.node(&node)).await?;
        found.map(|doc| self.freshen(doc)).ok_or_else(|| Refusal::new(Code::NotFound, none))
    }

    async fn status(&self) -> Result<StatusDoc, Refusal> {
        let totals = self.read(Reader::totals).await?;
        Ok(StatusDoc {
            cluster_id: self.shared.state().meta.cluster_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.shared.role(),
            nodes: totals.nodes,
            jobs: totals.jobs,
            applied_index: totals.applied_index,
        })
    }
}
