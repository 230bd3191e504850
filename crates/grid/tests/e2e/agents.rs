//! Plain HTTP agents on one controller: the contract, W10, and faults of agents.

use std::path::Path;
use std::process::Command;

use grid_testkit::spec::{echo, job, record, task, with};
use grid_testkit::{Agent, Answer, Cluster, LIMIT, Method, Process, Raw, clean, ensure, wait_until};
use serde_json::{Value, json};

/// Liveness limits that are shorter than the defaults, with room for a slow machine.
const BRISK_LIVENESS: &str = "--heartbeat-interval 500ms --warning-after 5s --unhealthy-after 8s --dead-after 12s";

/// `docs/agent.py`, as the guide starts it.
pub fn python_agent(name: &str, urls: &str, folder: &Path) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent.py");
    let mut command = clean(Command::new("python3"));
    command.arg(script).args([name, urls, "edge"]).env("NO_PROXY", "*");
    let mut agent = Process::spawn(name, command, &folder.join(format!("{name}.log")));
    agent.wait_line("agent ");
    agent
}

fn is_stale(answer: &Answer, stale: &str) {
    assert_eq!((answer.status, answer.error().as_str()), (409, "STALE_EPOCH"), "{answer:?}");
    assert_eq!(answer.json()["stale"], stale, "{answer:?}");
    assert!(answer.json()["leader_epoch"].is_u64(), "{answer:?}");
}

#[test]
fn contract_an_agent_registers_by_asking_and_a_result_counts_once() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    let said = json!({"groups": ["edge"], "labels": {"rack": "a3"}, "slots": 2, "hostname": "e1"});
    assert_eq!(agent.told(&api, &said), json!({"leases": [], "revoked": [], "leader_epoch": 1}));
    let listed = api.get("/v1/agents").json();
    let doc = &listed.as_array().expect("agents")[0];
    assert_eq!((&doc["id"], &doc["status"], &doc["agent"]), (&json!("edge-01"), &json!("online"), &json!(true)));
    assert_eq!(
        (&doc["groups"], &doc["labels"]["rack"], &doc["capacity"]["slots"]),
        (&json!(["edge"]), &json!("a3"), &json!(2))
    );

    let id = api.submit(&job("group:edge", [echo(), task("test", "record", &json!({"path": "/tmp/x"}))]));
    let lease = agent.wait_lease(&api, &id);
    for (field, wanted) in [
        ("job_epoch", json!(1)),
        ("leader_epoch", json!(1)),
        ("step", json!(0)),
        ("attempt", json!(1)),
        ("backend", json!("ping")),
        ("action", json!("echo")),
        ("params", json!({"message": "hello"})),
        ("timeout", json!("5m")),
        ("effect", json!("pure")),
    ] {
        assert_eq!(lease[field], wanted, "{field} of {lease}");
    }
    let body = with(agent.result(&lease, "success"), json!({"output": "hello there\n"}));
    let answer = api.post("/v1/results", &body);
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("success")), "{answer:?}");
    is_stale(&api.post("/v1/results", &body), "settled");
    is_stale(&agent.report(&api, &lease, "failed"), "settled");
    assert_eq!(api.get(&format!("/job/{id}/output/0/edge-01")).text, "hello there\n");

    let once = agent.wait_lease(&api, &id);
    assert_eq!((&once["step"], &once["effect"]), (&json!(1), &json!("once")));
    let failed = with(agent.result(&once, "failed"), json!({"error": "no such folder"}));
    assert_eq!(api.post("/v1/results", &failed).status, 200);
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.error(1, "edge-01")), ("failed", "no such folder"), "{ended}");
    is_stale(&agent.report(&api, &lease, "success"), "settled");
}

#[test]
fn w4_a_result_of_an_earlier_attempt_is_stale() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    agent.told(&api, &json!({}));
    let id = api.submit(&job("all", [with(echo(), json!({"max_retries": 1}))]));
    let first = agent.wait_lease(&api, &id);
    assert_eq!(agent.report(&api, &first, "failed").status, 200);
    let second = agent.wait_lease(&api, &id);
    assert_eq!((&second["attempt"], &second["job_epoch"]), (&json!(2), &json!(1)));
    is_stale(&agent.report(&api, &first, "success"), "attempt");
    assert_eq!(agent.report(&api, &second, "cancelled").json()["status"], "failed", "nobody had asked for it");
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.attempts(0, "edge-01")), ("failed", 2), "{ended}");
}

