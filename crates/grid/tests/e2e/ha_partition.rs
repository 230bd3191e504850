//! Controllers that cannot reach each other, on machines of their own (network namespaces).
//!
//! Without the right to make namespaces these tests say so and do nothing; the same faults are then still tried in
//! `grid-raft`'s group tests, through a proxy.

use std::time::Duration;

use grid_testkit::spec::{echo, job};
use grid_testkit::{LIMIT, Lan, Trio, ensure, wait_until};

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

/// Submits to one of `ids` until one takes it.
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

/// Who is alone takes nothing and says so, and still answers reads.
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
    // The worker has followed: jobs end on the majority's side.
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
