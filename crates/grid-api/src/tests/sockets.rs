//! What can only be seen on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use grid_types::limits::MAX_BODY_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::fake::{Fake, job_body};
use crate::http::body::BodyPatience;
use crate::http::hosts::Hosts;
use crate::serve::{Audience, Patience, serve_with};

/// Far above anything that passes, so that only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn audience() -> Audience {
    Audience { hosts: Hosts::default(), connections: 512 }
}

async fn start(fake: &Fake, patience: Patience) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve_with(listener, crate::router(fake.clone()), audience(), patience, stopped));
    Server { address, stop, task }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The server still answers others.
    async fn assert_up(&self) {
        // On a busy machine even this client can be too slow for a server with short patience.
        let served = async {
            loop {
                let mut client = self.connect().await;
                let mut bytes = Vec::new();
                let asked = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
                if client.write_all(asked).await.is_ok() && client.read_to_end(&mut bytes).await.is_ok() {
                    return assert!(bytes.starts_with(b"HTTP/1.1 200 OK"));
                }
            }
        };
        within(served).await;
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        within(self.task).await.unwrap();
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("this hangs")
}

/// Everything until the server closes; a reset fails the test.
async fn rest(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    within(client.read_to_end(&mut bytes)).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One answer with a content length, on a connection that stays open.
async fn one(client: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let n = within(client.read(&mut bytes)).await.unwrap();
        assert!(n > 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return text;
        }
    }
}

fn post(length: usize) -> String {
    format!("POST /job HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
}

fn assert_refused(answer: &str, status: &str, word: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(&format!("\"error\":\"{word}\"")), "{answer}");
    for header in ["x-grid-node: ctl-1", "x-grid-role: ", "x-grid-leader-epoch: 7"] {
        assert!(answer.contains(header), "{header} is missing in {answer}");
    }
}

/// Sends the whole body before it reads a byte, as simple clients do.
async fn upload(server: &Server, head: &str, chunk: &[u8], times: usize) -> String {
    let mut client = server.connect().await;
    client.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..times {
        within(client.write_all(chunk)).await.unwrap();
    }
    rest(&mut client).await
}