#[test]
fn w10_a_once_lease_is_in_one_answer_and_unknown_if_nobody_hears_of_it() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    agent.told(&api, &json!({"slots": 4}));
    let lines = cluster.record("lines");
    let once = with(record(&lines), json!({"timeout": "1s"}));
    let lost = api.submit(&job("all", [once]));
    let given = agent.wait_lease(&api, &lost);
    let pure = api.submit(&job("all", [echo()]));
    let first = agent.wait_lease(&api, &pure);
    assert_eq!(agent.leases(&api, &json!({"held": [first["lease_id"]]})), Vec::<Value>::new());
    let again = agent.wait_lease(&api, &pure);
    assert_eq!(first, again, "after 3 s it is given again, under the same id");
    // The agent polls all the time, so it is alive; only the lease is lost.
    let ended = wait_until("the end of the lost step", LIMIT, || {
        let told = agent.told(&api, &json!({"held": [first["lease_id"]]}));
        assert!(told["leases"].as_array().is_some_and(Vec::is_empty), "{told}");
        let job = api.try_job(&lost)?;
        ensure(job.ended(), &job)?;
        Ok(job)
    });
    assert_eq!((ended.status(), ended.outcome(0, "edge-01")), ("failed", "unknown"), "{ended}");
    is_stale(&agent.report(&api, &given, "success"), "settled");
    assert_eq!(agent.report(&api, &first, "success").status, 200);
}

/// Connections to `port` that the other side has closed and the server has not.
fn half_closed(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let (local, close_wait) = (format!(":{port:04X}"), "08");
    let is_one = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).is_some_and(|address| address.ends_with(&local)) && words.get(3) == Some(&close_wait)
    };
    table.lines().filter(is_one).count()
}

#[test]
fn a_question_that_is_broken_off_takes_nothing_with_it() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    agent.told(&api, &json!({}));
    let body = agent.question(&json!({"wait": "60s"})).to_string();
    let head = format!("POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    for round in 0..5 {
        let mut polls: Vec<Raw> = (0..4).map(|_| Raw::connect(cluster.server.api_port())).collect();
        for poll in &mut polls {
            poll.write(format!("{head}{body}").as_bytes()).expect("written");
        }
        drop(polls);
        let port = cluster.server.api_port();
        wait_until("the server to let go of them", LIMIT, || match half_closed(port) {
            0 => Ok(()),
            left => Err(format!("{left} are open on its side")),
        });
        let lines = cluster.record(&format!("lines-{round}"));
        let id = api.submit(&job("all", [record(&lines)]));
        let lease = agent.wait_lease(&api, &id);
        assert_eq!(agent.report(&api, &lease, "success").status, 200);
        assert_eq!(api.wait_ended(&id).status(), "completed");
    }
}

#[test]
fn w9_a_cancel_reaches_an_agent_that_waits_and_its_result_confirms_it() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    agent.told(&api, &json!({}));
    let lines = cluster.record("lines");
    let id = api.submit(&job("all", [record(&lines)]));
    assert!(api.get(&format!("/job/{id}/why")).text.contains("waits for agent edge-01 to ask for it"));
    let lease = agent.wait_lease(&api, &id);
    let waiting = {
        let (api, agent, held) = (api.clone(), agent.clone(), json!([lease["lease_id"]]));
        std::thread::spawn(move || agent.told(&api, &json!({"wait": "25s", "held": held})))
    };
    assert_eq!(api.cancel(&id).status, 200);
    let told = waiting.join().expect("its own panic is above");
    assert_eq!(told["revoked"], json!([lease["lease_id"]]), "{told}");
    assert_eq!(api.job(&id).count("running"), 1, "not before the agent says so");
    is_stale(&agent.report(&api, &lease, "success"), "job");
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.outcome(0, "edge-01")), ("cancelled", "cancelled"), "{ended}");
    assert!(ended.result_reason(0, "edge-01").contains("it had already ended: success"), "{ended}");

    let second = api.submit(&job("all", [record(&lines)]));
    let lease = agent.wait_lease(&api, &second);
    assert_eq!(api.cancel(&second).status, 200);
    let answer = agent.report(&api, &lease, "cancelled");
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("cancelled")), "{answer:?}");
    assert_eq!(api.wait_ended(&second).outcome(0, "edge-01"), "cancelled");

    let unasked = api.submit(&job("all", [record(&lines)]));
    api.cancel(&unasked);
    assert_eq!(api.wait_ended(&unasked).outcome(0, "edge-01"), "cancelled", "it was never given to anybody");
}

