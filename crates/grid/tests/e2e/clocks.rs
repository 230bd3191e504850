//! Clocks (W6, V1): a wall clock that jumps by years ends no lease, no job and no node; a server that was stopped for longer
//! than a node may be silent declares no node dead for it.
//!
//! A test cannot set the wall clock of the machine, so the first test connects the parts of the binary, with real sockets,
//! processes and files, around its own clock. The other test stops the real process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use grid_controller::{Caller, Controller, Jobs, Opening, Pace, Quotas, Settings, Start, Thresholds};
use grid_fabric::GrpcDialer;
use grid_testkit::spec::{fail, job, record_slowly, sleep, with};
use grid_testkit::{Api, Cluster, LIMIT, Record, ensure, wait_until};
use grid_types::clock::{Clock, SystemClock};
use grid_types::{Code, JobId, JobRef};
use grid_worker::machine::{self, HttpDirectory};
use grid_worker::seams::{Host, Seams};
use grid_worker::{Shutdown, WorkerConfig};
use serde_json::json;
use tokio::net::TcpListener;

use crate::staging::QUICK_LIVENESS;

const YEAR_MS: u64 = 365 * 24 * 3_600_000;

/// Real monotonic time; the wall clock is a year later at every read.
struct WildClock {
    real: SystemClock,
    looks: AtomicU64,
}

impl Clock for WildClock {
    fn mono_ms(&self) -> u64 {
        self.real.mono_ms()
    }

    fn wall_ms(&self) -> u64 {
        let years = self.looks.fetch_add(1, Ordering::Relaxed) % 3;
        self.real.wall_ms() - YEAR_MS + years * YEAR_MS
    }
}

fn wild() -> Arc<WildClock> {
    Arc::new(WildClock { real: SystemClock::new(), looks: AtomicU64::new(0) })
}

/// A controller and the worker `web-01`, both with wild clocks; the API's URL.
async fn start(dir: &Path) -> (Controller, String) {
    let bind = || TcpListener::bind("127.0.0.1:0");
    let (api, grpc) = (bind().await.expect("a port"), bind().await.expect("a port"));
    let url = format!("http://{}", api.local_addr().expect("bound"));
    let settings = Settings {
        node_id: "n1".parse().expect("a name"),
        api_url: url.clone(),
        grpc_addr: grpc.local_addr().expect("bound").to_string(),
        quotas: Quotas::default(),
        thresholds: Thresholds { warning_ms: 2_000, unhealthy_ms: 3_000, dead_ms: 5_000 },
        heartbeat_ms: 200,
        history_ms: 30 * 24 * 3_600_000,
    };
    let raft_addr = "127.0.0.1:0".to_owned();
    let opening = Opening {
        settings,
        data_dir: dir.join("n1"),
        raft_addr,
        peers: None,
        start: Start::Bootstrap,
        feature_level: grid_controller::FEATURE_LEVEL,
        starts_paused: false,
        pace: Pace::default(),
        clock: wild(),
        tasks: grid_tasks::Tasks::default(),
    };
    let controller = Controller::open(opening).await.expect("an empty folder");
    tokio::spawn(grid_fabric::serve(grpc, 64, Arc::new(controller.hub()), std::future::pending()));
    tokio::spawn(grid_api::serve(
        api,
        controller.clone(),
        grid_api::Audience { hosts: grid_api::Hosts::default(), connections: 64 },
        std::future::pending::<()>(),
    ));
    controller.serves().await;
    let mut config = WorkerConfig::new(vec![url.clone()], dir.join("web-01"));
    config.node_id = Some("web-01".parse().expect("a name"));
    config.enable_backends = vec!["test".to_owned()];
    let host = Host { clock: wild(), ..machine::host() };
    let seams = Seams { host, dialer: GrpcDialer, directory: HttpDirectory };
    let (registered, ready) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        // Kept for as long as the worker runs: when it is dropped, the worker ends.
        let (_stop, stopped) = Shutdown::new();
        let told = move |_| {
            let _ = registered.send(());
        };
        grid_worker::run_with(config, seams, stopped, told).await
    });
    ready.await.expect("registered");
    (controller, url)
}

