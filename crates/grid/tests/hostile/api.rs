//! Attacks on the API port: clients that are broken, slow, greedy or pretend to be an agent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use grid_testkit::Dice;

use crate::Attack;
use crate::target::Target;

pub const ATTACKS: &[Attack] = &[
    ("api: requests that are no HTTP", no_http),
    ("api: unfinished bodies", unfinished),
    ("api: bodies that are no job", no_job),
    ("api: invented agents", agents),
    ("api: forged results", results),
    ("api: greedy readers", readers),
];

fn open(target: &Target) -> Option<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", target.api)).ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    socket.set_write_timeout(Some(Duration::from_secs(2))).ok()?;
    Some(socket)
}

fn send(target: &Target, bytes: &[u8]) {
    let Some(mut socket) = open(target) else { return };
    let _ = socket.write_all(bytes);
    let mut answer = [0; 4096];
    let _ = socket.read(&mut answer);
}

fn post(target: &Target, path: &str, body: &str) {
    let head = "content-type: application/json\r\nconnection: close";
    let length = body.len();
    send(
        target,
        format!("POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}")
            .as_bytes(),
    );
}

fn no_http(target: &Target, dice: &mut Dice) {
    let long = "x".repeat(1 << dice.roll(18));
    let request = match dice.roll(6) {
        0 => format!("GET /{long} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        1 => format!("GET /jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nx: {long}\r\n\r\n"),
        2 => "POST /job HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999999999999999999\r\n\r\n{}".to_owned(),
        3 => "POST /job HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffff\r\nx".to_owned(),
        4 => format!("BREW /job HTTP/1.1\r\nhost: evil.example\r\nx-grid-leader-epoch: {}\r\n\r\n", u64::MAX),
        _ => format!("\u{0}\u{1}\r\n{long}\r\n\r\n"),
    };
    send(target, request.as_bytes());
}

fn unfinished(target: &Target, dice: &mut Dice) {
    let sockets: Vec<_> = (0..dice.roll(30)).filter_map(|_| open(target)).collect();
    for mut socket in &sockets {
        let _ = socket.write_all(b"POST /job HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n");
        let _ = socket.write_all(b"content-length: 70000\r\n\r\n{\"target\":");
    }
}

fn no_job(target: &Target, dice: &mut Dice) {
    let body = match dice.roll(5) {
        0 => "[".repeat(1 << dice.roll(16)),
        1 => format!("{{\"target\":{{\"scope\":\"all\"}},\"tasks\":[{}]}}", "{},".repeat(5_000)),
        2 => format!("{{\"name\":\"{}\"}}", "\\u202e".repeat(50_000)),
        3 => "{\"target\":{\"scope\":\"all\"},\"tasks\":[{\"backend\":\"test\",\"action\":\"dance\"}]}".to_owned(),
        _ => "x".repeat(2 << 20),
    };
    let path = *dice.pick(&["/job", "/v1/jobs", "/api/v1/namespaces/default/jobs", "/job/1/cancel"]);
    post(target, path, &body);
}

fn agents(target: &Target, dice: &mut Dice) {
    let agent = match dice.roll(4) {
        0 => dice.pick(&target.nodes).clone(),
        1 => "\\n".repeat(1 << dice.roll(12)),
        _ => format!("agent-{}", dice.roll(100)),
    };
    post(target, "/v1/leases", &format!("{{\"agent\":\"{agent}\",\"wait\":\"0s\"}}"));
}

fn results(target: &Target, dice: &mut Dice) {
    let (agent, job) = (dice.pick(&target.nodes).clone(), dice.roll(100_000));
    let body = format!(
        "{{\"agent\":\"{agent}\",\"lease_id\":\"{job}\",\"job_id\":\"{job}\",\"job_epoch\":1,\"leader_epoch\":{},\
         \"step\":0,\"attempt\":1,\"status\":\"success\",\"output\":\"{}\",\"duration\":\"1s\"}}",
        dice.roll(4),
        "x".repeat(1 << dice.roll(14))
    );
    post(target, "/v1/results", &body);
}

fn readers(target: &Target, dice: &mut Dice) {
    let path = *dice.pick(&["/jobs", "/nodes", "/status?hash=true", "/v1/events", "/api/v1/cluster", "/openapi.json"]);
    let mut sockets: Vec<_> = (0..dice.roll(8)).filter_map(|_| open(target)).collect();
    for socket in &mut sockets {
        let _ = socket.write_all(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes());
    }
    for socket in &mut sockets {
        let mut some = [0; 64];
        let _ = socket.read(&mut some);
    }
}
