//! What the API asks of a running controller: mutations become commands, reads are SQL off the async threads.
//!
//! A mutation answers when its command is applied and stored (L3, `proposals`); why it was refused is looked up in one table
//! (`refused`).
//! Not here: who may ask, and the shape of bodies (`grid-api`).

mod cluster;
mod plan;
mod proposals;
mod resume;
mod status;

use std::future::Future;

use grid_core::{
    CancelJob, Command, ConfirmJob, OrderDrain, Planned, RemoveNode, Reply, RequestHash, ResolveStep, SubmitJob,
    Verdict,
};
use grid_store::{Reader, ResultFilter};
use grid_types::api::{
    ClusterDoc, DoubtDoc, EventDoc, EventFilter, JobDoc, JobStateDoc, JoinBody, JoinedDoc, LeasesDoc, ListDoc, LogDoc,
    NodeDoc, NodeStateDoc, OutputGroupDoc, PlanDoc, RecordedDoc, Resolution, ResultRowDoc, RoleDoc, RunDoc, StatusDoc,
    WhyDoc,
};
use grid_types::job::JobSpec;
use grid_types::node::NodeStatus;
use grid_types::{Code, JobId, Name, NodeId, NodeOrd, SessionId, StepIndex};
use tokio::sync::mpsc;

use crate::control::{
    AgentPoll, AgentResult, Backup, Control, EventQuery, JobQuery, LogQuery, MemberChange, Output, OutputQuery,
    PlanHash, Refusal, Rerun, ResultQuery, Standing, SubmitKey, Submitted, no_job, no_node, refused,
};
use crate::controller::Controller;
use crate::leader::CloseReason;
use crate::outputs;
use plan::declarations;

/// Steps that are named to an operator; more would not be read.
const MOST_DOUBTS: usize = 1_000;

impl Controller {
    /// E2: steps of a held job that become unknown when they are reached.
    fn may_have_run(&self, job: JobId) -> Vec<DoubtDoc> {
        let state = self.shared.state();
        let Some(held) = state.jobs.get(&job).filter(|job| job.head.held.is_some()) else { return Vec::new() };
        let doubts = state.doubts(held).into_iter().take(MOST_DOUBTS);
        let doc = |doubt: grid_core::Doubt| {
            let node = state.nodes.get(&doubt.node)?.id.to_string();
            Some(DoubtDoc { step: doubt.step.0, node, awaited: doubt.is_awaited })
        };
        doubts.filter_map(doc).collect()
    }

    /// Refuses the number of an event that this cluster never recorded: nothing would come behind it for a long time. A member
    /// that lags behind the leader may not have an event yet that another one has shown, so it catches up first.
    async fn check_event(&self, after: Option<u64>) -> Result<(), Refusal> {
        let Some(after) = after else { return Ok(()) };
        if after <= self.read(Reader::newest_event).await? {
            return Ok(());
        }
        self.read_barrier().await?;
        let newest = self.read(Reader::newest_event).await?;
        if after <= newest {
            return Ok(());
        }
        let why = format!("event {after} is not of this cluster: its newest event is {newest}; ask without a number");
        Err(Refusal::new(Code::BadRequest, why))
    }

    /// Refuses a run that the job does not have (J8). Returns whether it is the newest one.
    async fn check_run(&self, namespace: &str, job: JobId, run: Option<u32>) -> Result<bool, Refusal> {
        let Some(run) = run else { return Ok(true) };
        let namespace = namespace.to_owned();
        let newest = self.read(move |reader| reader.newest_run(&namespace, job)).await?.ok_or_else(|| no_job(job))?;
        if (1..=newest).contains(&run) {
            return Ok(run == newest);
        }
        let has = if newest == 1 { "one run".to_owned() } else { format!("{newest} runs") };
        Err(Refusal::new(Code::NotFound, format!("{job} has no run {run}; it has {has}")))
    }

    fn freshen(&self, mut doc: NodeDoc) -> NodeDoc {
        let heard = self.shared.look(|leader, _| leader.heard_wall_ms(NodeOrd(doc.ordinal)));
        if let Some(heard) = heard.flatten() {
            doc.last_seen = grid_store::time_text(heard);
        }
        doc
    }

