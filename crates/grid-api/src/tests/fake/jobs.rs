//! The jobs of the controller in memory.

use std::collections::BTreeMap;

use grid_controller::{
    Caller, Confirmation, JobQuery, Jobs, PlanHash, Refusal, Rerun, RunQuery, StepResolution, Submission, Submitted,
};
use grid_types::api::{JobDoc, JobStateDoc, ListDoc, PlanDoc, RunDoc, WhyDoc, target_doc, tasks_doc};
use grid_types::job::JobSpec;
use grid_types::{Code, JobRef, JobStatus, Namespace};
use serde_json::json;

use super::{Fake, JOB, job};

impl Jobs for Fake {
    async fn submit(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        submission: Submission,
    ) -> Result<Submitted, Refusal> {
        let Submission { spec, key, plan } = submission;
        let bound = plan.map(|plan| format!(" {plan}")).unwrap_or_default();
        let (key, request) = key.map(|key| (key.key, key.request)).unzip();
        self.changed(caller, format!("submit {namespace} {key:?}{bound}"))?;
        let mut inner = self.inner();
        inner.spec = Some(spec);
        inner.request = request;
        let fresh = job(JOB);
        let Some(key) = key else { return Ok(Submitted { job: fresh, repeated: false }) };
        let repeated = inner.keys.contains_key(&key);
        let job = inner.keys.entry(key).or_insert(fresh).clone();
        Ok(Submitted { job, repeated })
    }

    async fn plan(&self, caller: &Caller, namespace: &Namespace, spec: JobSpec) -> Result<PlanDoc, Refusal> {
        self.changed(caller, format!("plan {namespace} {}", spec.target))?;
        Ok(PlanDoc {
            hash: PlanHash([0xab; 32]).to_string(),
            target: target_doc(&spec.target),
            exclude: None,
            limit: None,
            first: None,
            known: 1,
            unmatched: Vec::new(),
            expected: vec!["web-01".to_owned()],
            offline: BTreeMap::new(),
            lacking: BTreeMap::new(),
            tasks: tasks_doc(&spec.phases),
            strategy: "fail-fast".to_owned(),
            failure_tolerate: "0".to_owned(),
            concurrency: None,
            rows: 1,
        })
    }

    async fn cancel(&self, caller: &Caller, job: &JobRef) -> Result<JobStateDoc, Refusal> {
        self.changed(caller, format!("cancel {} {job}", job.namespace))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Cancelled, note: None, may_have_run: Vec::new() })
    }

    async fn resume(&self, caller: &Caller, job: &JobRef, wanted: Rerun) -> Result<JobStateDoc, Refusal> {
        let verb = if wanted.failed_only { "retry" } else { "resume" };
        self.changed(caller, format!("{verb} {} {job} {}", job.namespace, wanted.rerun_once))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Pending, note: None, may_have_run: Vec::new() })
    }

    async fn confirm(&self, caller: &Caller, job: &JobRef, confirmation: Confirmation) -> Result<JobStateDoc, Refusal> {
        let Confirmation { phase, held_only, rerun_once } = confirmation;
        let held = if held_only { " held" } else { "" };
        let rerun = if rerun_once { " rerun" } else { "" };
        self.changed(caller, format!("confirm {} {job} {phase:?}{held}{rerun}", job.namespace))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Running, note: None, may_have_run: Vec::new() })
    }

    async fn resolve(&self, caller: &Caller, job: &JobRef, resolution: StepResolution) -> Result<JobStateDoc, Refusal> {
        let StepResolution { step, node, verdict } = resolution;
        self.changed(caller, format!("resolve {} {job} {step} {node} {verdict:?}", job.namespace))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Running, note: None, may_have_run: Vec::new() })
    }

    async fn why(&self, _caller: &Caller, job: &JobRef) -> Result<WhyDoc, Refusal> {
        self.called(format!("why {} {job}", job.namespace))?;
        let why = "phase 1 is waiting for confirmation".to_owned();
        Ok(WhyDoc { id: job.to_string(), status: JobStatus::Running, why, may_have_run: Vec::new() })
    }

    async fn job(&self, _caller: &Caller, wanted: &JobRef, run: Option<u32>) -> Result<JobDoc, Refusal> {
        let of_run = run.map(|run| format!(" run {run}")).unwrap_or_default();
        self.called(format!("job {} {wanted}{of_run}", wanted.namespace))?;
        if wanted.to_string() == JOB {
            return Ok(job(JOB));
        }
        Err(Refusal::new(Code::NotFound, format!("no job {wanted}")))
    }

    async fn runs(&self, _caller: &Caller, job: &JobRef, query: RunQuery) -> Result<ListDoc<RunDoc>, Refusal> {
        let RunQuery { limit, before } = query;
        self.called(format!("runs {} {job} {before:?} {limit}", job.namespace))?;
        let run = json!({"run": 1, "kind": "submit", "status": "failed", "reason": null, "counts": {}});
        Ok(ListDoc { items: vec![serde_json::from_value(run).unwrap()], next: None })
    }

    async fn jobs(&self, _caller: &Caller, namespace: &Namespace, query: JobQuery) -> Result<ListDoc<JobDoc>, Refusal> {
        self.called(format!("jobs {namespace} {query:?}"))?;
        Ok(ListDoc { items: vec![job(JOB)], next: Some(JOB.to_owned()) })
    }
}
