//! Finds the jobs that wait for an operator, and marks their documents.
//!
//! Whether a job waits follows from its cells, which only the state has: the rows of the store say that it runs. The state is a
//! moment ahead of the store, so a document may be marked by what is stored next, and never by what is over.
//! Not here: the words (`grid_core::operator_wait`, `grid_types::Wait`).

use std::collections::BTreeSet;

use grid_types::JobId;
use grid_types::api::JobDoc;

use crate::controller::Controller;

impl Controller {
    /// In every namespace; stored when this returns.
    pub(super) async fn waiting_jobs(&self) -> BTreeSet<JobId> {
        let (jobs, mark) = {
            let state = self.shared.state();
            let waiting = state.jobs.iter().filter(|(_, job)| grid_core::operator_wait(&state, job).is_some());
            (waiting.map(|(id, _)| *id).collect(), self.shared.log.progress.mark())
        };
        self.shared.log.progress.wait(mark).await;
        jobs
    }

    /// Documents of the newest runs; of an earlier one nothing waits.
    pub(super) fn mark_waiting(&self, docs: &mut [JobDoc]) {
        let state = self.shared.state();
        for doc in docs.iter_mut().filter(|doc| !doc.status.is_ended()) {
            let Ok(id) = doc.id.parse::<JobId>() else { continue };
            let job = state.jobs.get(&id).filter(|job| job.head.run == doc.run);
            let Some(wait) = job.and_then(|job| grid_core::operator_wait(&state, job)) else { continue };
            doc.waiting_for = wait.waiting_for();
            doc.why = Some(wait.text(id));
        }
    }
}
