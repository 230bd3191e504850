//! What all requests have in common: each is checked before it does anything, and takes effect only under its epoch.

use grid_store::EventFilter;
use grid_types::api::{JoinBody, Resolution};
use grid_types::{Attempt, Code, JobEpoch, JobId, LeaseId, LeaseKey, Namespace, NodeId, NodeOrd, Outcome, StepIndex};
use tempfile::TempDir;

use crate::control::{
    AgentFacts, AgentPoll, AgentResult, Agents, BackupScope, Caller, Cluster, Confirmation, EventQuery, Events,
    Introspect, JobQuery, Jobs, LogQuery, MemberChange, NodeQuery, Nodes, Origin, OutputQuery, Outputs, Refusal,
    Removal, Rerun, ResultQuery, RunQuery, Stale, StateHash, StepResolution, Submission,
};
use crate::life::{job_ref, opening, propose, register, spec, started, submit};

/// As if the leader had changed after the API had compared the epoch and before the entry was applied.
#[tokio::test(flavor = "multi_thread")]
async fn e9_a_request_takes_effect_only_under_the_epoch_that_it_names() {
    let home = TempDir::new().unwrap();
    let controller = started(opening(home.path(), "c1", true)).await.unwrap();
    propose(&controller, register("n1")).await;
    propose(&controller, submit(JobId(1))).await;
    let epoch = controller.shared.state().meta.leadership.epoch.wire();
    let under = |epoch| Caller::local().under(Some(epoch));
    let refused = controller.cancel(&under(epoch - 1), &job_ref(1)).await.unwrap_err();
    assert_eq!((refused.code, refused.stale), (Code::StaleEpoch, Some(Stale::Leader)));
    let refused = controller.step_down(&under(epoch - 1), None).await.unwrap_err();
    assert_eq!((refused.code, refused.stale), (Code::StaleEpoch, Some(Stale::Leader)), "no command, and yet");
    let refused = controller.lift_superseded(&under(epoch - 1)).await.unwrap_err();
    assert_eq!((refused.code, refused.stale), (Code::StaleEpoch, Some(Stale::Leader)), "of the whole cluster");
    controller.cancel(&under(epoch), &job_ref(1)).await.unwrap();
    controller.shutdown().await;
}

/// Every method that takes a caller, with one that has no right: a method that forgets to ask answers something else.
#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_checked_before_it_does_anything() {
    let home = TempDir::new().unwrap();
    let controller = started(opening(home.path(), "c1", true)).await.unwrap();
    propose(&controller, register("n1")).await;
    propose(&controller, submit(JobId(1))).await;
    let applied = |controller: &crate::Controller| controller.shared.state().meta.clone();
    let before = applied(&controller);
    let nobody = &Caller { origin: Origin::Nobody, epoch: None };
    let job = &job_ref(1);
    let (namespace, node): (&Namespace, &NodeId) = (&job.namespace, &"n1".parse().unwrap());

    let mut answers: Vec<(&str, Result<(), Refusal>)> = Vec::new();
    macro_rules! ask {
        ($($method:ident($($argument:expr),*)),* $(,)?) => {
            $(answers.push((stringify!($method), controller.$method(nobody, $($argument),*).await.map(drop)));)*
        };
    }
    let submission = Submission { spec: spec(), key: None, plan: None };
    let resolution = StepResolution { step: StepIndex(0), node: node.clone(), verdict: Resolution::Success };
    let rerun = Rerun { failed_only: false, rerun_once: false };
    ask!(
        submit(namespace, submission),
        plan(namespace, spec()),
        cancel(job),
        confirm(job, Confirmation::default()),
        resolve(job, resolution),
        resume(job, rerun),
        why(job),
        job(job, None),
        runs(job, RunQuery { limit: 1, before: None }),
        jobs(namespace, JobQuery::default()),
    );
    let output =
        OutputQuery { step: StepIndex(0), node: node.clone(), follow: false, offset: 0, attempt: None, run: None };
    ask!(
        results(job, ResultQuery::default()),
        output(job, output),
        logs(job, LogQuery::default()),
        outputs(job, StepIndex(0), None),
    );
    ask!(listen(EventFilter::default(), None), events(EventFilter::default(), EventQuery::default()));
    ask!(
        nodes(NodeQuery { limit: 1, after: None, target: None }),
        node(node),
        drain(node),
        undrain(node),
        remove(node, Removal::Forced),
    );
    let join = JoinBody {
        node_id: "c2".to_owned(),
        raft_id: 2,
        folder_id: "f".to_owned(),
        raft_addr: "127.0.0.1:1".to_owned(),
        api_url: String::new(),
        grpc_addr: String::new(),
        feature_level: u32::MAX,
        replace: false,
    };
    ask!(
        cluster(),
        join(join),
        change_member("c1", MemberChange::Remove),
        lift_superseded(),
        step_down(None),
        backup(BackupScope::AppliedHere),
        status(StateHash::Omit),
    );
    let lease = LeaseKey { job: job.id, job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
    let lease = LeaseId { node: NodeOrd(1), lease };
    let result = AgentResult {
        agent: node.clone(),
        lease,
        outcome: Outcome::Success,
        output: String::new(),
        error: None,
        duration_ms: 0,
    };
    let poll = AgentPoll {
        agent: node.clone(),
        instance: None,
        facts: AgentFacts::default(),
        outstanding: std::collections::BTreeSet::default(),
        wait: std::time::Duration::ZERO,
    };
    ask!(agent_result(result), poll_agent(poll, std::future::ready(())));

    for (method, answer) in answers {
        assert_eq!(answer.map_err(|refusal| refusal.code), Err(Code::Forbidden), "{method}");
    }
    assert_eq!(applied(&controller), before, "nothing was applied");
    controller.shutdown().await;
}
