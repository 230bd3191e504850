//! Controllers restart, lose their disks, come and go.

use std::fs;

use grid_testkit::spec::{echo, job};
use grid_testkit::{LIMIT, Trio, ensure, wait_until};

fn run_one(trio: &Trio, key: &str) {
    let id = trio.submit(key, &job("all", [echo()]));
    let api = trio.api(&trio.wait_leader());
    assert_eq!(api.wait_ended(&id).status(), "completed");
}

#[test]
fn all_controllers_restart_one_after_the_other_and_all_at_once() {
    let mut trio = Trio::start(&[("w1", "")]);
    run_one(&trio, "before");
    for id in ["c1", "c2", "c3"] {
        let status = trio.server(id).terminate();
        assert!(status.success(), "{id}: {status}");
        run_one(&trio, &format!("without-{id}"));
        trio.server(id).restart();
    }
    for id in ["c1", "c2", "c3"] {
        trio.server(id).kill9();
    }
    for id in ["c3", "c1", "c2"] {
        trio.server(id).respawn();
    }
    for id in ["c1", "c2", "c3"] {
        trio.server(id).wait_ready();
    }
    run_one(&trio, "after");
    trio.wait_equal();
    assert_eq!(trio.get("/jobs").json().as_array().expect("a list").len(), 5);
}

#[test]
fn e3_a_lost_disk_needs_replace_under_the_same_name_and_a_new_name_just_joins() {
    let mut trio = Trio::start(&[("w1", "")]);
    run_one(&trio, "before");
    let lost = trio.standbys().remove(0);
    trio.server(&lost).kill9();
    fs::remove_dir_all(trio.server(&lost).data_dir()).expect("the disk is lost");

    let others: Vec<String> = trio.servers.keys().filter(|id| **id != lost).cloned().collect();
    let urls = others.iter().map(|id| trio.servers[id].url()).collect::<Vec<_>>().join(",");
    let empty = |trio: &Trio| grid_testkit::ServerOptions::new(&lost, trio.path("again")).join(&urls);
    let mut refused = empty(&trio).spawn();
    assert!(!refused.process().wait_exit(LIMIT).success());
    assert!(refused.process().log_text().contains("--replace"), "{}", refused.process().log_text());

    let replaced = empty(&trio).flags("--replace").start();
    trio.servers.insert(lost.clone(), replaced);
    run_one(&trio, "replaced");
    trio.wait_equal();
    let members = trio.get("/controllers").json();
    assert_eq!(members.as_array().expect("a list").len(), 3, "{members}");
    // The same command line, flag and all, restarts it on its own data.
    trio.server(&lost).kill9();
    trio.server(&lost).restart();
    trio.wait_equal();

    // A lost member is removed, and one of another name takes its place.
    let gone = trio.standbys().remove(0);
    trio.server(&gone).kill9();
    trio.servers.remove(&gone);
    trio.gridc().run(&["cluster", "remove", &gone]).exits(0);
    trio.add_server("c9");
    run_one(&trio, "another-name");
    trio.wait_equal();
}

#[test]
fn a_cluster_grows_to_five_survives_two_and_shrinks_to_three() {
    let mut trio = Trio::start(&[("w1", "")]);
    trio.add_server("c4");
    trio.add_server("c5");
    let status = trio.gridc().run(&["cluster", "status", "-o", "json"]).exits(0).json();
    assert_eq!((&status["voters"], &status["majority"]), (&5.into(), &3.into()), "{status}");
    run_one(&trio, "five");
    trio.wait_equal();
    let dead: Vec<String> = trio.standbys().into_iter().take(2).collect();
    for id in &dead {
        trio.server(id).kill9();
    }
    run_one(&trio, "three-of-five");
    // With two gone, no third may be taken away.
    let leader = trio.wait_leader();
    let healthy = trio.servers.keys().find(|id| **id != leader && !dead.contains(id)).expect("one more").clone();
    let ran = trio.gridc().run(&["cluster", "remove", &healthy]).exits(5);
    assert!(ran.stderr.contains("no majority"), "{ran:?}");
    let ran = trio.gridc().run(&["cluster", "remove", &leader]).exits(5);
    assert!(ran.stderr.contains("step-down"), "{ran:?}");
    for id in &dead {
        trio.gridc().run(&["cluster", "remove", id]).exits(0);
        trio.servers.remove(id);
    }
    run_one(&trio, "three");
    trio.wait_equal();
    trio.gridc().run(&["cluster", "remove", "nobody"]).exits(4);
}

