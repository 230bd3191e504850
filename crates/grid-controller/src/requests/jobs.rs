//! Submits, reads and decides about jobs.

use grid_core::{
    CancelJob, Command, ConfirmJob, Planned, Rejection, Reply, RequestHash, ResolveStep, SubmitJob, Verdict,
};
use grid_store::{Reader, RerunOn};
use grid_types::api::{DoubtDoc, JobDoc, JobStateDoc, ListDoc, PlanDoc, Resolution, RunDoc, WhyDoc};
use grid_types::job::JobSpec;
use grid_types::{Code, JobId, JobRef, Namespace};

use super::plan::{declarations, plan_doc};
use super::resume;
use crate::control::{
    Caller, Confirmation, JobQuery, Jobs, Permit, PlanHash, Refusal, Rerun, Right, RunQuery, Scope, StepResolution,
    Submission, Submitted, no_job, refused,
};
use crate::controller::Controller;
use crate::documents;
use crate::reply::NoReply;

/// Steps that are named to an operator; more would not be read.
const MOST_DOUBTS: usize = 1_000;

impl Jobs for Controller {
    async fn submit(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        submission: Submission,
    ) -> Result<Submitted, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Namespace(namespace))?;
        let Submission { spec, key, plan } = submission;
        self.shared.check_carried(&spec)?;
        let plan = plan.map(|PlanHash(hash)| Planned { hash, declarations: declarations(&spec) });
        let request = key.as_ref().map(|key| RequestHash::of(key.request.as_bytes())).unwrap_or_default();
        let key = key.map(|key| key.key);
        let id = self.mint_job_id()?;
        let command = SubmitJob { id, namespace: namespace.name().clone(), spec, key, plan, request };
        let reply = self.propose(permit, &Command::SubmitJob(command)).await.map_err(refused)?;
        let Reply::Submitted { job, repeated } = reply else {
            return Err(Refusal::new(Code::Internal, "unexpected reply to a submit"));
        };
        let job = JobRef { namespace: namespace.clone(), id: job };
        let fresh = grid_store::fresh_job(&self.shared.state(), &job);
        let job = match fresh {
            Some(row) => documents::job(row),
            None => self.job_doc(permit, &job, None).await?,
        };
        Ok(Submitted { job, repeated })
    }

    async fn plan(&self, caller: &Caller, namespace: &Namespace, spec: JobSpec) -> Result<PlanDoc, Refusal> {
        caller.permit(Right::View, Scope::Namespace(namespace))?;
        self.shared.check_carried(&spec)?;
        plan_doc(&self.shared.state(), &spec)
    }

    #[tracing::instrument(name = "job", skip_all, fields(%job))]
    async fn cancel(&self, caller: &Caller, job: &JobRef) -> Result<JobStateDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Namespace(&job.namespace))?;
        let command = CancelJob { namespace: job.namespace.name().clone(), job: job.id };
        self.moved(permit, job, Command::CancelJob(command)).await
    }

    #[tracing::instrument(name = "job", skip_all, fields(%job))]
    async fn confirm(&self, caller: &Caller, job: &JobRef, confirmation: Confirmation) -> Result<JobStateDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Namespace(&job.namespace))?;
        let Confirmation { phase, held_only, rerun_once } = confirmation;
        let may_have_run = if rerun_once { Vec::new() } else { self.may_have_run(job.id) };
        let (namespace, held) = (job.namespace.name().clone(), held_only.then_some(true));
        let command = ConfirmJob { namespace, job: job.id, phase, held, rerun_once };
        let moved = self.moved(permit, job, Command::ConfirmJob(command)).await?;
        let note = (!may_have_run.is_empty()).then(|| {
            "these once-only steps may have run after the backup and become unknown when they are reached; \
             to run such steps again, confirm with --rerun-once (rerun_once), or resume the job with it later"
                .to_owned()
        });
        Ok(JobStateDoc { note, may_have_run, ..moved })
    }

    #[tracing::instrument(name = "job", skip_all, fields(%job))]
    async fn resolve(&self, caller: &Caller, job: &JobRef, resolution: StepResolution) -> Result<JobStateDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Namespace(&job.namespace))?;
        let StepResolution { step, node, verdict } = resolution;
        let verdict = match verdict {
            Resolution::Success => Verdict::Success,
            Resolution::Failed => Verdict::Failed,
            Resolution::Retry => Verdict::Retry,
        };
        let command = ResolveStep { namespace: job.namespace.name().clone(), job: job.id, step, node, verdict };
        self.moved(permit, job, Command::ResolveStep(command)).await
    }

    #[tracing::instrument(name = "job", skip_all, fields(%job))]
    async fn resume(&self, caller: &Caller, job: &JobRef, wanted: Rerun) -> Result<JobStateDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Namespace(&job.namespace))?;
        let asked = job.clone();
        let generation = self.shared.state().meta.leadership.epoch.generation;
        let on = if wanted.failed_only { RerunOn::FailedNodes } else { RerunOn::AllNodes };
        let read = move |reader: &Reader| reader.resumable(&asked, on, generation);
        let found = self.read(permit, read).await?.ok_or_else(|| no_job(job.id))?;
        let (command, note) = resume::command(found, wanted, generation)?;
        let moved = self.moved(permit, job, Command::ResumeJob(command)).await?;
        Ok(JobStateDoc { note, ..moved })
    }

    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn why(&self, caller: &Caller, job: &JobRef) -> Result<WhyDoc, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        let live = {
            let state = self.shared.state();
            let found = state.jobs.get(&job.id).filter(|found| found.head.namespace == *job.namespace.name());
            let unrecorded_ms = self.shared.tenure.elapsed.unrecorded_ms(state.meta.now_ms);
            found.map(|found| (found.head.status, grid_core::why(&state, found, unrecorded_ms)))
        };
        let is_paused = !self.shared.tenure.gate.is_open();
        let problem = if is_paused { Some(self.shared.pause_reason()) } else { self.shared.dispatch_problem() };
        let problem = problem.filter(|_| self.shared.current_term().is_some());
        let (status, why) = match live {
            Some((status, why)) => match problem {
                Some(problem) => (status, format!("{why}; {problem}")),
                None => (status, why),
            },
            None => {
                let doc = self.job_doc(permit, job, None).await?;
                let why = doc.reason.unwrap_or_else(|| "every step is done on every node".to_owned());
                (doc.status, format!("{}: {why}", doc.status))
            }
        };
        Ok(WhyDoc { id: job.to_string(), status, why, may_have_run: self.may_have_run(job.id) })
    }

    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn job(&self, caller: &Caller, job: &JobRef, run: Option<u32>) -> Result<JobDoc, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        self.job_doc(permit, job, run).await
    }

    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn runs(&self, caller: &Caller, job: &JobRef, query: RunQuery) -> Result<ListDoc<RunDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        let asked = job.clone();
        let read = move |reader: &Reader| reader.runs(&asked, query.before, query.limit);
        let page = self.read(permit, read).await?.ok_or_else(|| no_job(job.id))?;
        Ok(documents::list(page, documents::run))
    }

    async fn jobs(&self, caller: &Caller, namespace: &Namespace, query: JobQuery) -> Result<ListDoc<JobDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(namespace))?;
        let JobQuery { limit, waiting, mut filter } = query;
        if waiting {
            filter.among = Some(self.waiting_jobs().await);
        }
        let namespace = namespace.clone();
        let read = move |reader: &Reader| Ok(documents::list(reader.jobs(&namespace, limit, &filter)?, documents::job));
        let mut page = self.read(permit, read).await?;
        self.mark_waiting(&mut page.items);
        // One may have been decided since.
        page.items.retain(|doc| !waiting || doc.waiting_for.is_some());
        Ok(page)
    }
}

