//! Controllers of two versions in one cluster (L2): `--feature-level` makes one support as much as the next version will.

use grid_controller::FEATURE_LEVEL;
use grid_testkit::spec::{echo, job};
use grid_testkit::{LIMIT, Trio, ensure, wait_until};
use serde_json::Value;

fn status(trio: &Trio) -> Value {
    trio.gridc().run(&["cluster", "status", "-o", "json"]).exits(0).json()
}

const NEXT: u32 = FEATURE_LEVEL + 1;

fn newer() -> String {
    format!("--feature-level {NEXT}")
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
    let mut trio = Trio::start(&[("w1", "")]);
    assert_eq!(status(&trio)["feature_level"], FEATURE_LEVEL, "from the start");
    run_one(&trio, "before");
    for upgraded in ["c1", "c2"] {
        trio.server(upgraded).terminate();
        trio.server(upgraded).set_flags(&newer());
        trio.server(upgraded).restart();
        wait_until("its record says what it knows", LIMIT, || {
            let status = status(&trio);
            let members = status["members"].as_array().cloned().unwrap_or_default();
            ensure(members.iter().any(|m| m["id"] == upgraded && m["feature_level"] == NEXT), &status)
        });
        // Long enough for a leader to compare the levels more than once.
        (0..20).for_each(|i| run_one(&trio, &format!("with-{upgraded}-{i}")));
        let text = trio.gridc().run(&["cluster", "status"]).exits(0).stdout;
        assert!(text.contains("as soon as every controller knows it") && text.contains("c3"), "{text}");
        assert_eq!(status(&trio)["feature_level"], FEATURE_LEVEL, "one of them does not know it");
    }
    trio.server("c3").terminate();
    trio.server("c3").set_flags(&newer());
    trio.server("c3").restart();
    wait_level(&trio, NEXT);
    run_one(&trio, "after");
    trio.wait_equal();
    // From here on a controller that does not support the level cannot join.
    let mut late = trio.server_options("c9").spawn();
    assert!(!late.process().wait_exit(LIMIT).success());
    let said = late.process().log_text();
    let wanted = format!("c9 knows feature level {FEATURE_LEVEL}, and the cluster uses {NEXT}; start a newer grid");
    assert!(said.contains(&wanted), "{said}");
}

/// Both a folder that was closed cleanly and one that was not.
#[test]
fn l2_a_downgraded_controller_refuses_its_folder_and_the_others_go_on() {
    let mut trio = Trio::start_with(&newer(), &[("w1", "")]);
    wait_level(&trio, NEXT);
    trio.wait_equal();
    let older = trio.standbys().remove(0);
    for closed_in_order in [false, true] {
        if closed_in_order {
            trio.server(&older).terminate();
        } else {
            trio.server(&older).kill9();
        }
        trio.server(&older).set_flags("");
        trio.server(&older).respawn();
        assert!(!trio.server(&older).process().wait_exit(LIMIT).success());
        let said = trio.server(&older).process().log_text();
        let wanted = format!("written by a newer grid (feature level {NEXT}, this one knows {FEATURE_LEVEL})");
        for part in [wanted.as_str(), "start that grid, or a newer one, with it"] {
            assert!(said.contains(part), "{said}");
        }
        run_one(&trio, &format!("two-go-on-{closed_in_order}"));
        // The newer one again: nothing was lost by the attempt.
        trio.server(&older).set_flags(&newer());
        trio.server(&older).restart();
        trio.wait_equal();
    }
}