#[test]
fn a_controller_that_was_away_catches_up_from_a_snapshot() {
    let mut trio = Trio::start_with("--snapshot-after 65536", &[("w1", "")]);
    let away = trio.standbys().remove(0);
    trio.server(&away).kill9();
    let log = |trio: &Trio, id: &str| {
        let files = fs::read_dir(trio.servers[id].data_dir().join("raft/snapshots")).expect("folder");
        files.count()
    };
    let leader = trio.wait_leader();
    let filler = "x".repeat(4_000);
    let big = grid_testkit::spec::task("ping", "echo", &serde_json::json!({"message": filler}));
    let mut number = 0;
    wait_until("snapshots", 2 * LIMIT, || {
        number += 1;
        let id = trio.submit(&format!("big-{number}"), &job("all", [big.clone()]));
        trio.api(&leader).wait_ended(&id);
        ensure(number > 200 && log(&trio, &leader) >= 4, format!("{number} jobs"))
    });
    trio.server(&away).restart();
    trio.wait_equal();
    let text = trio.server(&away).process().log_text();
    assert!(text.contains("receiving a snapshot"), "{text}");
}

#[test]
fn e6_a_strong_read_on_any_controller_sees_what_was_acknowledged() {
    let trio = Trio::start(&[("w1", "")]);
    for i in 0..20 {
        let id = trio.submit(&format!("k{i}"), &job("all", [echo()]));
        for server in trio.servers.values() {
            let answer = server.api().get(&format!("/job/{id}?consistency=strong"));
            assert_eq!(answer.status, 200, "{}: {answer:?}", server.node_id());
        }
    }
}

