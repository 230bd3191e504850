//! How a request gets into the log: under which id, under which leader epoch, and what is answered (E9, L3).

use std::sync::PoisonError;

use grid_core::{Command, Fenced, Rejection, Reply};
use grid_types::api::JobStateDoc;
use grid_types::{Code, JobId};

use super::refused;
use crate::control::{Control, Refusal};
use crate::controller::Controller;
use crate::proposer::NoReply;

impl Controller {
    pub(super) fn mint_job_id(&self) -> Result<JobId, Refusal> {
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
        let mut last = self.shared.last_job.lock().unwrap_or_else(PoisonError::into_inner);
        let id = JobId::mint(wall_ms, u32::from_le_bytes(random), newest.max(*last));
        *last = Some(id);
        Ok(id)
    }

    /// Under the leader epoch that the request names, if it names one (E9).
    pub(crate) async fn propose(&self, command: &Command) -> Result<Reply, NoReply> {
        match self.fence {
            None => self.shared.proposer.propose(command).await,
            Some(_) => self.shared.proposer.propose(&self.fence_in(command.clone())).await,
        }
    }

    pub(crate) fn fence_in(&self, command: Command) -> Command {
        match self.fence {
            None => command,
            Some(epoch) => Command::Fenced(Fenced { epoch, command: Box::new(command) }),
        }
    }

    /// E9, for changes of membership and leadership, which are no commands: as late as it can be asked.
    pub(super) fn check_fence(&self) -> Result<(), Refusal> {
        let epoch = self.shared.state().meta.leadership.epoch;
        match self.fence.filter(|given| *given != epoch.wire()) {
            None => Ok(()),
            Some(given) => Err(refused(NoReply::Rejected(Rejection::StaleRequest { given, epoch }))),
        }
    }

    /// Proposes what moves a job and answers how it stands then.
    pub(super) async fn moved(&self, namespace: &str, job: JobId, command: Command) -> Result<JobStateDoc, Refusal> {
        let replied = self.propose(&command).await;
        if let Err(NoReply::Rejected(Rejection::Ended { .. })) = &replied {
            // A stub has no namespace, and a client of another one must not learn that the job exists.
            self.job(namespace, job, None).await?;
        }
        match replied.map_err(refused)? {
            Reply::Cancelled { job, status } | Reply::Moved { job, status } => {
                Ok(JobStateDoc { id: job.to_string(), status, note: None, may_have_run: Vec::new() })
            }
            _ => Err(Refusal::new(Code::Internal, "unexpected reply to a change of a job")),
        }
    }
}

#[cfg(test)]
mod tests {
    use grid_types::{Code, JobId};
    use tempfile::TempDir;

    use crate::control::Control;
    use crate::ground::life::{opening, propose, register, started, submit};

    /// As if the leader had changed after the API had compared the epoch and before the entry was applied.
    #[tokio::test(flavor = "multi_thread")]
    async fn e9_a_request_takes_effect_only_under_the_epoch_that_it_names() {
        let home = TempDir::new().unwrap();
        let controller = started(opening(home.path(), "c1", true)).await.unwrap();
        propose(&controller, register("n1")).await;
        propose(&controller, submit(JobId(1))).await;
        let epoch = controller.shared.state().meta.leadership.epoch.wire();
        let stale = controller.fenced(epoch - 1);
        let refused = stale.cancel("default", JobId(1)).await.unwrap_err();
        assert_eq!((refused.code, refused.stale), (Code::StaleEpoch, Some("leader")));
        let refused = stale.step_down(None).await.unwrap_err();
        assert_eq!((refused.code, refused.stale), (Code::StaleEpoch, Some("leader")), "no command, and yet");
        controller.fenced(epoch).cancel("default", JobId(1)).await.unwrap();
        controller.shutdown().await;
    }
}
