//! The five conformance tests of the HA document, each on three real controllers.

use std::time::Duration;

use grid_testkit::spec::{echo, job, record_slowly, with};
use grid_testkit::{Agent, Answer, LIMIT, Method, Trio, ensure, wait_until};
use serde_json::json;

fn mutations() -> Vec<(Method, String)> {
    let mut list: Vec<(Method, String)> =
        ["/job", "/v1/jobs", "/v1/leases", "/v1/results", "/api/v1/namespaces/default/jobs"]
            .map(|path| (Method::POST, path.to_owned()))
            .to_vec();
    for verb in ["cancel", "confirm", "resume", "resolve"] {
        list.push((Method::POST, format!("/job/job-0c5t9v3k2m7qa/{verb}")));
    }
    list.extend(["members", "step-down"].map(|verb| (Method::POST, format!("/api/v1/cluster/{verb}"))));
    list.push((Method::DELETE, "/api/v1/cluster/members/c1".to_owned()));
    list.push((Method::DELETE, "/v1/agents/a1".to_owned()));
    list
}

#[test]
fn conformance_ha_1_a_standby_rejects_every_mutation_with_not_leader() {
    let trio = Trio::start(&[]);
    let leader = trio.wait_leader();
    let leader_url = trio.servers[&leader].url();
    for standby in trio.standbys() {
        let api = trio.api(&standby);
        for (method, path) in mutations() {
            for body in ["{}", "not json", r#"{"target":{"scope":"all"},"tasks":[]}"#] {
                let answer = api.request(method.clone(), &path, &[], Some(body.to_owned())).expect("an answer");
                assert_eq!(answer.status, 409, "{path}: {answer:?}");
                let json = answer.json();
                assert_eq!(json["error"], "NOT_LEADER", "{path}");
                assert_eq!((&json["leader_id"], &json["leader_url"]), (&json!(leader), &json!(leader_url)), "{path}");
                assert_eq!((&json["node_id"], &json["role"]), (&json!(standby), &json!("STANDBY")), "{path}");
                assert!(json["leader_epoch"].is_u64(), "{path}: {json}");
            }
        }
        for path in ["/healthz", "/readyz", "/role", "/jobs", "/nodes", "/v1/jobs", "/v1/agents", "/controllers"] {
            let answer = api.get(path);
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_eq!(answer.header("x-grid-role"), Some("STANDBY"), "{path}");
            assert_eq!(answer.header("x-grid-node"), Some(standby.as_str()), "{path}");
        }
        let events = api.request(Method::GET, "/v1/events", &[("accept", "application/json")], None).expect("a page");
        assert_eq!((events.status, &events.json()["items"][0]["role"]), (200, &json!("STANDBY")), "{events:?}");
    }
}

#[test]
fn conformance_ha_2_only_one_node_holds_the_leader_lock_at_a_time() {
    let mut trio = Trio::start(&[]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let leader = trio.wait_leader();
        let epoch = trio.roles()[&leader]["leader_epoch"].as_u64().expect("an epoch");
        seen.push((epoch, leader.clone()));
        trio.server(&leader).kill9();
        // During the election no controller claims an epoch that another one had.
        let next = wait_until("the next leader", LIMIT, || {
            let roles = trio.roles();
            let claims: Vec<(u64, String)> = roles
                .iter()
                .filter(|(_, role)| role["role"] == "LEADER")
                .filter_map(|(id, role)| Some((role["leader_epoch"].as_u64()?, id.clone())))
                .collect();
            assert!(claims.len() <= 1, "two leaders at once: {roles:?}");
            for (epoch, id) in &claims {
                assert!(
                    seen.iter().all(|(old, who)| epoch > old || (epoch == old && id == who)),
                    "{claims:?} {seen:?}"
                );
            }
            claims.into_iter().next().ok_or("none".to_owned())
        });
        assert_ne!(next.1, leader);
        trio.server(&leader).restart();
    }
}

#[test]
fn conformance_ha_3_the_leader_epoch_rises_with_every_acquisition() {
    let mut trio = Trio::start(&[]);
    let mut last = 0;
    for _ in 0..3 {
        let leader = trio.wait_leader();
        let epoch = trio.roles()[&leader]["leader_epoch"].as_u64().expect("an epoch");
        assert!(epoch > last, "{epoch} after {last}");
        last = epoch;
        wait_until("the epoch on every standby", LIMIT, || {
            let roles = trio.roles();
            ensure(roles.len() == 3 && roles.values().all(|role| role["leader_epoch"] == epoch), format!("{roles:?}"))
        });
        trio.server(&leader).kill9();
        trio.wait_other_leader(&leader);
        trio.server(&leader).restart();
    }
    // Also without a crash, and for the same controller again.
    trio.gridc().run(&["cluster", "step-down"]).exits(0);
    let leader = trio.wait_leader();
    assert!(trio.roles()[&leader]["leader_epoch"].as_u64().expect("an epoch") > last);
}

