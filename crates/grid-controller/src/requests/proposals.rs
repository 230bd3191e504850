//! Changes of jobs: proposed, and answered with the job's state then.

use grid_core::{Command, Rejection, Reply};
use grid_types::api::JobStateDoc;
use grid_types::{Code, JobId};

use crate::control::{Control, Refusal, refused};
use crate::controller::Controller;
use crate::reply::NoReply;

impl Controller {
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
    use crate::life::{opening, propose, register, started, submit};

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
