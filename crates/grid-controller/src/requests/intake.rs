//! Takes the jobs that clients submit over a fabric: the same checks, in the same order, as for `POST /job`.

use grid_fabric::{Intake, JobRefusal, JobRequest};
use grid_types::api::{ErrorDoc, fault_docs};
use grid_types::job::{JobSpec, parse_job};
use grid_types::{Code, Faults, Namespace, strict};
use serde_json::{Value, json};

use crate::control::{Caller, Introspect, Jobs, Refusal, Submission, SubmitKey};
use crate::controller::Controller;

impl Intake for Controller {
    async fn submit(&self, request: JobRequest) -> Result<Value, JobRefusal> {
        // E4: the role first, so that another controller's request is not refused for its body.
        self.leads().map_err(refused)?;
        let (spec, body, epoch) = read(&request.body).map_err(refused)?;
        if let Some(given) = epoch {
            self.epoch_claimed(given);
        }
        let caller = Caller::anonymous(None).under(epoch);
        let namespace: Namespace = Namespace::DEFAULT.parse().map_err(|_| no_namespace()).map_err(refused)?;
        let key = Some(SubmitKey::of(request.key, &body, None));
        let submitted = Jobs::submit(self, &caller, &namespace, Submission { spec, key, plan: None }).await;
        Ok(json!(submitted.map_err(refused)?.job))
    }

    async fn room(&self) {
        let mut stored = self.shared.log.touched.stored();
        let mut term = self.shared.tenure.term.clone();
        loop {
            stored.mark_unchanged();
            let is_full = {
                let state = self.shared.state();
                state.pending_jobs() >= usize::try_from(self.shared.settings.quotas.max_pending).unwrap_or(usize::MAX)
            };
            if !is_full || self.shared.open_term().is_none() {
                return;
            }
            tokio::select! {
                changed = stored.changed() => if changed.is_err() { return },
                changed = term.changed() => if changed.is_err() { return },
            }
        }
    }
}

impl Controller {
    fn leads(&self) -> Result<(), Refusal> {
        if self.shared.open_term().is_some() {
            return Ok(());
        }
        if self.shared.is_cut_off() {
            return Err(Refusal::new(Code::NoQuorum, "this controller reaches no majority of the controllers"));
        }
        Err(Refusal::new(Code::NotLeader, "this controller is not the leader"))
    }
}

/// The job, its request as it was parsed, and the leader epoch that it names (E9).
fn read(body: &[u8]) -> Result<(JobSpec, Value, Option<u64>), Refusal> {
    let mut body =
        strict::json(body).map_err(|faults| Refusal { code: Code::BadRequest, ..Refusal::invalid(faults) })?;
    let mut faults = Faults::default();
    let epoch = match body.as_object_mut().and_then(|fields| fields.remove("leader_epoch")) {
        None | Some(Value::Null) => None,
        Some(epoch) => {
            if epoch.as_u64().is_none() {
                faults.add("leader_epoch", "must be a whole number, as /role shows it");
            }
            epoch.as_u64()
        }
    };
    match parse_job(&body) {
        Ok(spec) => faults.finish((spec, body, epoch)),
        Err(more) => {
            faults.join(more);
            Err(faults)
        }
    }
    .map_err(Refusal::invalid)
}

fn no_namespace() -> Refusal {
    Refusal::new(Code::Internal, "the default namespace has no valid name")
}

fn refused(refusal: Refusal) -> JobRefusal {
    let document = ErrorDoc {
        error: refusal.code.word().to_owned(),
        message: refusal.message.clone(),
        details: fault_docs(&refusal.faults),
    };
    JobRefusal { code: refusal.code, message: refusal.message, document: json!(document) }
}
