//! Connections cannot end a controller: a server with few open files, and clients that take as many connections as they can.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use grid_testkit::spec::{job, task};
use grid_testkit::{Api, LIMIT, Process, Raw, WorkerOptions, bin, clean, ensure, free_port, wait_until};
use serde_json::json;

const OPEN_FILES: u32 = 256;

/// An HTTP/2 client that opens a connection and sends no request.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const LISTENS: &[u8] = b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Connections that stay open, as many as the server accepts.
fn crowd(port: u16, hello: &[u8]) -> Vec<TcpStream> {
    let connected = (0..2 * OPEN_FILES).map_while(|_| {
        let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).ok()?;
        let _ = stream.write_all(hello);
        Some(stream)
    });
    connected.collect()
}

#[test]
fn issue13_connections_that_take_every_open_file_do_not_end_a_controller() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (port, grpc, raft) = (free_port(), free_port(), free_port());
    // Snapshots after 64 KiB of log.
    let mut command = clean(Command::new("prlimit"));
    command.arg(format!("--nofile={OPEN_FILES}:{OPEN_FILES}")).arg(bin("grid"));
    command.args(["server", "--node-id", "c1", "--bootstrap", "--snapshot-after", "65536"]);
    command.args(["--api", &format!("127.0.0.1:{port}"), "--grpc", &format!("127.0.0.1:{grpc}")]);
    command.args(["--raft", &format!("127.0.0.1:{raft}"), "--data-dir"]).arg(dir.path().join("c1"));
    let mut server = Process::spawn("grid server c1", command, &dir.path().join("log"));
    server.wait_line("grid ready ");
    let api = Api::new(&format!("http://127.0.0.1:{port}"));
    let _worker = WorkerOptions::new("w1", &format!("http://127.0.0.1:{port}"), dir.path().join("w1")).start();

    // One client was connected before, and continues.
    let mut client = Raw::connect(port);
    let mut ask = |request: &str| {
        client.write(request.as_bytes()).expect("the connection stays");
        client.read_answer().expect("an answer")
    };
    assert!(ask("GET /role HTTP/1.1\r\nhost: localhost\r\n\r\n").contains("LEADER"));

    let mut held = crowd(port, LISTENS);
    held.extend(crowd(grpc, PREFACE));
    held.extend(crowd(raft, PREFACE));
    held.extend(crowd(port, b"GET /jobs HT"));

    let snapshots = dir.path().join("c1/raft/snapshots");
    let taken = || {
        let found = std::fs::read_dir(&snapshots).map(|files| {
            let names = files.filter_map(|file| Some(file.ok()?.file_name().to_string_lossy().into_owned()));
            names.filter(|name| name.ends_with(".json")).max()
        });
        found.unwrap_or_default()
    };
    let before = taken();
    let body = job("all", [task("ping", "echo", &json!({"message": "x".repeat(60_000)}))]).to_string();
    let submit = format!(
        "POST /job HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut submitted = 0;
    wait_until("a snapshot", LIMIT, || {
        assert!(server.is_running(), "it ended after {submitted} jobs");
        if submitted < 50 {
            let answer = ask(&submit);
            assert!(answer.starts_with("HTTP/1.1 20"), "{}", answer.lines().next().unwrap_or_default());
            submitted += 1;
        } else {
            ask("GET /role HTTP/1.1\r\nhost: localhost\r\n\r\n");
        }
        ensure(taken() > before, format!("{:?} after {submitted} jobs", taken()))
    });

    // A client beyond the limit gets an answer or is closed; no client waits forever.
    let mut refused = TcpStream::connect(("127.0.0.1", port)).expect("the kernel accepts");
    refused.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    let mut text = Vec::new();
    let _ = refused.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 503") || text.starts_with("HTTP/1.1 408"), "{text}");
    assert!(server.log_text().contains("too_many_connections"), "it says so");

    drop(held);
    wait_until("places that are free again", LIMIT, || {
        let status = api.try_get("/status")?;
        ensure(status.status == 200 && status.json()["snapshot_problem"].is_null(), format!("{status:?}"))
    });
    wait_until("every job", LIMIT, || {
        let ended = api.try_get("/api/v1/namespaces/default/jobs?limit=1000&status=completed")?;
        ensure(ended.json()["items"].as_array().map(Vec::len) == Some(submitted), format!("{}", ended.status))
    });
    server.terminate();
    assert_eq!(server.wait_exit(LIMIT).code(), Some(0));
}