    fn known_node(&self, id: &NodeId) -> Result<(NodeOrd, SessionId), Refusal> {
        let state = self.shared.state();
        let node = state.node_by_id(id).filter(|node| node.status != NodeStatus::Removed);
        node.map(|node| (node.ord, node.session)).ok_or_else(|| no_node(id))
    }
}

impl Control for Controller {
    fn fenced(&self, epoch: u64) -> Self {
        Self { fence: Some(epoch), ..self.clone() }
    }

    fn role(&self) -> RoleDoc {
        self.shared.role()
    }

    fn standing(&self) -> Standing {
        self.shared.standing()
    }

    fn is_ready(&self) -> bool {
        let role = self.shared.role();
        role.leader_id.is_some() && role.leader_epoch.is_some()
    }

    fn is_cut_off(&self) -> bool {
        self.shared.is_cut_off()
    }

    async fn read_barrier(&self) -> Result<(), Refusal> {
        self.shared.log.raft.read_barrier().await.map_err(|e| Refusal::new(Code::NoQuorum, e.to_string()))
    }

    async fn cluster(&self) -> Result<ClusterDoc, Refusal> {
        Ok(self.cluster_doc().await)
    }

    async fn join(&self, body: JoinBody) -> Result<JoinedDoc, Refusal> {
        self.check_fence()?;
        self.admit(body).await
    }

    async fn change_member(&self, id: &str, change: MemberChange) -> Result<ClusterDoc, Refusal> {
        self.check_fence()?;
        self.change(id, change).await
    }

    async fn lift_superseded(&self) -> Result<ClusterDoc, Refusal> {
        crate::leadership::superseded::lift(&self.shared).await?;
        Ok(self.cluster_doc().await)
    }

    fn epoch_claimed(&self, epoch: u64) {
        crate::leadership::superseded::claimed(&self.shared, &self.tasks, epoch);
    }

    async fn step_down(&self, to: Option<String>) -> Result<RoleDoc, Refusal> {
        self.check_fence()?;
        self.give_up_leadership(to.as_deref()).await
    }

    async fn submit(
        &self,
        namespace: &str,
        spec: JobSpec,
        key: Option<SubmitKey>,
        plan: Option<PlanHash>,
    ) -> Result<Submitted, Refusal> {
        let namespace: Name = namespace.parse().map_err(|e| Refusal::new(Code::NotFound, format!("namespace {e}")))?;
        let plan = plan.map(|PlanHash(hash)| Planned { hash, declarations: declarations(&spec) });
        let request = key.as_ref().map(|key| RequestHash::of(key.request.as_bytes())).unwrap_or_default();
        let key = key.map(|key| key.key);
        let command = SubmitJob { id: self.mint_job_id()?, namespace: namespace.clone(), spec, key, plan, request };
        let reply = self.propose(&Command::SubmitJob(command)).await.map_err(refused)?;
        let Reply::Submitted { job, repeated } = reply else {
            return Err(Refusal::new(Code::Internal, "unexpected reply to a submit"));
        };
        let fresh = grid_store::fresh_job(&self.shared.state(), namespace.as_str(), job);
        let job = match fresh {
            Some(doc) => doc,
            None => self.job(namespace.as_str(), job, None).await?,
        };
        Ok(Submitted { job, repeated })
    }

    async fn plan(&self, _namespace: &str, spec: JobSpec) -> Result<PlanDoc, Refusal> {
        self.plan_doc(&spec)
    }

    async fn cancel(&self, namespace: &str, job: JobId) -> Result<JobStateDoc, Refusal> {
        let asked: Name = namespace.parse().map_err(|_| no_job(job))?;
        self.moved(namespace, job, Command::CancelJob(CancelJob { namespace: asked, job })).await
    }

