//! Runs the suites of jobs, leases and failovers again, with NATS in place of gRPC: a promise holds on both fabrics.
//!
//! The same executable, so that nothing is built twice; `GRID_TEST_FABRIC` makes every cluster of these tests use NATS.

use std::process::Command;

/// Tests of what only gRPC has: workers that learn the addresses of controllers.
const OF_GRPC: [&str; 2] = ["a_worker_learns_of_controllers_that_join", "a_worker_that_was_given_one_controller"];

fn run(suites: &[&str]) {
    let own = std::env::current_exe().expect("the path of this executable");
    let mut command = Command::new(own);
    command.args(suites).env("GRID_TEST_FABRIC", "nats").env("RUST_TEST_THREADS", "2");
    for test in OF_GRPC {
        command.args(["--skip", test]);
    }
    let ran = command.output().expect("the tests run");
    let (said, log) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "over NATS:\n{said}\n{log}");
    assert!(!said.contains("\nrunning 0 tests"), "no test of {suites:?} was found:\n{said}");
}

#[test]
fn jobs_over_nats() {
    run(&["strategies::", "retries::", "conditions::", "waits::", "targets::", "order::", "tasks::", "endings::"]);
}

#[test]
fn leases_over_nats() {
    run(&["once::", "restarts::", "silence::", "nodes::", "logs::", "outputs::"]);
}

#[test]
fn failovers_over_nats() {
    run(&["ha_failover::", "ha_conformance::", "ha_node::"]);
}
