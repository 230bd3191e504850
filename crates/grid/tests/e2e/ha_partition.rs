//! Controllers that cannot reach each other, each in its own network namespace.
//!
//! Where namespaces cannot be created these tests print that and do nothing; `grid-raft`'s group tests cover the same faults
//! through a proxy.

use std::time::Duration;

use grid_testkit::spec::{echo, job};
use grid_testkit::{Gridc, LIMIT, Lan, ServerOptions, Trio, ensure, wait_until};

fn apart() -> Option<Trio> {
    let lan = Lan::try_new(3);
    if lan.is_none() {
        eprintln!("network namespaces cannot be made here: NOT RUN");
    }
    lan.map(|lan| Trio::start_apart(lan, &[("w1", "")]))
}

fn epoch(trio: &Trio, id: &str) -> u64 {
    trio.roles()[id]["leader_epoch"].as_u64().expect("an epoch")
}

fn split(trio: &Trio) -> (String, Vec<String>) {
    let leader = trio.wait_leader();
    (leader, trio.standbys())
}

fn isolate(trio: &Trio, alone: &str, cut: bool) {
    let others: Vec<&str> = trio.servers.keys().map(String::as_str).filter(|id| *id != alone).collect();
    trio.set_cut(&[alone], &others, cut);
    trio.set_cut(&others, &[alone], cut);
}

/// Submits to each of `ids` in turn until one accepts.
fn submit_to(trio: &Trio, ids: &[String], key: &str) -> String {
    wait_until("an acknowledged submit", LIMIT, || {
        let mut seen = String::new();
        for id in ids {
            match trio.api(id).with_timeout(Duration::from_secs(3)).try_submit(key, &job("all", [echo()])) {
                Ok(job) => return Ok(job),
                Err(e) => seen = e,
            }
        }
        Err(seen)
    })
}

/// An isolated controller refuses writes with the reason, and still answers reads.
fn assert_minority(trio: &Trio, alone: &str) {
    let api = trio.api(alone);
    wait_until("the minority to give up", LIMIT, || {
        let answer = api.post("/job", &job("all", [echo()]));
        assert!(answer.status != 200 && answer.status != 201, "a minority took a write: {answer:?}");
        let role = api.get("/role").json();
        ensure(role["role"] == "STANDBY" && matches!(answer.error().as_str(), "NO_QUORUM" | "NOT_LEADER"), role)
    });
    assert_eq!(api.get("/jobs").status, 200, "stale reads go on");
    assert_eq!(api.get("/jobs?consistency=strong").error(), "NO_QUORUM");
}

#[test]
fn e5_a_leader_cut_off_from_both_sides_is_replaced_and_nothing_acknowledged_is_lost() {
    let Some(trio) = apart() else { return };
    let (old, others) = split(&trio);
    let names: Vec<&str> = others.iter().map(String::as_str).collect();
    let mut acknowledged = vec![trio.submit("before", &job("all", [echo()]))];
    let before = epoch(&trio, &old);
    trio.set_cut(&[&old], &names, true);
    trio.set_cut(&names, &[&old], true);
    acknowledged.push(submit_to(&trio, &others, "during"));
    assert_minority(&trio, &old);
    let leader = wait_until("one leader among the majority", LIMIT, || {
        let leader = trio.try_leader()?;
        ensure(others.contains(&leader), &leader)?;
        Ok(leader)
    });
    assert!(epoch(&trio, &leader) > before);
    // The worker has followed: jobs finish on the majority's side.
    assert_eq!(trio.api(&leader).wait_ended(&acknowledged[1]).status(), "completed");
    trio.set_cut(&[&old], &names, false);
    trio.set_cut(&names, &[&old], false);
    acknowledged.push(trio.submit("after", &job("all", [echo()])));
    trio.wait_equal();
    for id in &acknowledged {
        assert_eq!(trio.api(&old).wait_ended(id).status(), "completed", "every controller knows it again");
    }
}

#[test]
fn e5_a_leader_that_can_only_hear_is_replaced() {
    let Some(trio) = apart() else { return };
    let (old, others) = split(&trio);
    let names: Vec<&str> = others.iter().map(String::as_str).collect();
    trio.set_cut(&[&old], &names, true);
    let during = submit_to(&trio, &others, "during");
    assert_minority(&trio, &old);
    trio.set_cut(&[&old], &names, false);
    trio.wait_equal();
    assert_eq!(trio.api(&old).wait_ended(&during).status(), "completed");
}

