//! Defines how the leader is found: `GET /role` of any controller.

use std::future::Future;
use std::net::IpAddr;

use grid_types::api::RoleDoc;

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

/// `http://host:port/…` → `host:port`.
pub(crate) fn authority(server: &str) -> Result<String, String> {
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
    use super::{authority, fabric_address};
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
