//! Checks to which hosts and ports the worker may connect for a caller (`--allow-connect`).
//!
//! A worker reaches what its callers do not: the services of its own machine, the addresses of a cloud that give out credentials. So nothing is
//! reached that the operator did not name. A host is compared as it is written, without asking anybody what it resolves to: `127.1`, `0x7f.1` and a
//! name that points to 127.0.0.1 are other words than `127.0.0.1`.

use super::ALL;

/// The list of hosts.
#[derive(Debug, Clone)]
pub struct Hosts {
    entries: Vec<String>,
}

/// Reads one entry: `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`; without a port, every port.
fn entry(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None if text.matches(':').count() == 1 => text.split_once(':').map(|(host, port)| (host, Some(port)))?,
        None => (text, None),
    };
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".:-".contains(c));
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0)).map_or(Some(None), |port| port.map(Some))?;
    is_host.then_some((host, port))
}

/// Whether an entry of `--allow-connect` can be one.
///
/// # Errors
/// Why not.
pub fn check_host(text: &str) -> Result<(), String> {
    if text == ALL || entry(text).is_some() {
        return Ok(());
    }
    Err(format!("{text:?} is no host: write HOST, HOST:PORT, [ADDRESS]:PORT or {ALL}"))
}

impl Hosts {
    #[must_use]
    pub fn new(entries: &[String]) -> Self {
        Self { entries: entries.to_vec() }
    }

    /// # Errors
    /// It is not allowed, and which setting would allow it.
    pub fn check(&self, host: &str, port: u16) -> Result<(), String> {
        let matches = |text: &String| {
            text == ALL
                || entry(text).is_some_and(|(allowed, of)| {
                    allowed.eq_ignore_ascii_case(host) && of.is_none_or(|allowed| allowed == port)
                })
        };
        if self.entries.iter().any(matches) {
            return Ok(());
        }
        let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Err(format!(
            "refused by this worker: it does not connect to {shown}:{port} for callers: start it with --allow-connect {shown}:{port}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{Hosts, check_host};

    #[test]
    fn only_hosts_that_are_written_the_same_are_reached() {
        let hosts = Hosts::new(&["127.0.0.1:80".to_owned(), "db.example".to_owned(), "[::1]:443".to_owned()]);
        for (host, port) in [("127.0.0.1", 80), ("db.example", 5432), ("DB.example", 1), ("::1", 443)] {
            hosts.check(host, port).unwrap();
        }
        for (host, port) in [
            ("127.0.0.1", 81),
            ("127.1", 80),
            ("0x7f.0.0.1", 80),
            ("2130706433", 80),
            ("localhost", 80),
            ("db.example.evil", 1),
            ("xdb.example", 1),
            ("db.example.", 1),
            ("169.254.169.254", 80),
            ("::1", 80),
        ] {
            let refusal = hosts.check(host, port).unwrap_err();
            assert!(refusal.contains("--allow-connect "), "{refusal}");
        }
        Hosts::new(&["*".to_owned()]).check("anything", 9).unwrap();
        assert!(Hosts::new(&[]).check("127.0.0.1", 80).is_err());
        for bad in ["", "a b", "http://a", "a:0", "a:99999", "a:x", "[::1", "a/b", "a*", ":80"] {
            assert!(check_host(bad).is_err(), "{bad}");
        }
    }
}
