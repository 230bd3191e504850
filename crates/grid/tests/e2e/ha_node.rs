//! `grid node`: a controller and a worker as children of one supervisor, never leading and working at once (E8).

use grid_testkit::procfs::{Seen, survivors};
use grid_testkit::spec::{echo, job, record_slowly, with};
use grid_testkit::{Api, LIMIT, Record, Server, ServerOptions, Trio, ensure, wait_until};
use serde_json::{Value, json};

const NODE: &str = "--worker --enable-backend test";

fn alone(dir: &tempfile::TempDir) -> Server {
    ServerOptions::new("c1", dir.path()).supervised().flags(NODE).start()
}

fn child(server: &Server, verb: &str) -> Seen {
    wait_until(&format!("the {verb} of {}", server.node_id()), LIMIT, || {
        server.child(verb).ok_or_else(|| "none".to_owned())
    })
}

fn is_online(api: &Api, node: &str) -> bool {
    let nodes = api.get("/nodes").json();
    nodes.as_array().expect("a list").iter().any(|n| n["id"] == *node && n["status"] == "online")
}

/// Waits until the workers of all standbys are online, and the leader's is not.
fn wait_settled(trio: &Trio) -> String {
    let leader = trio.wait_leader();
    wait_until("a worker beside each standby", LIMIT, || {
        for (id, server) in &trio.servers {
            let (is_on, name) = (server.child("worker").is_some(), format!("{id}-worker"));
            ensure(is_on != (*id == leader), format!("{name}: {is_on}, leader {leader}"))?;
            ensure(is_online(&trio.api(&leader), &name) == is_on, format!("{name}: {is_on} is not what is known"))?;
        }
        Ok(())
    });
    leader
}

#[test]
fn a_node_that_leads_alone_has_no_worker_and_its_controller_is_started_again() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut node = alone(&dir);
    for pause in ["1s", "2s"] {
        let before = child(&node, "server");
        before.kill9();
        wait_until("another controller", LIMIT, || ensure(child(&node, "server").pid != before.pid, "the same"));
        wait_until("it leads again", LIMIT, || {
            let role = node.api().try_get("/role")?.json();
            ensure(role["role"] == "LEADER", role)
        });
        let log = node.process().log_text();
        assert!(log.contains(&format!("it starts again in {pause}")), "{log}");
    }
    assert!(node.child("worker").is_none());
    assert_eq!(node.api().get("/nodes").json(), json!([]), "no worker was ever registered");
    let children = node.process().descendants();
    assert!(node.terminate().success());
    assert_eq!(survivors(&children), []);
}

#[test]
fn a_controller_that_refuses_its_input_is_not_started_again() {
    let dir = tempfile::tempdir().expect("temp dir");
    let backup = dir.path().join("no-backup");
    let mut node = ServerOptions::new("c1", dir.path()).supervised().flags(NODE).restore(backup).spawn();
    assert_eq!(node.process().wait_exit(LIMIT).code(), Some(2), "{}", node.process().log_text());
}

#[test]
fn children_end_when_their_supervisor_is_killed_and_the_next_one_takes_over() {
    let mut trio = Trio::start_nodes(NODE);
    let leader = wait_settled(&trio);
    let standby = trio.servers.keys().find(|id| **id != leader).expect("a standby").clone();
    let children = trio.server(&standby).process().descendants();
    assert_eq!(children.len(), 2, "{children:?}");
    trio.server(&standby).kill9();
    wait_until("the end of its children", LIMIT, || {
        let left = survivors(&children);
        ensure(left.is_empty(), format!("{left:?}"))
    });
    trio.server(&standby).restart();
    wait_settled(&trio);
    // A worker that dies is restarted.
    let worker = child(&trio.servers[&standby], "worker");
    worker.kill9();
    wait_until("another worker", LIMIT, || {
        ensure(child(&trio.servers[&standby], "worker").pid != worker.pid, "the same")
    });
    wait_settled(&trio);
    for id in ["c1", "c2", "c3"] {
        let children = trio.server(id).process().descendants();
        assert!(trio.server(id).terminate().success(), "{id}");
        assert_eq!(survivors(&children), []);
    }
}

