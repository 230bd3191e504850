//! Where the leader is: `GET /role` of any controller.
//!
//! A seam with one implementation, which speaks just enough HTTP for one small document. A whole client would double
//! the worker's size for it. HTTP/1.0, so that the answer is never chunked.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use grid_types::api::{ErrorDoc, RoleDoc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(3);
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// What a controller said.
#[derive(Debug, Clone)]
pub struct Found {
    pub role: RoleDoc,
    /// The address of this machine on the way to that controller.
    pub local_ip: Option<IpAddr>,
}

pub trait Directory: Send + Sync + 'static {
    /// `server`: an API URL. `Err` says what is wrong with it.
    fn role(&self, server: &str) -> impl Future<Output = Result<Found, String>> + Send;
}

/// Asks over TCP.
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

/// `http://host:port/…` → `host:port`.
fn authority(server: &str) -> Result<String, String> {
    if server.starts_with("https://") {
        return Err("https is not supported by this worker; use http".to_owned());
    }
    let rest = server.strip_prefix("http://").unwrap_or(server);
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() {
        return Err("not a URL; write http://HOST:PORT".to_owned());
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

/// The leader's fabric as this machine can dial it: a leader that listens on every address is reached by its API's host.
pub(crate) fn fabric_address(role: &RoleDoc) -> Option<String> {
    let fabric = role.leader_grpc.clone()?;
    let port = fabric.strip_prefix("0.0.0.0:").or_else(|| fabric.strip_prefix("[::]:"));
    let api = role.leader_url.as_deref().and_then(|url| authority(url).ok());
    match (port, api) {
        (Some(port), Some(api)) => api.rsplit_once(':').map(|(host, _)| format!("{host}:{port}")),
        _ => Some(fabric),
    }
}

#[cfg(test)]
mod tests {
    use super::{authority, fabric_address, parse};
    use grid_types::api::{Role, RoleDoc};

    #[test]
    fn urls_of_controllers_are_understood() {
        for (url, expected) in [
            ("http://10.0.0.1:8765", "10.0.0.1:8765"),
            ("http://ctl:8765/", "ctl:8765"),
            ("http://[::1]:8765/x", "[::1]:8765"),
            ("ctl:8765", "ctl:8765"),
            ("http://ctl", "ctl:80"),
        ] {
            assert_eq!(authority(url).unwrap(), expected);
        }
        assert!(authority("https://ctl:8765").is_err() && authority("http://").is_err());
    }

    #[test]
    fn anything_but_a_role_is_refused() {
        let good = b"HTTP/1.0 200 OK\r\nx: y\r\n\r\n{\"node_id\":\"a\",\"role\":\"LEADER\",\"leader_epoch\":1,\
            \"leader_id\":\"a\",\"leader_url\":null,\"leader_grpc\":\"127.0.0.1:1\"}";
        assert_eq!(parse(good).unwrap().leader_grpc.as_deref(), Some("127.0.0.1:1"));
        for bad in [&b"HTTP/1.1 503 no\r\n\r\n{}"[..], b"HTTP/1.1 200 OK\r\n\r\n<html>", b"SSH-2.0", b""] {
            assert!(parse(bad).is_err());
        }
    }

    #[test]
    fn a_leader_that_listens_everywhere_is_reached_by_its_api_host() {
        let role = |fabric: &str| RoleDoc {
            node_id: "a".to_owned(),
            role: Role::Leader,
            leader_epoch: None,
            leader_id: None,
            leader_url: Some("http://ctl-1:8765".to_owned()),
            leader_grpc: Some(fabric.to_owned()),
            controllers: Vec::new(),
        };
        assert_eq!(fabric_address(&role("0.0.0.0:8767")).as_deref(), Some("ctl-1:8767"));
        assert_eq!(fabric_address(&role("10.1.1.1:8767")).as_deref(), Some("10.1.1.1:8767"));
        assert_eq!(fabric_address(&RoleDoc { leader_grpc: None, ..role("") }), None);
    }
}