#[test]
fn a_standby_that_loses_one_direction_deposes_nobody() {
    let Some(trio) = apart() else { return };
    let (leader, others) = split(&trio);
    let before = epoch(&trio, &leader);
    let odd = others[0].clone();
    for (from, to) in [(odd.as_str(), leader.as_str()), (leader.as_str(), odd.as_str())] {
        trio.set_cut(&[from], &[to], true);
        // Long enough for several elections, had there been any.
        for seconds in 1..=4 {
            submit_to(&trio, std::slice::from_ref(&leader), &format!("{from}-{to}-{seconds}"));
            trio.wait_silence(&leader, &odd, Duration::from_secs(seconds));
        }
        trio.set_cut(&[from], &[to], false);
        trio.wait_equal();
        assert_eq!(trio.wait_leader(), leader);
        assert_eq!(epoch(&trio, &leader), before, "the leader was deposed by a standby that could not hear it");
    }
}

/// A controller that may lack acknowledged jobs writes no backup, unless it is asked for a stale one, which says so.
#[test]
fn issue13_12_a_cut_off_controller_writes_no_backup_that_is_stale_in_silence() {
    let Some(mut trio) = apart() else { return };
    for alone_leads in [false, true] {
        let (leader, standbys) = split(&trio);
        let alone = if alone_leads { leader } else { standbys[0].clone() };
        let others: Vec<String> = trio.servers.keys().filter(|id| **id != alone).cloned().collect();
        let before = trio.submit(&format!("before-{alone_leads}"), &job("all", [echo()]));
        assert_eq!(trio.api(&trio.wait_leader()).wait_ended(&before).status(), "completed");
        trio.wait_equal();
        let known = trio.api(&alone).get("/status").json()["applied_index"].as_u64().expect("an index");
        isolate(&trio, &alone, true);
        let during = submit_to(&trio, &others, &format!("during-{alone_leads}"));

        let gridc = Gridc::new(&trio.servers[&alone].url());
        let (file, folder) = (trio.path(&format!("{alone}.backup")), trio.path(&format!("restored-{alone_leads}")));
        let name = file.to_str().expect("a plain path");
        let refused = gridc.run(&["cluster", "backup", "-o", name]).exits(3);
        assert!(refused.stderr.contains("NO_QUORUM") && refused.stderr.contains("--stale"), "{}", refused.stderr);
        assert!(!file.exists(), "nothing was written");
        assert_eq!(trio.api(&alone).get("/api/v1/cluster/backup").error(), "NO_QUORUM");

        let written = gridc.run(&["cluster", "backup", "-o", name, "--stale"]).exits(0);
        assert!(written.stderr.contains("warning: stale backup"), "{}", written.stderr);
        let line = |word: &str| written.stdout.lines().any(|line| line.contains(word));
        assert!(line("stale") && line("yes") && line("leader epoch"), "{}", written.stdout);
        // The file says how old its state is, and so does the server that is made from it.
        let mut restored = ServerOptions::new("c9", folder).restore(&file).spawn();
        restored.wait_ready();
        let said = restored.process().log_text();
        for part in ["stale", "state_of", "index", "leader_epoch"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let api = restored.api();
        assert_eq!(api.job(&before).status(), "completed");
        assert_eq!(api.get(&format!("/job/{during}")).status, 404, "acknowledged elsewhere, and not in this file");
        assert!(api.get("/status").json()["applied_index"].as_u64() >= Some(known));
        restored.kill9();

        isolate(&trio, &alone, false);
        trio.wait_equal();
        let fresh = trio.path(&format!("{alone}.fresh"));
        let told = gridc.run(&["cluster", "backup", "-o", fresh.to_str().expect("plain")]).exits(0);
        assert!(!told.stderr.contains("stale"), "{}", told.stderr);
    }
    // Every majority is gone, and so is every current backup.
    let (leader, standbys) = split(&trio);
    standbys.iter().for_each(|id| trio.server(id).process().pause());
    let gridc = Gridc::new(&trio.servers[&leader].url());
    let file = trio.path("frozen.backup");
    gridc.run(&["cluster", "backup", "-o", file.to_str().expect("plain")]).exits(3);
    gridc.run(&["cluster", "backup", "-o", file.to_str().expect("plain"), "--stale"]).exits(0);
    standbys.iter().for_each(|id| trio.server(id).process().resume());
}
