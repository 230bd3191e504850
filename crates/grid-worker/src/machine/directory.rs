//! Asks controllers for the leader over TCP.
//!
//! Speaks just enough HTTP for one small document. A whole client would double
//! the worker's size for it. HTTP/1.0, so that the answer is never chunked.

use std::time::Duration;

use grid_types::api::{ErrorDoc, RoleDoc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::seams::{Directory, Found, authority};

const LIMIT: Duration = Duration::from_secs(3);
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Asks over HTTP/1.0.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpDirectory;

impl Directory for HttpDirectory {
    async fn role(&self, server: &str) -> Result<Found, String> {
        let authority = authority(server)?;
        tokio::time::timeout(LIMIT, ask(&authority)).await.map_err(|_| "no answer in time".to_owned())?
    }
}

async fn ask(authority: &str) -> Result<Found, String> {
    let io = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(authority).await.map_err(io)?;
    let local_ip = stream.local_addr().ok().map(|address| address.ip());
    let request = format!("GET /role HTTP/1.0\r\nHost: {authority}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(io)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await.map_err(io)?;
    Ok(Found { role: parse(&answer)?, local_ip })
}

fn parse(answer: &[u8]) -> Result<RoleDoc, String> {
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or("the answer is no HTTP")?;
    let head = String::from_utf8_lossy(&answer[..split]);
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        let said = serde_json::from_slice::<ErrorDoc>(&answer[split + 4..]).map(|doc| doc.message).unwrap_or_default();
        let colon = if said.is_empty() { "" } else { ": " };
        return Err(format!("GET /role answered {status}{colon}{said}"));
    }
    serde_json::from_slice(&answer[split + 4..]).map_err(|error| format!("GET /role answered no role: {error}"))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn anything_but_a_role_is_refused() {
        let good = b"HTTP/1.0 200 OK\r\nx: y\r\n\r\n{\"node_id\":\"a\",\"role\":\"LEADER\",\"leader_epoch\":1,\
            \"leader_id\":\"a\",\"leader_url\":null,\"leader_grpc\":\"127.0.0.1:1\"}";
        assert_eq!(parse(good).unwrap().leader_grpc.as_deref(), Some("127.0.0.1:1"));
        for bad in [&b"HTTP/1.1 503 no\r\n\r\n{}"[..], b"HTTP/1.1 200 OK\r\n\r\n<html>", b"SSH-2.0", b""] {
            assert!(parse(bad).is_err());
        }
    }
}