/// Two workers are in the middle of a step when the leader's machine is lost. Until the promoted controller's worker has ended,
/// no lease is dispatched: neither to it nor to the other.
struct Promotion {
    trio: Trio,
    record: Record,
    lost: String,
    promoted: String,
    other: String,
    /// The job that runs.
    running: String,
}

impl Promotion {
    fn of(flags: &str, step: &str) -> Self {
        let mut trio = Trio::start_nodes(&format!("{NODE} {flags}"));
        let lost = wait_settled(&trio);
        let record = trio.record("lines");
        let long = with(record_slowly(&record, step), json!({"timeout": "10m"}));
        let body: Value = with(job("all", [long]), json!({"strategy": "continue"}));
        let running = trio.submit("running", &body);
        record.wait_of(&running, 2);
        trio.server(&lost).process().kill9_tree();
        let promoted = trio.wait_other_leader(&lost);
        let other = trio.servers.keys().find(|id| **id != promoted && **id != lost).expect("a third").clone();
        Self { trio, record, lost, promoted, other, running }
    }

    /// A job that is submitted now waits for the end of the new leader's local worker.
    fn nothing_is_given_out_before_the_local_worker_has_ended(&self) {
        let worker = self.trio.servers[&self.promoted].child("worker");
        let waiting = self.trio.submit("waiting", &job(&format!("node:{}-worker", self.other), [echo()]));
        let api = self.trio.api(&self.promoted);
        let mut explained = false;
        wait_until("the waiting job", 2 * LIMIT, || {
            let seen = api.job(&waiting);
            let is_alive = worker.as_ref().is_some_and(Seen::alive);
            assert!(!(is_alive && seen.ended()), "given out while the worker of the leader's machine lived: {seen}");
            if is_alive {
                let why = api.get(&format!("/job/{waiting}/why")).json();
                explained |= why["why"].as_str().is_some_and(|why| why.contains("dispatch is paused until the worker"));
            }
            ensure(seen.ended(), format!("{seen}"))
        });
        assert!(explained || worker.is_none(), "why says what it waits for");
        assert_eq!(api.job(&waiting).status(), "completed");
    }

    fn outcome(&self, of: &str) -> String {
        let job = self.trio.api(&self.promoted).job(&self.running);
        job.outcome(0, &format!("{of}-worker")).to_owned()
    }

    /// The lost machine comes back as a standby and runs its worker.
    fn the_lost_one_comes_back(mut self) {
        self.trio.server(&self.lost).restart();
        let leader = wait_settled(&self.trio);
        assert_ne!(leader, self.lost);
        let id = self.trio.submit("back", &job(&format!("node:{}-worker", self.lost), [echo()]));
        assert_eq!(self.trio.api(&leader).wait_ended(&id).status(), "completed");
        assert_eq!(self.record.duplicates(), [], "a once attempt ran twice");
        self.trio.wait_equal();
    }
}

#[test]
fn e8_a_promoted_controller_lets_its_worker_finish_before_it_gives_out_work() {
    let promotion = Promotion::of("--drain-timeout 2m", "6s");
    promotion.nothing_is_given_out_before_the_local_worker_has_ended();
    let ended = promotion.trio.api(&promotion.promoted).wait_ended(&promotion.running);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(
        (promotion.outcome(&promotion.promoted), promotion.outcome(&promotion.other)),
        pair("success", "success")
    );
    promotion.the_lost_one_comes_back();
}

/// The leader gives up on a lease 30 s after its timeout. The pause lasts longer, and leases that are not sent meanwhile have
/// no deadline.
#[test]
fn e8_what_is_not_sent_while_the_local_worker_finishes_does_not_expire() {
    let promotion = Promotion::of("--drain-timeout 2m", "45s");
    let short = with(echo(), json!({"timeout": "1s"}));
    let waiting = promotion.trio.submit("short", &job(&format!("node:{}-worker", promotion.other), [short]));
    let api = promotion.trio.api(&promotion.promoted);
    let ended = api.wait_ended_within(&waiting, 3 * LIMIT);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(api.wait_ended(&promotion.running).status(), "completed", "{ended}");
    assert_eq!(promotion.record.duplicates(), [], "a once attempt ran twice");
}

