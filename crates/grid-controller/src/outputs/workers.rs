//! Outputs as this controller reaches them: workers by their sessions, the ends of outputs in SQLite.

use std::sync::Arc;

use grid_proto::v1;
use grid_store::{LogRow, StoredOutput};

use super::source::Outputs;
use crate::reading::{NotPulled, Pull, Pulled};
use crate::shared::Shared;

#[derive(Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Outputs for Workers {
    async fn pull(&self, row: &LogRow, pull: Pull) -> Result<Pulled, NotPulled> {
        let ask = |request| {
            let mut inner = self.shared.leading();
            let Some(leader) = inner.leader() else { return false };
            let (leader_epoch, session) = (leader.epoch().wire(), leader.open_session_of(row.node));
            let message = v1::ToWorker { leader_epoch, log_request: Some(request), ..v1::ToWorker::default() };
            session.is_some_and(|session| inner.send(session, message))
        };
        self.shared.reading.pulls.pull(row.node, pull, ask).await
    }

    async fn stored(&self, row: &LogRow) -> Result<Option<StoredOutput>, String> {
        let (lease, node) = (row.lease, row.node);
        self.shared.reading.read(move |reader| reader.stored_output(&lease, node)).await
    }

    fn is_out(&self, row: &LogRow) -> bool {
        let state = self.shared.state();
        let job = state.jobs.get(&row.lease.job);
        job.and_then(|job| job.lease_at(row.node)).is_some_and(|(lease, _)| lease == row.lease)
    }

    fn keeps_outputs(&self, row: &LogRow) -> bool {
        self.shared.state().nodes.get(&row.node).is_none_or(|node| !node.agent)
    }

    fn is_online(&self, row: &LogRow) -> bool {
        // A standby hears nobody.
        self.shared.current_term().is_some()
            && self.shared.state().nodes.get(&row.node).is_some_and(|node| node.status.is_online())
    }
}