#[test]
fn w10_a_server_killed_with_leases_out_gives_none_of_the_once_ones_again() {
    let mut cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    agent.told(&api, &json!({"slots": 4}));
    let lines = cluster.record("lines");
    let (once, pure) = (api.submit(&job("all", [record(&lines)])), api.submit(&job("all", [echo()])));
    let given = agent.wait_lease(&api, &once);
    let first = agent.wait_lease(&api, &pure);
    cluster.server.kill9();
    cluster.server.restart();
    let again = agent.wait_lease(&api, &pure);
    assert_eq!((&again["lease_id"], &again["leader_epoch"]), (&first["lease_id"], &json!(2)), "under the new leader");
    assert_eq!(agent.leases(&api, &json!({})), Vec::<Value>::new(), "the once lease is the agent's");
    let answer = agent.report(&api, &given, "success");
    is_stale(&answer, "leader");
    let renewed = with(given, json!({"leader_epoch": answer.json()["leader_epoch"]}));
    assert_eq!(agent.report(&api, &renewed, "success").status, 200);
    assert_eq!(agent.report(&api, &again, "success").status, 200);
    for id in [once, pure] {
        assert_eq!(api.wait_ended(&id).status(), "completed");
    }
}

#[test]
fn w1_one_name_is_one_agent_or_one_worker() {
    let mut cluster = Cluster::start(&[("w1", "")]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    let refused = Agent::new("w1").ask(&api, &json!({}));
    assert_eq!((refused.status, refused.error().as_str()), (409, "DUPLICATE_NODE"), "{refused:?}");
    let refused = api.post(
        "/v1/results",
        &Agent::new("w1").result(
            &json!({"lease_id": "lease-0000000000000-1-0-1-1",
        "job_id": "job-0000000000000", "job_epoch": 1, "leader_epoch": 1, "step": 0, "attempt": 1}),
            "success",
        ),
    );
    assert_eq!((refused.status, refused.error().as_str()), (409, "CONFLICT"), "{refused:?}");

    agent.told(&api, &json!({"instance": "one"}));
    let lines = cluster.record("lines");
    let id = api.submit(&job("node:edge-01", [record(&lines)]));
    let given = wait_until("a lease", LIMIT, || {
        let leases = agent.leases(&api, &json!({"instance": "one"}));
        leases.into_iter().next().ok_or_else(|| "none".to_owned())
    });
    let second = agent.ask(&api, &json!({"instance": "two"}));
    assert_eq!(second.error(), "DUPLICATE_NODE", "{second:?}");
    let mut worker = cluster.worker_options("edge-01").spawn();
    let log = wait_until("the worker to be refused", LIMIT, || {
        let text = worker.process().log_text();
        // The poll keeps the agent alive for the leader.
        agent.told(&api, &json!({"instance": "one", "held": [given["lease_id"]]}));
        ensure(text.contains("DUPLICATE_NODE"), &text)?;
        Ok(text)
    });
    assert!(log.contains("edge-01"), "{log}");
    drop(worker);
    wait_until("the second one to take over", LIMIT, || {
        let answer = agent.ask(&api, &json!({"instance": "two"}));
        ensure(answer.status == 200, format!("{answer:?}"))
    });
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "edge-01"), "unknown", "nobody knows what became of the first: {ended}");
    cluster.worker("w1").kill9_tree();
}

#[test]
fn a_drained_agent_gets_nothing_and_a_removed_one_is_refused_until_it_is_another() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    agent.told(&api, &json!({}));
    let id = api.submit(&job("all", [echo(), echo()]));
    let lease = agent.wait_lease(&api, &id);
    let remove = |path: &str| api.request(Method::DELETE, path, &[], None).expect("an answer");
    assert_eq!(remove("/v1/agents/edge-01").error(), "CONFLICT", "it is alive");
    assert_eq!(api.post("/node/edge-01/drain", &json!({})).status, 200);
    assert_eq!(agent.report(&api, &lease, "success").status, 200, "what runs may end");
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(1, "edge-01"), "skipped", "{ended}");
    assert_eq!(agent.leases(&api, &json!({})), Vec::<Value>::new());
    let waiting = {
        let (api, agent) = (api.clone(), agent.clone());
        std::thread::spawn(move || agent.ask(&api, &json!({"wait": "25s"})))
    };
    let stale = api.request(Method::DELETE, "/v1/agents/edge-01", &[("x-grid-leader-epoch", "7")], None);
    is_stale(&stale.expect("an answer"), "leader");
    let removed = remove("/v1/agents/edge-01");
    assert_eq!((removed.status, &removed.json()["status"]), (200, &json!("removed")), "{removed:?}");
    let refused = waiting.join().expect("its own panic is above");
    assert_eq!(refused.error(), "CONFLICT", "the open question is told, too: {refused:?}");
    assert_eq!(agent.ask(&api, &json!({})).error(), "CONFLICT");
    assert_eq!(agent.report(&api, &lease, "success").error(), "NOT_FOUND");
    assert_eq!(api.get("/v1/agents").json(), json!([]));
    assert_eq!(remove("/v1/agents/edge-01").error(), "NOT_FOUND");
    assert_eq!(agent.ask(&api, &json!({"instance": "new"})).status, 200);
    assert_eq!(api.get("/v1/agents/edge-01").json()["state"], "ready");
}