#[test]
fn a_controller_that_was_removed_says_so_and_ends_whether_it_was_there_or_away() {
    let mut trio = Trio::start(&[]);
    trio.add_server("c4");
    let leader = trio.wait_leader();
    let mut others: Vec<String> = trio.servers.keys().filter(|id| **id != leader).cloned().collect();
    let (away, live) = (others.remove(0), others.remove(0));
    trio.server(&away).kill9();
    trio.gridc().run(&["cluster", "remove", &away]).exits(0);
    trio.server(&away).respawn();
    trio.gridc().run(&["cluster", "remove", &live]).exits(0);
    for id in [&away, &live] {
        let gone = trio.server(id).process();
        assert_eq!(gone.wait_exit(LIMIT).code(), Some(5), "{id}");
        let said = gone.log_text();
        assert!(said.contains(&format!("{id} was removed from its cluster; to join again")), "{said}");
        // And again, with the same command line.
        trio.server(id).respawn();
        assert_eq!(trio.server(id).process().wait_exit(LIMIT).code(), Some(5), "{id}");
        trio.servers.remove(id);
    }
    trio.wait_equal();
    // A supervisor ends with its controller.
    let mut node = trio.server_options("c5").supervised().flags("--worker").start();
    trio.gridc().run(&["cluster", "remove", "c5"]).exits(0);
    assert_eq!(node.process().wait_exit(LIMIT).code(), Some(5), "{}", node.process().log_text());
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

/// An older copy of a data folder is restored: the member lacks entries that it acknowledged, and would vote without them.
fn run(trio: &Trio, key: &str) {
    let id = trio.submit(key, &job("all", [echo()]));
    assert_eq!(trio.api(&trio.wait_leader()).wait_ended(&id).status(), "completed");
    trio.wait_equal();
}

/// Stops a member and restores an older copy of its folder, from before entries that it has acknowledged.
fn roll_back(trio: &mut Trio, victim: &str) {
    run(trio, "first");
    let (folder, older) = (trio.server(victim).data_dir(), trio.path("older"));
    trio.server(victim).terminate();
    copy(&folder, &older);
    trio.server(victim).restart();
    (0..5).for_each(|i| run(trio, &format!("acknowledged-{i}")));
    trio.server(victim).terminate();
    std::fs::remove_dir_all(&folder).expect("removed");
    copy(&older, &folder);
}

fn ends_and_says_so(trio: &mut Trio, victim: &str) {
    trio.server(victim).respawn();
    let exit = trio.server(victim).process().wait_exit(LIMIT);
    let said = trio.server(victim).process().log_text();
    assert_eq!(exit.code(), Some(5), "{said}");
    for part in ["the raft log was rolled back", "has acknowledged entry", "--join URL --replace"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn issue13_18_a_member_whose_log_was_rolled_back_says_so_and_does_not_vote() {
    let mut trio = Trio::start(&[("w1", "")]);
    let leader = trio.wait_leader();
    let victim = trio.standbys().into_iter().find(|id| id != "c1").expect("one that joined");
    let epoch = trio.roles()[&leader]["leader_epoch"].clone();
    roll_back(&mut trio, &victim);
    ends_and_says_so(&mut trio, &victim);
    // The leader is still the leader, with all of its state.
    let said = trio.server(&leader).process().log_text();
    assert!(!said.contains("panicked"), "{said}");
    let id = trio.submit("two-go-on", &job("all", [echo()]));
    assert_eq!(trio.api(&leader).wait_ended(&id).status(), "completed");
    assert_eq!(trio.roles()[&leader]["leader_epoch"], epoch);
    // Follows the way out that the message names.
    std::fs::remove_dir_all(trio.server(&victim).data_dir()).expect("removed");
    trio.server(&victim).set_flags("--replace");
    trio.server(&victim).restart();
    run(&trio, "three-again");
}

/// The leader that counted the acknowledgements restarts without its memory; the third controller received them with
/// heartbeats.
#[test]
fn issue13_18_a_rolled_back_log_is_noticed_although_its_leader_is_gone() {
    let mut trio = Trio::start(&[("w1", "")]);
    let leader = trio.wait_leader();
    let victim = trio.standbys().into_iter().find(|id| id != "c1").expect("one that joined");
    roll_back(&mut trio, &victim);
    trio.server(&leader).kill9();
    trio.server(&leader).restart();
    trio.wait_leader();
    ends_and_says_so(&mut trio, &victim);
    let id = trio.submit("two-go-on", &job("all", [echo()]));
    assert_eq!(trio.api(&trio.wait_leader()).wait_ended(&id).status(), "completed");
}

#[test]
fn issue14_1_a_join_that_other_members_would_refuse_is_not_logged() {
    let mut trio = Trio::start(&[("w1", "")]);
    let leader = trio.wait_leader();
    let endless = "x".repeat(600);
    for (field, value) in
        [("raft_addr", endless.as_str()), ("api_url", "http://x\n"), ("grpc_addr", &endless), ("folder_id", "\u{7}")]
    {
        let mut body = serde_json::json!({
            "node_id": "evil", "raft_id": 7, "folder_id": "f", "raft_addr": "127.0.0.1:1", "api_url": "http://127.0.0.1:1",
            "grpc_addr": "127.0.0.1:1", "feature_level": 3,
        });
        body[field] = value.into();
        let answer = trio.api(&leader).post("/api/v1/cluster/members", &body);
        assert_eq!(answer.status, 422, "{field}: {answer:?}");
        assert!(answer.text.contains(field), "{answer:?}");
    }
    run_one(&trio, "after");
    trio.add_server("c4");
    trio.wait_equal();
}
