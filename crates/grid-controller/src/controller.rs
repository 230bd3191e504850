//! Holds the handle to a running controller, and brings its requests into the log: under which id and which leader epoch (E9, L3).

use std::sync::{Arc, PoisonError};

use grid_core::{Command, Fenced, Rejection, Reply};
use grid_store::{Reader, StoreError};
use grid_tasks::Tasks;
use grid_types::{Code, JobId};

use crate::control::{Permit, Refusal, refused};
use crate::reply::NoReply;
use crate::shared::Shared;

/// A handle to a running controller; clones share it.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: Tasks,
}

impl Controller {
    pub(crate) fn mint_job_id(&self) -> Result<JobId, Refusal> {
        let mut random = [0u8; 4];
        let no_randomness = |e| Refusal::new(Code::Internal, format!("no randomness: {e}"));
        getrandom::fill(&mut random).map_err(no_randomness)?;
        let (newest, from_ms) = {
            let state = self.shared.state();
            let live = state.jobs.last_key_value().map(|(id, _)| *id);
            let ended = state.stubs.last_key_value().map(|(id, _)| *id);
            (live.max(ended), state.meta.job_ids_from_ms)
        };
        // E2: never an id that was granted after a backup that was restored.
        let wall_ms = self.shared.clock.wall_ms().max(from_ms);
        let mut last = self.shared.log.last_job.lock().unwrap_or_else(PoisonError::into_inner);
        let id = JobId::mint(wall_ms, u32::from_le_bytes(random), newest.max(*last));
        *last = Some(id);
        Ok(id)
    }

    /// Under the leader epoch that the request names, if it names one (E9).
    pub(crate) async fn propose(&self, permit: Permit, command: &Command) -> Result<Reply, NoReply> {
        match permit.epoch() {
            None => self.shared.log.proposer.propose(command).await,
            Some(_) => self.shared.log.proposer.propose(&fenced(permit, command.clone())).await,
        }
    }

    /// E9, for changes of membership and leadership, which are no commands: as late as it can be asked.
    pub(crate) fn check_epoch(&self, permit: Permit) -> Result<(), Refusal> {
        let epoch = self.shared.state().meta.leadership.epoch;
        match permit.epoch().filter(|given| *given != epoch.wire()) {
            None => Ok(()),
            Some(given) => Err(refused(NoReply::Rejected(Rejection::StaleRequest { given, epoch }))),
        }
    }

    /// SQL, off the async threads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        _permit: Permit,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let failed = |why: String| Refusal::new(Code::Internal, format!("cannot read the state: {why}"));
        self.shared.reading.read(query).await.map_err(failed)
    }
}

/// The command, under the leader epoch that its request names, if it names one (E9).
pub(crate) fn fenced(permit: Permit, command: Command) -> Command {
    match permit.epoch() {
        None => command,
        Some(epoch) => Command::Fenced(Fenced { epoch, command: Box::new(command) }),
    }
}