#[test]
fn a_silent_agent_is_dead_and_what_it_never_got_is_not_unknown() {
    let cluster = Cluster::start_with(BRISK_LIVENESS, &[]);
    let (api, silent, there) = (cluster.api(), Agent::new("silent"), Agent::new("there"));
    silent.told(&api, &json!({}));
    there.told(&api, &json!({}));
    let lines = cluster.record("lines");
    let given = api.submit(&job("node:silent", [record(&lines)]));
    silent.wait_lease(&api, &given);
    // Its only slot is taken: the second job has no lease for it yet, but has one for the other agent.
    let never = api.submit(&with(job("all", [record(&lines)]), json!({"strategy": "continue"})));
    let open = std::thread::spawn({
        let (api, there) = (api.clone(), there.clone());
        move || there.leases(&api, &json!({"wait": "20s"}))
    });
    let lease = open.join().expect("its own panic is above").remove(0);
    assert_eq!(there.report(&api, &lease, "success").status, 200);
    // An open poll counts as a heartbeat for as long as it is open.
    let waiting = std::thread::spawn({
        let (api, there) = (api.clone(), there.clone());
        move || there.told(&api, &json!({"wait": "20s"}))
    });
    api.wait_node("silent", "dead");
    assert_eq!(api.wait_ended(&given).outcome(0, "silent"), "unknown");
    assert_eq!(api.wait_ended(&never).outcome(0, "silent"), "skipped");
    assert_eq!(api.try_node("there").expect("known")["state"], "ready");
    waiting.join().expect("its own panic is above");
    silent.told(&api, &json!({}));
    assert_eq!(api.try_node("silent").expect("known")["state"], "ready", "back by asking");
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let cluster = Cluster::start(&[]);
    let api = cluster.api();
    for path in ["/v1/leases", "/v1/results"] {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let huge = format!("{{\"agent\": \"{}\"}}", "a".repeat(2_000_000));
        for body in
            ["", "null", "[]", "{}", "{\"agent\":7}", "\u{0}", "{\"agent\":\"a\",\"agent\":\"a\"}", &deep, &huge]
        {
            let answer = api.request(Method::POST, path, &[], Some(body.to_owned())).expect("an answer");
            assert!((400..500).contains(&answer.status), "{path} {}: {answer:?}", &body[..body.len().min(40)]);
            assert!(!answer.error().is_empty(), "{answer:?}");
        }
    }
    assert_eq!(api.get("/v1/agents").json(), json!([]), "nobody was registered by it");
}

#[test]
fn the_agent_of_the_guide_runs_jobs_and_stops_what_is_cancelled() {
    let cluster = Cluster::start(&[]);
    let api = cluster.api();
    let mut agent = python_agent("edge-01", &cluster.server.url(), cluster.dir());
    api.wait_node("edge-01", "ready");
    let lines = cluster.record("lines");
    let id = api.submit(&job("group:edge", [echo(), record(&lines)]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(lines.of(&id), [(1, "edge-01".to_owned(), 1)]);
    let followed = cluster
        .gridc()
        .run(&["job", "run", "-t", "group:edge", "ping", "echo", "--message", "hi", "--follow"])
        .exits(0);
    assert!(followed.stdout.contains("edge-01 | hi"), "{followed:?}");
    assert!(!followed.stderr.contains("away"), "{followed:?}");
    let long = api.submit(&job("all", [task("ping", "sleep", &json!({"duration": "10m"}))]));
    wait_until("the agent to sleep", LIMIT, || {
        let why = api.get(&format!("/job/{long}/why")).text;
        ensure(why.contains("runs on edge-01"), why)
    });
    assert_eq!(api.cancel(&long).status, 200);
    let ended = api.wait_ended(&long);
    assert_eq!(ended.outcome(0, "edge-01"), "cancelled", "{ended}");
    assert!(agent.is_running());
    agent.kill9();
}
