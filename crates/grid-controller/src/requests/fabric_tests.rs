//! What clients of a fabric get: the checks of their jobs, and what the mirrors show.

use std::time::Duration;

use grid_fabric::{Collection, Intake, JobRequest, Mirrored};
use grid_types::{Code, JobId};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Controller;
use crate::life::{opening, propose, register, report_all, started, submit};

const LIMIT: Duration = Duration::from_secs(60);

fn job(message: &str) -> Value {
    json!({"target": "all", "tasks": [{"backend": "ping", "action": "echo", "params": {"message": message}}]})
}

async fn request(controller: &Controller, key: &str, body: &Value) -> Result<Value, (Code, Value)> {
    let request = JobRequest { key: key.to_owned(), body: body.to_string().into_bytes() };
    Intake::submit(controller, request).await.map_err(|refusal| (refusal.code, refusal.document))
}

#[tokio::test(flavor = "multi_thread")]
async fn j12_a_repeated_request_gives_the_same_job_and_another_one_with_its_key_is_in_conflict() {
    let home = TempDir::new().unwrap();
    let controller = started(opening(home.path(), "c1", true)).await.unwrap();
    propose(&controller, register("n1")).await;
    let first = request(&controller, "k", &job("one")).await.unwrap();
    let spaced: Value = serde_json::from_str(&format!(" {} ", job("one"))).unwrap();
    assert_eq!(request(&controller, "k", &spaced).await.unwrap()["id"], first["id"]);
    assert_eq!(request(&controller, "k", &job("two")).await.unwrap_err().0, Code::Conflict);
    let (code, document) =
        request(&controller, "l", &json!({"target": "all", "tasks": [], "extra": 1})).await.unwrap_err();
    assert_eq!(code, Code::Invalid);
    assert!(document["details"].as_array().unwrap().len() >= 2, "every fault at once: {document}");
    let twice = JobRequest { key: "m".to_owned(), body: b"{\"target\":\"all\",\"target\":\"any\"}".to_vec() };
    assert_eq!(Intake::submit(&controller, twice).await.unwrap_err().code, Code::BadRequest);
    let epoch = controller.shared.state().meta.leadership.epoch.wire();
    let mut old = job("three");
    old["leader_epoch"] = json!(epoch + 1);
    assert_eq!(request(&controller, "n", &old).await.unwrap_err().0, Code::StaleEpoch, "E9");
    controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_a_controller_that_does_not_lead_refuses_before_it_reads_the_body() {
    let home = TempDir::new().unwrap();
    let controller = started(opening(home.path(), "c1", true)).await.unwrap();
    controller.shared.tenure.draining.store(true, std::sync::atomic::Ordering::Release);
    assert_eq!(request(&controller, "k", &json!("no job")).await.unwrap_err().0, Code::NotLeader);
    tokio::time::timeout(LIMIT, controller.room()).await.expect("nobody waits for room where nobody leads");
    controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_room_comes_when_a_job_leaves_the_queue() {
    let home = TempDir::new().unwrap();
    let mut opening = opening(home.path(), "c1", true);
    opening.settings.quotas.max_concurrent = 1;
    opening.settings.quotas.max_pending = 1;
    let controller = started(opening).await.unwrap();
    propose(&controller, register("n1")).await;
    tokio::time::timeout(LIMIT, controller.room()).await.expect("an empty queue has room");
    propose(&controller, submit(JobId(1))).await;
    propose(&controller, submit(JobId(2))).await;
    assert_eq!(request(&controller, "k", &job("full")).await.unwrap_err().0, Code::QueueFull);
    let waiting = {
        let controller = controller.clone();
        tokio::spawn(async move { controller.room().await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    while controller.shared.state().pending_jobs() > 0 {
        report_all(&controller).await;
    }
    tokio::time::timeout(LIMIT, waiting).await.expect("room").unwrap();
    controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n7_a_mirror_hears_of_changes_and_shows_nodes_as_the_design_describes_them() {
    let home = TempDir::new().unwrap();
    let controller = started(opening(home.path(), "c1", true)).await.unwrap();
    let first = tokio::time::timeout(LIMIT, controller.changed()).await.unwrap();
    assert!(
        first.whole.contains(&Collection::Jobs) && first.whole.contains(&Collection::Nodes),
        "everything at first: {first:?}"
    );
    propose(&controller, register("n1")).await;
    propose(&controller, submit(JobId(1))).await;
    let (mut jobs, mut nodes) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    while jobs.is_empty() || nodes.is_empty() {
        let changed = tokio::time::timeout(LIMIT, controller.changed()).await.unwrap();
        jobs.extend(changed.jobs);
        nodes.extend(changed.nodes);
    }
    let key = JobId(1).to_string();
    assert!(jobs.contains(&key) && nodes.contains("n1"));
    assert!(controller.keys(Collection::Jobs).await.unwrap().contains(&key));
    let shown = controller.show(Collection::Jobs, &key).await.unwrap().unwrap();
    assert_eq!((&shown.document["id"], shown.is_final), (&json!(key), false));
    assert!(shown.index > 0);
    let node = controller.show(Collection::Nodes, "n1").await.unwrap().unwrap().document;
    assert_eq!((&node["status"], &node["id"]), (&json!("online"), &json!("n1")));
    assert!(node["backends"].as_array().unwrap().contains(&json!("ping")) && node["last_seen"].is_string(), "{node}");
    assert_eq!(controller.show(Collection::Nodes, "n2").await.unwrap(), None);
    let member = controller.show(Collection::Controllers, "c1").await.unwrap().unwrap().document;
    assert_eq!(member["role"], "LEADER");
    assert!(controller.show(Collection::Cluster, "status").await.unwrap().is_some());
    report_all(&controller).await;
    while !controller.show(Collection::Jobs, &key).await.unwrap().unwrap().is_final {
        report_all(&controller).await;
    }
    controller.shutdown().await;
}
