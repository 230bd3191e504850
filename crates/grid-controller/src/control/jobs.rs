//! Defines requests to submit, read and decide about jobs.
//!
//! Mutations answer only when they are committed, fsynced and applied (L3).

use std::future::Future;

use grid_store::JobFilter;
use grid_types::api::{JobDoc, JobStateDoc, ListDoc, PlanDoc, Resolution, RunDoc, WhyDoc};
use grid_types::job::JobSpec;
use grid_types::{JobRef, Namespace, NodeId, StepIndex};
use serde_json::Value;

use super::canonical::canonical_request;
use super::{Caller, Introspect, PlanHash, Refusal};

/// A job to submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub spec: JobSpec,
    pub key: Option<SubmitKey>,
    /// Refuse the job if it would do something else than this plan.
    pub plan: Option<PlanHash>,
}

/// An `Idempotency-Key` and the request that it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitKey {
    pub key: String,
    /// As it was parsed, before defaults: equal requests are equal texts (J12).
    pub request: String,
}

impl SubmitKey {
    /// `request`: the body as it was parsed.
    #[must_use]
    pub fn of(key: String, request: &Value, plan: Option<PlanHash>) -> Self {
        Self { key, request: canonical_request(request, plan) }
    }
}

/// A submit that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    pub job: JobDoc,
    /// The same key gave this job before.
    pub repeated: bool,
}

/// What an operator confirms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Confirmation {
    /// The phase that the operator saw; none: the one that waits.
    pub phase: Option<u32>,
    /// Only a job that is held after a restore is meant, no phase (E2).
    pub held_only: bool,
    /// Of a held job: its `once` steps that may have run already run again.
    pub rerun_once: bool,
}

/// How a step ended whose outcome is unknown (W8), as an operator found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResolution {
    pub step: StepIndex,
    pub node: NodeId,
    pub verdict: Resolution,
}

/// What of an ended job is to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rerun {
    /// A retry: only nodes on which something failed take part.
    pub failed_only: bool,
    /// Also `once` steps that may have run already (W8).
    pub rerun_once: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobQuery {
    pub limit: u32,
    /// Only jobs that wait for an operator.
    pub waiting: bool,
    pub filter: JobFilter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunQuery {
    pub limit: u32,
    /// Only runs older than this one.
    pub before: Option<u32>,
}

pub trait Jobs: Introspect {
    fn submit(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        submission: Submission,
    ) -> impl Future<Output = Result<Submitted, Refusal>> + Send;
    /// What a job would do now.
    fn plan(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        spec: JobSpec,
    ) -> impl Future<Output = Result<PlanDoc, Refusal>> + Send;
    fn cancel(&self, caller: &Caller, job: &JobRef) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;
    fn confirm(
        &self,
        caller: &Caller,
        job: &JobRef,
        confirmation: Confirmation,
    ) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;
    fn resolve(
        &self,
        caller: &Caller,
        job: &JobRef,
        resolution: StepResolution,
    ) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;
    /// Runs what is missing of an ended job, or, as a retry, only what its failed nodes miss.
    fn resume(
        &self,
        caller: &Caller,
        job: &JobRef,
        wanted: Rerun,
    ) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;
    fn why(&self, caller: &Caller, job: &JobRef) -> impl Future<Output = Result<WhyDoc, Refusal>> + Send;
    /// `run`: as that run had it; without it, the newest.
    fn job(
        &self,
        caller: &Caller,
        job: &JobRef,
        run: Option<u32>,
    ) -> impl Future<Output = Result<JobDoc, Refusal>> + Send;
    /// The runs of a job, newest first.
    fn runs(
        &self,
        caller: &Caller,
        job: &JobRef,
        query: RunQuery,
    ) -> impl Future<Output = Result<ListDoc<RunDoc>, Refusal>> + Send;
    fn jobs(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        query: JobQuery,
    ) -> impl Future<Output = Result<ListDoc<JobDoc>, Refusal>> + Send;
}