#[tokio::test]
async fn serve_answers_on_its_listener_until_told_to_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(crate::serve(listener, Fake::leader(), audience(), stopped));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /role HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut client).await.contains("\"role\":\"LEADER\""));
    drop((client, stop));
    within(served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_over_1_mib_is_413_and_the_client_can_read_it() {
    let fake = Fake::leader();
    let server = start(&fake, Patience::default()).await;
    let megabyte = vec![b' '; MAX_BODY_BYTES];
    let answer = upload(&server, &post(20 * MAX_BODY_BYTES), &megabyte, 20).await;
    assert_refused(&answer, "413", "TOO_LARGE");

    let mut chunk = format!("{MAX_BODY_BYTES:x}\r\n").into_bytes();
    chunk.extend_from_slice(&megabyte);
    chunk.extend_from_slice(b"\r\n");
    let head = "POST /job HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = upload(&server, head, &chunk, 8).await;
    assert_refused(&answer, "413", "TOO_LARGE");
    server.assert_up().await;
    server.stop().await;
}

#[tokio::test]
async fn e4_not_leader_is_answered_though_the_body_is_never_read() {
    let server = start(&Fake::standby(), Patience::default()).await;
    let megabyte = vec![b' '; MAX_BODY_BYTES];
    let answer = upload(&server, &post(20 * MAX_BODY_BYTES), &megabyte, 20).await;
    assert_refused(&answer, "409", "NOT_LEADER");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_refused_without_sending() {
    let server = start(&Fake::standby(), Patience::default()).await;
    let mut client = server.connect().await;
    let head = "POST /job HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9999999\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    assert_refused(&rest(&mut client).await, "409", "NOT_LEADER");
    server.stop().await;
}

#[tokio::test]
async fn a_refused_body_does_not_spoil_the_connection() {
    let server = start(&Fake::leader(), Patience::default()).await;
    let mut client = server.connect().await;
    for body in ["{oops", "[[[", "{\"a\":1,\"a\":2}"] {
        client.write_all((post(body.len()) + body).as_bytes()).await.unwrap();
        assert_refused(&one(&mut client).await, "400", "BAD_REQUEST");
    }
    let body = job_body().to_string();
    client.write_all((post(body.len()) + &body).as_bytes()).await.unwrap();
    assert!(one(&mut client).await.starts_with("HTTP/1.1 201 "));
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn garbage_is_refused_and_the_server_stays_up() {
    let server = start(&Fake::leader(), Patience::default()).await;
    let long_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(5_000));
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let cases: [&[u8]; 7] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls?\r\n\r\n",
        b"hello there\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /job HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        long_header.as_bytes(),
        many_headers.as_bytes(),
        long_path.as_bytes(),
    ];
    for bytes in cases {
        let mut client = server.connect().await;
        client.write_all(bytes).await.unwrap();
        let answer = rest(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{:?}: {answer}", &bytes[..20.min(bytes.len())]);
    }
    // A chunk size that is none is found only while the body is read.
    let mut client = server.connect().await;
    client
        .write_all(b"POST /job HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        .await
        .unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 400 "));
    server.assert_up().await;
    server.stop().await;
}

fn short() -> Patience {
    let mut patience = Patience { headers: Duration::from_millis(200), ..Patience::default() };
    patience.body = BodyPatience(Duration::from_millis(200));
    patience.socket.stall = Duration::from_millis(200);
    patience.socket.linger_idle = Duration::from_millis(200);
    patience.socket.linger = Duration::from_millis(400);
    patience
}

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_dropped() {
    let server = start(&Fake::leader(), short()).await;
    for start in [&b""[..], b"GET /jobs HT", b"GET /jobs HTTP/1.1\r\nhost: localhost\r\n"] {
        let mut client = server.connect().await;
        client.write_all(start).await.unwrap();
        let mut bytes = Vec::new();
        // Whether by an end or by a reset does not matter: nothing was asked yet.
        let _ = within(client.read_to_end(&mut bytes)).await;
    }
    server.assert_up().await;
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_never_ends_its_body_is_answered_and_dropped() {
    let fake = Fake::leader();
    let server = start(&fake, Patience { headers: LIMIT, ..short() }).await;
    let mut client = server.connect().await;
    client.write_all((post(500) + "{").as_bytes()).await.unwrap();
    assert_refused(&rest(&mut client).await, "400", "BAD_REQUEST");
    assert_eq!(fake.calls(), Vec::<String>::new());
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_breaks_off_in_its_body_submits_nothing() {
    let fake = Fake::leader();
    let server = start(&fake, Patience::default()).await;
    let body = job_body().to_string();
    let mut client = server.connect().await;
    client.write_all((post(body.len() + 1) + &body).as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    rest(&mut client).await;
    server.assert_up().await;
    assert_eq!(fake.calls(), Vec::<String>::new());
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_never_stops_sending_is_cut_off() {
    let server = start(&Fake::standby(), short()).await;
    let mut client = server.connect().await;
    client.write_all(post(usize::MAX >> 8).as_bytes()).await.unwrap();
    let flood = async { while client.write_all(&[b' '; 65_536]).await.is_ok() {} };
    within(flood).await;
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off() {
    let fake = Fake::leader();
    let many = vec![fake.inner().nodes[0].clone(); 20_000];
    fake.inner().nodes = many;
    let server = start(&fake, Patience { headers: LIMIT, ..short() }).await;
    let mut client = server.connect().await;
    for _ in 0..4 {
        client.write_all(b"GET /nodes HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    }
    // Writing fails once the server has given up; until then the answers fill the socket.
    let noticed = async {
        while client.write_all(b"\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(noticed).await;
    server.stop().await;
}

#[tokio::test]
async fn shutdown_ends_idle_connections_and_lets_requests_finish() {
    let fake = Fake::leader();
    let server = start(&fake, Patience::default()).await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    one(&mut idle).await;
    let body = job_body().to_string();
    let mut busy = server.connect().await;
    let head = post(body.len()).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    busy.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    within(busy.read_exact(&mut go_on)).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");

    server.stop.send(()).unwrap();
    assert_eq!(rest(&mut idle).await, "", "an idle connection is closed");
    busy.write_all(body.as_bytes()).await.unwrap();
    assert!(rest(&mut busy).await.starts_with("HTTP/1.1 201 "), "a request under way is served");
    drop((idle, busy));
    within(server.task).await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_ever() {
    let patience = Patience { grace: Duration::from_millis(100), ..Patience::default() };
    let server = start(&Fake::leader(), patience).await;
    let mut stuck = server.connect().await;
    let head = post(10).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    stuck.write_all(head.as_bytes()).await.unwrap();
    within(stuck.read_exact(&mut [0; 25])).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn issue13_16_bodies_that_stop_do_not_delay_others() {
    let server = start(&Fake::leader(), Patience::default()).await;
    let mut stopped = Vec::new();
    for _ in 0..100 {
        let mut client = server.connect().await;
        client.write_all(post(100_000).as_bytes()).await.unwrap();
        client.write_all(&[b' '; 70_000]).await.unwrap();
        stopped.push(client);
    }
    let mut body = job_body().to_string();
    body.push_str(&" ".repeat(100_000));
    let mut client = server.connect().await;
    client.write_all(post(body.len()).as_bytes()).await.unwrap();
    client.write_all(body.as_bytes()).await.unwrap();
    assert!(one(&mut client).await.starts_with("HTTP/1.1 201"), "it is taken");
    for client in stopped {
        let mut bytes = [0; 4096];
        let heard = client.try_read(&mut bytes).unwrap_or(0);
        let heard = String::from_utf8_lossy(&bytes[..heard]);
        assert!(!heard.contains("did not arrive within"), "it waited until the others timed out: {heard}");
    }
    server.stop().await;
}

/// RFC 9112, 3.2: exactly one, unless it speaks HTTP/1.0.
#[tokio::test]
async fn issue13_a_request_without_one_host_is_400() {
    let server = start(&Fake::leader(), Patience::default()).await;
    for (head, status) in [
        ("GET /healthz HTTP/1.1\r\n", "400"),
        ("POST /job HTTP/1.1\r\ncontent-length: 0\r\n", "400"),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n", "400"),
        ("GET http://localhost/healthz HTTP/1.1\r\n", "400"),
        ("GET http://localhost/healthz HTTP/1.1\r\nhost: localhost\r\n", "200"),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\n", "200"),
        ("GET /healthz HTTP/1.0\r\n", "200"),
    ] {
        let mut client = server.connect().await;
        client.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let answer = rest(&mut client).await;
        assert!(answer.split(' ').nth(1) == Some(status), "{head:?}: {answer}");
        assert!(status == "200" || answer.contains("\"BAD_REQUEST\"") && answer.contains("Host"), "{head:?}: {answer}");
    }
    server.stop().await;
}