#[test]
fn w6_a_wall_clock_that_jumps_by_years_ends_no_lease_no_job_and_no_node() {
    let dir = tempfile::tempdir().expect("temp dir");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (controller, url) = runtime.block_on(start(dir.path()));
    let api = Api::new(&url);
    let session = api.try_node("web-01").expect("the worker")["session"].clone();

    // Longer than a node may be silent, shorter than any of its timeouts.
    let lines = Record::at(dir.path().join("lines"));
    let long = with(record_slowly(&lines, "6s"), json!({"timeout": "50s"}));
    let long = api.submit(&with(job("all", [long]), json!({"timeout": "55s"})));
    let retried = api.submit(&job("all", [with(fail("no luck"), json!({"max_retries": 1}))]));
    let ended = api.wait_job(&long, "its end, on a node that is always ready", |j| {
        let node = api.try_node("web-01").expect("the worker");
        assert_eq!((&node["state"], &node["session"]), (&json!("ready"), &session), "{node}");
        j.ended()
    });
    assert_eq!((ended.status(), ended.outcome(0, "web-01")), ("completed", "success"), "{ended}");
    assert_eq!(lines.of(&long).len(), 1, "it ran once");
    let retried = api.wait_ended(&retried);
    assert_eq!((retried.status(), retried.attempts(0, "web-01")), ("failed", 2), "{retried}");

    // Short timeouts still end in time, by the monotonic clock.
    let task = api.submit(&job("all", [with(sleep("280s"), json!({"timeout": "1s"}))]));
    assert_eq!(api.wait_ended(&task).outcome(0, "web-01"), "timed_out");
    let whole = api.submit(&with(job("all", [sleep("280s")]), json!({"timeout": "1s"})));
    let whole = api.wait_ended(&whole);
    assert!(whole.status() == "failed" && whole.reason().contains("timeout"), "{whole}");

    // Neither a key nor a job is forgotten years early.
    let body = job("all", [fail("again")]);
    let key = [("idempotency-key", "k")];
    let first = api.post_with("/job", &key, &body);
    assert_eq!((first.status, api.post_with("/job", &key, &body).status), (201, 200));
    assert_eq!(api.get("/jobs").json().as_array().map(Vec::len), Some(5));

    // Tested here, because only here another namespace can be named: a client in it must not learn about this job.
    let id: JobId = long.parse().expect("an id");
    let refused = |namespace: &str| {
        let job = JobRef { namespace: namespace.parse().expect("a name"), id };
        runtime.block_on(controller.cancel(&Caller::local(), &job)).expect_err("it has ended").code
    };
    assert_eq!((refused("default"), refused("other")), (Code::Conflict, Code::NotFound));
    runtime.shutdown_background();
}

#[test]
fn v1_a_server_that_was_stopped_blames_no_node_for_it() {
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &[("web-01", ""), ("web-02", ""), ("web-03", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("node:web-01", [record_slowly(&lines, "14s")]));
    lines.wait_of(&id, 1);
    let session = api.try_node("web-01").expect("the worker")["session"].clone();
    cluster.server.process().pause();
    cluster.worker("web-03").kill9();
    // Twice the silence that makes a node Dead: with the default limits, two minutes.
    let stopped = Instant::now();
    wait_until("eight seconds", LIMIT, || ensure(stopped.elapsed() > Duration::from_secs(8), "not yet"));
    cluster.server.process().resume();
    let ended = api.wait_job(&id, "its end, on nodes that are never offline", |j| {
        for node in ["web-01", "web-02"] {
            let seen = api.try_node(node).expect("a node");
            assert!(["ready", "warning"].contains(&seen["state"].as_str().unwrap_or_default()), "{seen}");
        }
        j.ended()
    });
    assert_eq!((ended.status(), ended.attempts(0, "web-01")), ("completed", 1), "{ended}");
    assert_eq!(lines.of(&id).len(), 1, "it ran once");
    assert_eq!(api.try_node("web-01").expect("the worker")["session"], session, "its session went on");
    // A node that was lost meanwhile is still found to be Dead.
    api.wait_node("web-03", "dead");
}