#[test]
fn e8_a_worker_that_does_not_finish_in_time_is_stopped_before_work_is_given_out() {
    let promotion = Promotion::of("--drain-timeout 3s", "500s");
    promotion.nothing_is_given_out_before_the_local_worker_has_ended();
    assert_eq!(
        (promotion.outcome(&promotion.promoted), promotion.outcome(&promotion.other)),
        pair("unknown", "running")
    );
    promotion.the_lost_one_comes_back();
}

/// The worker of a promoted controller ends and leaves a folder that is refused, so that the leases in it are not known.
#[test]
fn e8_a_refused_worker_folder_keeps_dispatch_paused_until_it_is_mended() {
    let mut trio = Trio::start_nodes(NODE);
    let lost = wait_settled(&trio);
    let standbys: Vec<String> = trio.servers.keys().filter(|id| **id != lost).cloned().collect();
    let planted = |id: &String| trio.servers[id].data_dir().join("worker/planted");
    let links: Vec<_> = standbys.iter().map(planted).collect();
    for link in &links {
        std::os::unix::fs::symlink("/etc/hostname", link).expect("a link");
    }
    trio.server(&lost).process().kill9_tree();
    let promoted = trio.wait_other_leader(&lost);
    let other = standbys.iter().find(|id| **id != promoted).expect("a third");
    let api = trio.api(&promoted);
    let waiting = trio.submit("waiting", &job(&format!("node:{other}-worker"), [echo()]));
    wait_until("the reason", LIMIT, || {
        let seen = api.job(&waiting);
        assert!(!seen.ended(), "dispatched beside what may be a worker: {seen}");
        let why = api.get(&format!("/job/{waiting}/why")).json();
        let named = why["why"].as_str().is_some_and(|why| why.contains("worker/planted is a symbolic link"));
        ensure(named, why)
    });
    assert!(!api.job(&waiting).ended());
    let log = trio.server(&promoted).process().log_text();
    assert!(log.contains("dispatch stays paused until this is fixed"), "{log}");
    for link in &links {
        std::fs::remove_file(link).expect("the link");
    }
    assert_eq!(api.wait_ended(&waiting).status(), "completed");
}

/// Before, the whole cluster dispatched nothing for as long as the folder of this one machine was refused.
#[test]
fn e8_a_leader_whose_worker_folder_stays_refused_hands_over() {
    let mut trio = Trio::start_nodes(NODE);
    let before = wait_settled(&trio);
    let standbys: Vec<String> = trio.servers.keys().filter(|id| **id != before).cloned().collect();
    let [refused, healthy] = &standbys[..] else { panic!("{standbys:?}") };
    let link = trio.servers[refused].data_dir().join("worker/planted");
    std::os::unix::fs::symlink("/etc/hostname", &link).expect("a link");
    trio.gridc().run(&["cluster", "step-down", "--to", refused]).exits(0);
    wait_until("the refused one leads and says why it does not dispatch", LIMIT, || {
        let status = trio.api(refused).try_get("/status")?.json();
        let named = status["dispatch_problem"].as_str().is_some_and(|why| why.contains("is a symbolic link"));
        ensure(named && status["role"] == "LEADER", status)
    });
    let leader = trio.wait_other_leader(refused);
    // The third has a worker; neither the refused one nor the leader has.
    let third = if leader == before { healthy } else { &before };
    let job = trio.submit("dispatched", &job(&format!("node:{third}-worker"), [echo()]));
    assert_eq!(trio.api(&leader).wait_ended(&job).status(), "completed");
    wait_until("the reason of the hand-over", LIMIT, || {
        let log = trio.server(refused).process().log_text();
        ensure(log.contains("leadership was handed over: dispatch is paused"), log)
    });
    assert!(trio.servers[refused].child("worker").is_none(), "its folder is still refused");
    std::fs::remove_file(&link).expect("the link");
    wait_until("its worker starts again", LIMIT, || {
        ensure(is_online(&trio.api(&leader), &format!("{refused}-worker")), "not online")
    });
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}