    async fn confirm(
        &self,
        namespace: &str,
        job: JobId,
        phase: Option<u32>,
        held: bool,
        rerun_once: bool,
    ) -> Result<JobStateDoc, Refusal> {
        let asked: Name = namespace.parse().map_err(|_| no_job(job))?;
        let held = held.then_some(true);
        let may_have_run = if rerun_once { Vec::new() } else { self.may_have_run(job) };
        let command = ConfirmJob { namespace: asked, job, phase, held, rerun_once };
        let moved = self.moved(namespace, job, Command::ConfirmJob(command)).await?;
        let note = (!may_have_run.is_empty()).then(|| {
            "these once-only steps may have run after the backup and become unknown when they are reached; \
             to run such steps again, confirm with --rerun-once (rerun_once), or resume the job with it later"
                .to_owned()
        });
        Ok(JobStateDoc { note, may_have_run, ..moved })
    }

    async fn resolve(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: NodeId,
        verdict: Resolution,
    ) -> Result<JobStateDoc, Refusal> {
        let asked: Name = namespace.parse().map_err(|_| no_job(job))?;
        let verdict = match verdict {
            Resolution::Success => Verdict::Success,
            Resolution::Failed => Verdict::Failed,
            Resolution::Retry => Verdict::Retry,
        };
        let command = ResolveStep { namespace: asked, job, step, node, verdict };
        self.moved(namespace, job, Command::ResolveStep(command)).await
    }

    async fn resume(&self, namespace: &str, job: JobId, wanted: Rerun) -> Result<JobStateDoc, Refusal> {
        let asked = namespace.to_owned();
        let generation = self.shared.state().meta.leadership.epoch.generation;
        let read = move |reader: &Reader| reader.resumable(&asked, job, wanted.failed_only, generation);
        let found = self.read(read).await?.ok_or_else(|| no_job(job))?;
        let (command, note) = resume::command(found, wanted, generation)?;
        let moved = self.moved(namespace, job, Command::ResumeJob(command)).await?;
        Ok(JobStateDoc { note, ..moved })
    }

    async fn why(&self, namespace: &str, job: JobId) -> Result<WhyDoc, Refusal> {
        let live = {
            let state = self.shared.state();
            let found = state.jobs.get(&job).filter(|found| found.head.namespace.as_str() == namespace);
            let unrecorded_ms = self.shared.tenure.elapsed.unrecorded_ms(state.meta.now_ms);
            found.map(|found| (found.head.status, grid_core::why(&state, found, unrecorded_ms)))
        };
        let held = self.shared.current_term().is_some() && !self.shared.tenure.gate.is_open();
        let (status, why) = match live {
            Some((status, why)) if held => (status, format!("{why}; {}", self.shared.held_reason())),
            Some(live) => live,
            None => {
                let doc = self.job(namespace, job, None).await?;
                let why = doc.reason.unwrap_or_else(|| "every step is done on every node".to_owned());
                (doc.status, format!("{}: {why}", doc.status))
            }
        };
        Ok(WhyDoc { id: job.to_string(), status, why, may_have_run: self.may_have_run(job) })
    }

