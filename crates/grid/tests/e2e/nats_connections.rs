//! Connections to NATS that break while jobs run: of one controller, of one worker, of all (N5).

use std::time::{Duration, Instant};

use grid_testkit::spec::{echo, job, record, record_slowly};
use grid_testkit::{Cluster, Fabric, LIMIT, NatsOptions, NatsTrio, Trio, ensure, wait_until};

use crate::staging::QUICK_LIVENESS;

/// Each controller knows one of the nats-servers alone.
fn one_server_each(trio: &mut Trio) {
    let urls = trio.fabric.urls().expect("nats-servers");
    for (id, url) in ["c1", "c2", "c3"].iter().zip(urls.split(',')) {
        let server = trio.server(id);
        server.set_flags(&format!("--fabric nats --nats {url}"));
        server.terminate();
        server.restart();
    }
}

#[test]
fn n5_a_leader_without_nats_hands_over_to_a_controller_that_has_it() {
    // Clients are not told about the other servers.
    let servers = NatsTrio::start_with(&NatsOptions::new().flags("--no_advertise"));
    let mut trio = Trio::start_over(Fabric::NatsTrio(Box::new(servers)), "", &[("web-01", ""), ("web-02", "")]);
    one_server_each(&mut trio);
    let lines = trio.record("lines");
    let leader = trio.wait_leader();
    let id = trio.submit("k1", &job("all", [record_slowly(&lines, "2s"), echo(), record(&lines)]));
    lines.wait_of(&id, 2);
    let lost = ["c1", "c2", "c3"].iter().position(|id| **id == leader).expect("one of three");
    trio.fabric.servers().server(lost).kill9();
    let next = trio.wait_other_leader(&leader);
    let ended = trio.api(&next).wait_ended(&id);
    assert_eq!((ended.status(), lines.of(&id).len()), ("completed", 4), "{ended}");
    assert_eq!(lines.duplicates(), []);
    let log = trio.server(&leader).process().log_text();
    assert!(log.contains(&format!("the connection of controller {leader} to NATS is down")), "{log}");
}

#[test]
fn n5_a_server_that_hangs_is_left_and_jobs_go_on_when_it_answers_again() {
    let mut cluster = Cluster::start_over(Fabric::nats(), "", &[("web-01", ""), ("web-02", "")]);
    let (api, lines) = (cluster.api(), cluster.record("lines"));
    let id = api.submit(&job("all", [record_slowly(&lines, "1s"), echo(), record(&lines)]));
    lines.wait_of(&id, 2);
    cluster.fabric.server().pause();
    wait_until("the controller to notice", LIMIT, || {
        ensure(cluster.server.process().log_text().contains("the connection to NATS is down"), "not yet")
    });
    let why = api.get(&format!("/api/v1/namespaces/default/jobs/{id}/why")).json();
    assert!(why["why"].as_str().is_some_and(|why| why.contains("NATS is down")), "{why}");
    cluster.fabric.server().resume();
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), lines.of(&id).len()), ("completed", 4), "{ended}");
    assert_eq!(lines.duplicates(), []);
}

#[test]
fn a_fleet_that_finds_no_nats_server_at_its_start_waits_for_it() {
    let mut fabric = Fabric::nats();
    fabric.server().kill9();
    let begun = Instant::now();
    let mut cluster = Cluster::start_over(fabric, QUICK_LIVENESS, &[]);
    assert!(begun.elapsed() < LIMIT, "the API serves meanwhile");
    let mut worker = cluster.worker_options("web-01").spawn();
    wait_until("a worker that says what it waits for", LIMIT, || {
        ensure(worker.process().log_text().contains("not connected to NATS at"), "not yet")
    });
    cluster.fabric.server().restart();
    worker.wait_ready();
    cluster.workers.insert("web-01".to_owned(), worker);
    let ended = cluster.api().wait_ended_within(&cluster.api().submit(&job("all", [echo()])), Duration::from_secs(60));
    assert_eq!(ended.status(), "completed", "{ended}");
}