#[test]
fn conformance_ha_4_an_old_leader_cannot_commit_after_losing_leadership() {
    let mut trio = Trio::start(&[("w1", "")]);
    let old = trio.wait_leader();
    let old_epoch = trio.roles()[&old]["leader_epoch"].as_u64().expect("an epoch").to_string();
    let record = trio.record("lines");
    let running = trio.submit("running", &job("node:w1", [record_slowly(&record, "4s")]));
    record.wait_of(&running, 1);
    let agent = Agent::new("a1");
    let leased = {
        let api = trio.api(&old);
        agent.told(&api, &json!({}));
        let id = trio.submit("leased", &job("node:a1", [grid_testkit::spec::record(&record)]));
        agent.wait_lease(&api, &id)
    };
    trio.server(&old).process().pause();
    let new = trio.wait_other_leader(&old);
    // Ten seconds is far beyond every election timeout: the pause is the test.
    trio.wait_silence(&new, &old, Duration::from_secs(10));
    trio.server(&old).process().resume();

    // From its first answer on it reports that it is not the leader, and accepts no write.
    let api = trio.api(&old);
    let answer = api.post("/job", &job("all", [echo()]));
    assert!(matches!(answer.error().as_str(), "NOT_LEADER" | "NO_QUORUM"), "{answer:?}");
    assert_eq!(answer.header("x-grid-role"), Some("STANDBY"), "{answer:?}");
    // A request with the old leader's epoch is stale on every controller.
    let stale = [("x-grid-leader-epoch", old_epoch.as_str())];
    let answer = trio.api(&new).post_with("/job", &stale, &job("all", [echo()]));
    assert_eq!((answer.status, answer.error().as_str()), (409, "STALE_EPOCH"), "{answer:?}");
    assert_eq!(answer.json()["stale"], "leader");
    let answer = trio.api(&new).post_with(&format!("/job/{running}/cancel"), &stale, &json!({}));
    assert_eq!(answer.error(), "STALE_EPOCH", "{answer:?}");

    // A result with the old leader's epoch: no controller commits it.
    let answer = agent.report(&api, &leased, "success");
    assert!(matches!(answer.error().as_str(), "NOT_LEADER" | "NO_QUORUM"), "{answer:?}");
    let answer = agent.report(&trio.api(&new), &leased, "success");
    assert_eq!((answer.status, answer.error().as_str()), (409, "STALE_EPOCH"), "{answer:?}");
    let current = trio.roles()[&new]["leader_epoch"].clone();
    assert_eq!((&answer.json()["stale"], &answer.json()["leader_epoch"]), (&json!("leader"), &current), "{answer:?}");
    let id = leased["job_id"].as_str().expect("an id");
    assert_eq!(trio.api(&new).job(id).outcome(0, "a1"), "running", "nothing stale changed anything");
    let renewed = with(leased.clone(), json!({"leader_epoch": current}));
    assert_eq!(agent.report(&trio.api(&new), &renewed, "success").status, 200);
    assert_eq!(trio.api(&new).wait_ended(id).status(), "completed");

    // The result went to the new leader, once.
    let ended = trio.api(&new).wait_ended(&running);
    assert_eq!((ended.status(), record.of(&running).len()), ("completed", 1), "{ended}");
    wait_until("the old leader to follow", LIMIT, || {
        let roles = trio.roles();
        ensure(roles[&old]["leader_id"] == new && roles[&old]["role"] == "STANDBY", format!("{roles:?}"))
    });
    trio.wait_equal();
}

#[test]
fn conformance_ha_5_the_job_epoch_rejects_stale_work() {
    let mut trio = Trio::start(&[("w1", "")]);
    let record = trio.record("lines");
    let id = trio.submit("once", &job("all", [record_slowly(&record, "30s")]));
    record.wait_of(&id, 1);
    let before = trio.get(&format!("/job/{id}")).json()["job_epoch"].as_u64().expect("an epoch");
    // The worker is away while its lease is invalidated, and the leader that invalidated it dies too.
    trio.workers.get_mut("w1").expect("there").process().pause();
    let leader = trio.wait_leader();
    assert_eq!(trio.api(&leader).cancel(&id).status, 200);
    trio.server(&leader).kill9();
    let next = trio.wait_other_leader(&leader);
    trio.workers.get_mut("w1").expect("there").process().resume();
    let ended = trio.api(&next).wait_ended(&id);
    assert_eq!(ended.status(), "cancelled", "{ended}");
    assert_eq!(record.of(&id).len(), 1, "work of an epoch that is over is not done again");
    trio.server(&leader).restart();
    wait_until("resumed", LIMIT, || {
        let leader = trio.wait_leader();
        let answer = trio.api(&leader).post(&format!("/job/{id}/resume"), &json!({"rerun_once": true}));
        ensure(answer.status == 200, format!("{answer:?}"))
    });
    let after = trio.get(&format!("/job/{id}")).json()["job_epoch"].as_u64().expect("an epoch");
    assert!(after > before, "{after} after {before}");
    record.wait_of(&id, 2);
    trio.submit("other", &job("node:w1", [echo()]));
    trio.wait_equal();
}

#[test]
fn conformance_ha_5_the_job_epoch_rejects_stale_results() {
    let trio = Trio::start(&[]);
    let api = trio.api(&trio.wait_leader());
    let agent = Agent::new("a1");
    agent.told(&api, &json!({}));
    let record = trio.record("lines");
    let id = trio.submit("once", &job("all", [grid_testkit::spec::record(&record)]));
    let old = agent.wait_lease(&api, &id);
    assert_eq!(api.cancel(&id).status, 200);
    let is_stale = |answer: Answer| {
        assert_eq!((answer.status, answer.error().as_str()), (409, "STALE_EPOCH"), "{answer:?}");
        assert_eq!(answer.json()["stale"], "job", "{answer:?}");
    };
    is_stale(agent.report(&api, &old, "success"));
    assert_eq!(api.wait_ended(&id).outcome(0, "a1"), "cancelled", "and changed nothing");
    is_stale(agent.report(&api, &old, "success"));
    assert_eq!(api.post(&format!("/job/{id}/resume"), &json!({"rerun_once": true})).status, 200);
    let new = agent.wait_lease(&api, &id);
    assert!(new["job_epoch"].as_u64() > old["job_epoch"].as_u64(), "{new} after {old}");
    is_stale(agent.report(&api, &old, "success"));
    assert_eq!(agent.report(&api, &new, "success").status, 200);
    assert_eq!(api.wait_ended(&id).status(), "completed");
    trio.wait_equal();
}
