//! Idle clients that stay connected, names of megabytes, and floods of requests, on the ports of workers and controllers:
//! connections are released, the log stays short and readable, memory stays bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use grid_proto::v1;
use grid_testkit::http2::{ACK, DATA, PING, call, frame, hello};
use grid_testkit::spec::{echo, job};
use grid_testkit::{Api, LIMIT, Raw, Server, Trio, ensure, wait_until};

use crate::bad_peers::message;
use crate::hostile_workers::peer::Peer;

/// Sends `bytes` and stays connected for as long as it may: it answers every ping.
fn stay(port: u16, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let _ = stream.set_read_timeout(Some(3 * LIMIT));
    if stream.write_all(bytes).is_err() {
        return;
    }
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        if head[3] == PING && head[4] & ACK == 0 && stream.write_all(&frame(PING, ACK, 0, &payload)).is_err() {
            return;
        }
    }
}

fn stubborn(port: u16, bytes: Vec<u8>) -> JoinHandle<()> {
    std::thread::spawn(move || stay(port, &bytes))
}

/// Leaves a server 16 connections for controllers and 80 for workers.
const FEW_FILES: &str = "ulimit -n 256";

/// More clients on both ports of a server than it has connections for. They make no call, and connect again when they are closed.
struct Crowd {
    is_over: Arc<AtomicBool>,
}

impl Crowd {
    fn start(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for (port, clients) in [(server.raft_port(), 24), (server.grpc_port(), 100)] {
            for _ in 0..clients {
                let is_over = Arc::clone(&is_over);
                std::thread::spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let since = Instant::now();
                        stay(port, &hello());
                        // A client that was not closed early reconnects at once, so that no other client gets its place.
                        if since.elapsed() < Duration::from_secs(10) {
                            std::thread::sleep(Duration::from_millis(500));
                        }
                    }
                });
            }
        }
        let api = server.api();
        wait_until("all connections are taken", LIMIT, || {
            let kind = "too_many_connections";
            let counts = (refused(&api, "raft", kind), refused(&api, "grpc", kind));
            ensure(counts.0 > 0 && counts.1 > 0, format!("{counts:?}"))
        });
        Self { is_over }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn refused(api: &Api, port: &str, kind: &str) -> u64 {
    api.get("/status").json()["refused"][port][kind].as_u64().unwrap_or(0)
}

#[test]
fn issue14_3_connections_without_a_valid_call_are_released() {
    let trio = Trio::start_of(1, "", &[]);
    let server = &trio.servers["c1"];
    let mut held = Vec::new();
    for (port, path) in [
        (server.raft_port(), "/grid.peer.v1.Peer/Probe"),
        (server.raft_port(), "/grid.peer.v1.Peer/Snapshot"),
        (server.grpc_port(), "/grid.worker.v1.Fabric/RegisterNode"),
        (server.grpc_port(), "/grid.worker.v1.Fabric/StreamLogs"),
    ] {
        let half = [hello(), call(1, path), frame(DATA, 0, 1, &message(1_000, b"half"))].concat();
        for bytes in [Vec::new(), hello()[..7].to_vec(), hello(), half] {
            held.push(stubborn(port, bytes));
        }
    }
    wait_until("all of them to be closed", LIMIT, || {
        let left = held.iter().filter(|thread| !thread.is_finished()).count();
        ensure(left == 0, left)
    });
    let api = trio.api("c1");
    assert_eq!(refused(&api, "raft", "silent") + refused(&api, "grpc", "silent"), 16);
}

#[test]
fn issue14_3_names_of_megabytes_reach_neither_log_nor_memory() {
    let mut trio = Trio::start_of(1, "", &[("web-01", "")]);
    let api = trio.api("c1");
    let (peak, log) = {
        let process = trio.server("c1").process();
        (process.peak_memory_kib(), process.log_text().len())
    };
    let peer = Peer::connect(trio.servers["c1"].grpc_port());
    let name = format!("x\nERROR forged: {}", "y".repeat(3 << 19));
    for round in 0..40 {
        let text = format!("{round}{name}");
        let request = v1::RegisterNodeRequest { node_id: text.clone(), cluster_id: text.clone(), ..Default::default() };
        assert!(peer.register(request).is_err());
        let leave = v1::NodeSession { node_id: text.clone(), ..Default::default() };
        let left = peer.call(async |mut client| client.leave_node(leave).await);
        assert!(left.is_err());
    }
    let process = trio.server("c1").process();
    let text = process.log_text();
    assert!(text.len() < log + 20_000, "{} bytes of log", text.len());
    assert!(text.lines().all(|line| !line.starts_with("ERROR forged")), "a forged line");
    let grown = process.peak_memory_kib().saturating_sub(peak);
    assert!(grown < 100 * 1024, "the server grew by {grown} KiB");
    assert!(refused(&api, "grpc", "too_large") >= 40, "an end of a node is small");
    let id = api.submit(&job("all", [echo()]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
}

#[test]
fn issue14_3_a_crowd_that_takes_every_connection_keeps_no_controller_out() {
    let mut trio = Trio::start_of(0, "", &[]);
    let mut crowds = Vec::new();
    for id in ["c1", "c2", "c3"] {
        // Each crowd is there before the other controllers and the worker connect.
        let server = trio.server_options(id).prelude(FEW_FILES).start();
        crowds.push(Crowd::start(&server));
        trio.servers.insert(id.to_owned(), server);
    }
    let worker = trio.worker_options("web-01").start();
    trio.workers.insert("web-01".to_owned(), worker);
    let leader = trio.wait_leader();
    trio.server(&leader).kill9();
    trio.wait_other_leader(&leader);
    trio.server(&leader).restart();
    let id = trio.submit("in-a-crowd", &job("all", [echo()]));
    wait_until("the job to end", 2 * LIMIT, || {
        let jobs = trio.get(&format!("/job/{id}")).json();
        ensure(jobs["status"] == "completed", &jobs["status"])
    });
    trio.wait_equal();
}

#[test]
fn issue14_3_what_the_api_refuses_is_counted() {
    let trio = Trio::start_of(1, "", &[]);
    let port = trio.servers["c1"].api_port();
    let large = format!(
        "POST /job HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        2 << 20
    );
    for (kind, request) in [
        ("wrong_host", "GET /jobs HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"),
        (
            "other_origin",
            "POST /job HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\nconnection: close\r\n\r\n",
        ),
        ("too_large", &large),
        ("malformed", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("malformed", "\x16\x03\x01\x02\x00\x01\x00\x01"),
    ] {
        let mut client = Raw::connect(port);
        client.write(request.as_bytes()).expect("sent");
        // A request whose client has closed its side may be dropped before it is looked at.
        if !request.contains("connection: close") {
            client.end();
        }
        let _ = client.read_to_end();
        let api = trio.api("c1");
        wait_until(kind, LIMIT, || ensure(refused(&api, "api", kind) > 0, kind));
    }
    let said = trio.gridc().run(&["status"]).stdout;
    assert!(said.contains("refused") && said.contains("1 wrong_host"), "{said}");
}