impl Controller {
    async fn job_doc(&self, permit: Permit, job: &JobRef, run: Option<u32>) -> Result<JobDoc, Refusal> {
        self.check_run(permit, job, run).await?;
        let asked = job.clone();
        let read = move |reader: &Reader| Ok(reader.job_in(&asked, run)?.map(documents::job));
        let found = self.read(permit, read).await?;
        let mut doc = found.ok_or_else(|| no_job(job.id))?;
        self.mark_waiting(std::slice::from_mut(&mut doc));
        Ok(doc)
    }

    /// Refuses a run that the job does not have (J8). Returns whether it is the newest one.
    pub(super) async fn check_run(&self, permit: Permit, job: &JobRef, run: Option<u32>) -> Result<bool, Refusal> {
        let Some(run) = run else { return Ok(true) };
        let asked = job.clone();
        let newest = self.read(permit, move |reader| reader.newest_run(&asked)).await?;
        let newest = newest.ok_or_else(|| no_job(job.id))?;
        if (1..=newest).contains(&run) {
            return Ok(run == newest);
        }
        let has = if newest == 1 { "one run".to_owned() } else { format!("{newest} runs") };
        Err(Refusal::new(Code::NotFound, format!("{job} has no run {run}; it has {has}")))
    }

    /// Proposes a change of a job and answers with its new state.
    async fn moved(&self, permit: Permit, job: &JobRef, command: Command) -> Result<JobStateDoc, Refusal> {
        let replied = self.propose(permit, &command).await;
        if let Err(NoReply::Rejected(Rejection::Ended { .. })) = &replied {
            // A stub has no namespace, and a client of another one must not learn that the job exists.
            self.job_doc(permit, job, None).await?;
        }
        match replied.map_err(refused)? {
            Reply::Cancelled { job, status } | Reply::Moved { job, status } => {
                Ok(JobStateDoc { id: job.to_string(), status, note: None, may_have_run: Vec::new() })
            }
            _ => Err(Refusal::new(Code::Internal, "unexpected reply to a change of a job")),
        }
    }

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
}
