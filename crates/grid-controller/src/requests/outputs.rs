//! Results and outputs of jobs.

use grid_store::{Reader, ResultFilter};
use grid_types::api::{ListDoc, LogDoc, OutputGroupDoc, ResultRowDoc};
use grid_types::{JobRef, StepIndex};
use tokio::sync::mpsc;

use crate::control::{Caller, LogQuery, Output, OutputQuery, Outputs, Refusal, ResultQuery, Right, Scope, no_job};
use crate::controller::Controller;
use crate::documents;
use crate::outputs;

impl Outputs for Controller {
    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn results(
        &self,
        caller: &Caller,
        job: &JobRef,
        query: ResultQuery,
    ) -> Result<ListDoc<ResultRowDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        let ResultQuery { limit, after, step, status, node, run } = query;
        self.check_run(permit, job, run).await?;
        let (asked, filter) = (job.clone(), ResultFilter { step, status, node, run });
        let read = move |reader: &Reader| Ok(reader.results(&asked, limit, after, filter)?.map(documents::results));
        self.read(permit, read).await?.ok_or_else(|| no_job(job.id))
    }

    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn output(&self, caller: &Caller, job: &JobRef, query: OutputQuery) -> Result<Output, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        self.check_run(permit, job, query.run).await?;
        outputs::output(&self.shared, &self.tasks, job, query).await
    }

    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn logs(
        &self,
        caller: &Caller,
        job: &JobRef,
        mut query: LogQuery,
    ) -> Result<mpsc::Receiver<LogDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        let newest = self.check_run(permit, job, query.filter.run).await?;
        // Nothing more comes of a run that another one followed.
        query.follow &= newest;
        outputs::logs(&self.shared, &self.tasks, job, query).await
    }

    #[tracing::instrument(level = "debug", name = "job", skip_all, fields(%job))]
    async fn outputs(
        &self,
        caller: &Caller,
        job: &JobRef,
        step: StepIndex,
        run: Option<u32>,
    ) -> Result<Vec<OutputGroupDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Namespace(&job.namespace))?;
        self.check_run(permit, job, run).await?;
        let asked = job.clone();
        let read = move |reader: &Reader| {
            let groups = reader.outputs_in(&asked, step, run)?;
            Ok(groups.map(|groups| groups.into_iter().map(documents::output_group).collect()))
        };
        self.read(permit, read).await?.ok_or_else(|| no_job(job.id))
    }
}
