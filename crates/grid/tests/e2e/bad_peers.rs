//! The workers' port under clients that are not workers: garbage, HTTP/1, invalid frames, invalid calls, silence. The server
//! stays up, its memory stays bounded, and its real worker is not affected.
//!
//! HTTP/2 is written by hand here: a client library would not send what has to be refused.

use grid_testkit::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, call, frame, hello,
};
use grid_testkit::spec::{echo, job, sleep};
use grid_testkit::{Cluster, LIMIT, Raw, ensure, wait_until};

use crate::bad_input::{assert_unharmed, one_node};

pub fn message(claimed: u32, bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &claimed.to_be_bytes(), bytes].concat()
}

fn whole_call(path: &str, body: &[u8]) -> Vec<u8> {
    [hello(), call(1, path), frame(DATA, END_STREAM, 1, body)].concat()
}

/// Each message is refused, cut off or ignored.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let beat = "/grid.worker.v1.Fabric/Heartbeat";
    let register = "/grid.worker.v1.Fabric/RegisterNode";
    let noise: Vec<u8> = (0..4_096_u32).map(|i| u8::try_from(i * 7919 % 251).expect("below 251")).collect();
    let lying = |kind: u8| [&hello()[..], &[0xff, 0xff, 0xff, kind, 0, 0, 0, 0, 1], &noise].concat();
    let resets = |count: u32| -> Vec<u8> {
        let each =
            (0..count).flat_map(|i| [call(2 * i + 1, beat), frame(RST_STREAM, 0, 2 * i + 1, &[0, 0, 0, 8])].concat());
        hello().into_iter().chain(each).collect()
    };
    let opens =
        |count: u32| -> Vec<u8> { hello().into_iter().chain((0..count).flat_map(|i| call(2 * i + 1, beat))).collect() };
    let pings: Vec<u8> = hello().into_iter().chain((0..20_000).flat_map(|_| frame(PING, 0, 0, &[0; 8]))).collect();
    let endless_headers: Vec<u8> = hello()
        .into_iter()
        .chain(frame(HEADERS, 0, 1, &[0; 100]))
        .chain((0..500).flat_map(|_| frame(CONTINUATION, 0, 1, &[0; 8_000])))
        .collect();
    vec![
        ("noise", noise.clone()),
        ("zeros", vec![0; 100_000]),
        ("HTTP/1", b"GET /jobs HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("half a preface", PREFACE[..10].to_vec()),
        ("a preface and noise", [PREFACE, &noise].concat()),
        ("a DATA frame of 16 MiB", lying(DATA)),
        ("a HEADERS frame of 16 MiB", lying(HEADERS)),
        ("an unknown frame of 16 MiB", lying(0x77)),
        ("headers that never end", endless_headers),
        ("headers that are noise", [hello(), frame(HEADERS, END_HEADERS, 1, &noise)].concat()),
        ("settings on a stream", [hello(), frame(SETTINGS, 0, 7, &[])].concat()),
        ("10,000 streams at once", opens(10_000)),
        ("10,000 streams opened and reset", resets(10_000)),
        ("20,000 pings", pings),
        ("an unknown call", whole_call("/grid.worker.v1.Fabric/Dance", &message(0, b""))),
        ("a path of no service", whole_call("/", &message(0, b""))),
        ("a message of 4 GiB", whole_call(beat, &message(u32::MAX, &noise))),
        ("a message above the limit", whole_call(register, &message(5 << 20, &noise))),
        ("a message cut short", whole_call(beat, &message(1_000, b"x"))),
        ("a message of noise", whole_call(beat, &message(4_096, &noise))),
        ("a registration of noise", whole_call(register, &message(4_096, &noise))),
        ("an empty registration", whole_call(register, &message(0, b""))),
        ("a compressed message", whole_call(register, &[1, 0, 0, 0, 1, 7])),
        ("a heartbeat of nobody's session", whole_call(beat, &message(2, &[0x08, 0x7f]))),
        ("the end of nobody", whole_call("/grid.worker.v1.Fabric/LeaveNode", &message(0, b""))),
        ("logs that nobody asked for", whole_call("/grid.worker.v1.Fabric/StreamLogs", &message(0, b""))),
    ]
}

fn session(cluster: &Cluster) -> serde_json::Value {
    cluster.api().try_node("web-01").expect("the worker")["session"].clone()
}

#[test]
fn what_is_no_worker_hurts_neither_the_server_nor_its_worker() {
    let mut cluster = one_node();
    let before = session(&cluster);
    let port = cluster.server.grpc_port();
    for (what, bytes) in attacks() {
        let mut peer = Raw::connect(port);
        // A closed connection is a valid answer; a hang is not.
        let _ = peer.write(&bytes);
        peer.end();
        if let Err(error) = peer.read_to_end() {
            assert!(!error.contains("os error 11"), "{what}: neither answered nor closed: {error}");
        }
        assert_eq!(cluster.api().get("/healthz").status, 200, "{what}");
    }
    assert_eq!(session(&cluster), before, "its own session was never disturbed");
    assert_unharmed(&mut cluster);
}

#[test]
fn silent_peers_are_let_go_and_keep_no_real_one_out() {
    let mut cluster = one_node();
    let port = cluster.server.grpc_port();
    let busy = cluster.api().submit(&job("all", [sleep("250s")]));
    cluster.api().wait_job(&busy, "running", |j| j.count("running") == 1);
    let mut silent: Vec<_> = (0..100).map(|_| Raw::connect(port)).collect();
    for (i, peer) in silent.iter_mut().enumerate() {
        // Nothing, half a preface, a connection without calls, a session that sends nothing.
        match i % 4 {
            0 => {}
            1 => peer.write(&PREFACE[..7]).expect("taken"),
            2 => peer.write(&hello()).expect("taken"),
            _ => peer.write(&[hello(), call(1, "/grid.worker.v1.Fabric/Heartbeat")].concat()).expect("taken"),
        }
    }
    cluster.add_worker("web-02", "");
    let id = cluster.api().submit(&job("node:web-02", [echo()]));
    assert_eq!(cluster.api().wait_ended(&id).status(), "completed");
    let pid = cluster.server.process().pid();
    let sockets = || {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a running server").flatten();
        fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:")))
            .count()
    };
    // None of them answers pings either, so that all of them are closed in the end.
    wait_until("the silent peers' end", LIMIT, || ensure(sockets() < 20, sockets()));
    assert_eq!(
        cluster.api().job(&busy).outcome(0, "web-01"),
        "running",
        "a worker that runs something is no such peer"
    );
    assert_eq!(cluster.api().cancel(&busy).status, 200);
}