    async fn job(&self, namespace: &str, job: JobId, run: Option<u32>) -> Result<JobDoc, Refusal> {
        self.check_run(namespace, job, run).await?;
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.job_in(&namespace, job, run)).await?.ok_or_else(|| no_job(job))
    }

    async fn runs(
        &self,
        namespace: &str,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<ListDoc<RunDoc>, Refusal> {
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.runs(&namespace, job, before, limit)).await?.ok_or_else(|| no_job(job))
    }

    async fn jobs(&self, namespace: &str, query: JobQuery) -> Result<ListDoc<JobDoc>, Refusal> {
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.jobs(&namespace, query.limit, &query.filter)).await
    }

    async fn results(&self, namespace: &str, job: JobId, query: ResultQuery) -> Result<ListDoc<ResultRowDoc>, Refusal> {
        let ResultQuery { limit, after, step, status, run } = query;
        self.check_run(namespace, job, run).await?;
        let (namespace, filter) = (namespace.to_owned(), ResultFilter { step, status, run });
        let found = self.read(move |reader| reader.results_in(&namespace, job, limit, after, filter)).await?;
        found.ok_or_else(|| no_job(job))
    }

    async fn output(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: NodeId,
        query: OutputQuery,
    ) -> Result<Output, Refusal> {
        self.check_run(namespace, job, query.run).await?;
        outputs::output(&self.shared, namespace, job, step, node, query).await
    }

    async fn logs(&self, namespace: &str, job: JobId, mut query: LogQuery) -> Result<mpsc::Receiver<LogDoc>, Refusal> {
        let newest = self.check_run(namespace, job, query.filter.run).await?;
        // Nothing more comes of a run that another one followed.
        query.follow &= newest;
        outputs::logs(&self.shared, namespace, job, query).await
    }

    async fn outputs(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        run: Option<u32>,
    ) -> Result<Vec<OutputGroupDoc>, Refusal> {
        self.check_run(namespace, job, run).await?;
        let namespace = namespace.to_owned();
        self.read(move |reader| reader.outputs_in(&namespace, job, step, run)).await?.ok_or_else(|| no_job(job))
    }

    async fn listen(&self, filter: EventFilter, after: Option<u64>) -> Result<mpsc::Receiver<EventDoc>, Refusal> {
        self.check_event(after).await?;
        self.shared.reading.events.subscribe(filter, after).await
    }

    async fn events(&self, filter: EventFilter, query: EventQuery) -> Result<ListDoc<EventDoc>, Refusal> {
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        self.check_event(query.after).await?;
        self.read(move |reader| match query.after {
            None => reader.events_before(&filter, query.before, limit),
            Some(after) => {
                let (items, reached) = reader.events_after(&filter, after, limit)?;
                Ok(ListDoc { items, next: (reached > after).then(|| reached.to_string()) })
            }
        })
        .await
    }

    async fn nodes(&self, limit: u32, after: Option<NodeId>) -> Result<ListDoc<NodeDoc>, Refusal> {
        let list = self.read(move |reader| reader.nodes(limit, after.as_ref())).await?;
        Ok(ListDoc { items: list.items.into_iter().map(|doc| self.freshen(doc)).collect(), next: list.next })
    }

    async fn node(&self, node: NodeId) -> Result<NodeDoc, Refusal> {
        let id = node.clone();
        let found = self.read(move |reader| reader.node(&node)).await?;
        found.map(|doc| self.freshen(doc)).ok_or_else(|| no_node(&id))
    }

    async fn order_drain(&self, node: NodeId, drain: bool) -> Result<NodeDoc, Refusal> {
        let ord = self.known_node(&node)?.0;
        self.propose(&Command::OrderDrain(OrderDrain { node: ord, drain })).await.map_err(refused)?;
        self.node(node).await
    }

    async fn remove_node(&self, node: NodeId, force: bool) -> Result<NodeStateDoc, Refusal> {
        let (ord, session) = self.known_node(&node)?;
        self.propose(&Command::RemoveNode(RemoveNode { node: ord, force, lapsed: false })).await.map_err(refused)?;
        // Whoever has registered since is another session, and new.
        self.shared.lead(|leader, _| leader.on_gone(session, CloseReason::Removed));
        Ok(NodeStateDoc { id: node.into(), status: NodeStatus::Removed.word().to_owned() })
    }

    async fn poll_agent(&self, poll: AgentPoll, stop: impl Future<Output = ()> + Send) -> Result<LeasesDoc, Refusal> {
        self.serve_agent(poll, stop).await
    }

    async fn agent_result(&self, result: AgentResult) -> Result<RecordedDoc, Refusal> {
        self.record_agent(result).await
    }

    async fn backup(&self, stale: bool) -> Result<Backup, Refusal> {
        let mut current_wall_ms = None;
        if !stale {
            // Everything acknowledged before now is in it, so this is the time of its state.
            current_wall_ms = Some(self.shared.clock.wall_ms());
            self.shared.log.raft.read_barrier().await.map_err(|e| {
                let why = format!(
                    "{e}; a backup taken here may lack acknowledged changes: --stale (?stale=true) allows that"
                );
                Refusal::new(Code::NoQuorum, why)
            })?;
        }
        self.shared.reading.backups.take(self.shared.reading.reader.clone(), current_wall_ms).await
    }

    async fn status(&self, hash: bool) -> Result<StatusDoc, Refusal> {
        self.status_doc(hash).await
    }
}
