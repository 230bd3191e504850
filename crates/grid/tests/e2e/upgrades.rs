//! Controllers of two versions in one cluster (L2): `--feature-level` makes one know as little as an older program does.

use grid_testkit::spec::{echo, job};
use grid_testkit::{LIMIT, Trio, ensure, wait_until};
use serde_json::Value;

fn status(trio: &Trio) -> Value {
    trio.gridc().run(&["cluster", "status", "-o", "json"]).exits(0).json()
}

fn wait_level(trio: &Trio, level: u32) {
    wait_until(&format!("feature level {level}"), LIMIT, || {
        let status = status(trio);
        ensure(status["feature_level"] == level, &status["feature_level"])
    });
}

fn run_one(trio: &Trio, key: &str) {
    let id = trio.submit(key, &job("all", [echo()]));
    assert_eq!(trio.api(&trio.wait_leader()).wait_ended(&id).status(), "completed");
}

#[test]
fn l2_the_feature_level_rises_only_when_every_controller_knows_it() {
    let mut trio = Trio::start_with("--feature-level 0", &[("w1", "")]);
    run_one(&trio, "before");
    for upgraded in ["c1", "c2"] {
        trio.server(upgraded).terminate();
        trio.server(upgraded).set_flags("");
        trio.server(upgraded).restart();
        wait_until("its record says what it knows", LIMIT, || {
            let status = status(&trio);
            let members = status["members"].as_array().cloned().unwrap_or_default();
            ensure(members.iter().any(|m| m["id"] == upgraded && m["feature_level"] == 1), &status)
        });
        // Long enough for a leader to look at the levels more than once.
        (0..20).for_each(|i| run_one(&trio, &format!("with-{upgraded}-{i}")));
        let text = trio.gridc().run(&["cluster", "status"]).exits(0).stdout;
        assert!(text.contains("as soon as every controller knows it") && text.contains("c3"), "{text}");
        assert_eq!(status(&trio)["feature_level"], 0, "one of them does not know it");
    }
    trio.server("c3").terminate();
    trio.server("c3").set_flags("");
    trio.server("c3").restart();
    wait_level(&trio, 1);
    run_one(&trio, "after");
    trio.wait_equal();
    // From here on nobody is let in who does not know it.
    let mut late = trio.server_options("c9").spawn();
    assert!(!late.process().wait_exit(LIMIT).success());
    let said = late.process().log_text();
    assert!(said.contains("c9 knows feature level 0, and the cluster makes use of 1; start a newer grid"), "{said}");
}

#[test]
fn l2_a_replica_that_meets_a_command_it_does_not_know_halts_and_says_so_and_the_others_go_on() {
    let mut trio = Trio::start(&[("w1", "")]);
    wait_level(&trio, 1);
    trio.wait_equal();
    let older = trio.standbys().remove(0);
    // Killed, so that it makes its state anew from the whole log.
    trio.server(&older).kill9();
    trio.server(&older).set_flags("--feature-level 0");
    trio.server(&older).respawn();
    assert!(!trio.server(&older).process().wait_exit(LIMIT).success());
    let said = trio.server(&older).process().log_text();
    for part in ["entry ", "of the log: command 18 is not known to this grid", "start that grid, or a newer one"] {
        assert!(said.contains(part), "{said}");
    }
    run_one(&trio, "two-go-on");
    // The newer one again: nothing was lost by the attempt.
    trio.server(&older).set_flags("");
    trio.server(&older).restart();
    trio.wait_equal();
}
