//! Decides for which hosts this server answers, as requests name them in `Host` and browsers in `Origin`.
//!
//! A DNS name is under the control of its owner: a web page at `http://evil.example:8765` whose name is changed to point to
//! this machine becomes a page of "the same origin", and its browser lets it send and read everything (DNS rebinding).
//! So a name counts only if the operator gave it. Loopback names and addresses always count, and so does the address that
//! the client dialled: an address cannot be rebound.
//! Not here: what a web page may send (`browser`).

use std::net::IpAddr;

use axum::http::uri::Authority;

/// The names that the operator gave this server: `--api`, `--advertise`, `--allow-host`.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    names: Vec<Place>,
    /// Given by `--allow-host`: pages of these origins count as ours even where a proxy changes `Host`.
    origins: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Ip(IpAddr),
    Dns(String),
}

/// A host, and the port if one is named.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: Name,
    port: Option<u16>,
}

impl Hosts {
    /// `own`: the hosts of `--api` and `--advertise`. `allowed`: those of `--allow-host`, each with a port or without.
    /// What is no host is left out.
    pub fn new<'a>(own: impl IntoIterator<Item = &'a str>, allowed: impl IntoIterator<Item = &'a str>) -> Self {
        let origins: Vec<Place> = allowed.into_iter().filter_map(place).collect();
        let names = own.into_iter().filter_map(place).chain(origins.iter().cloned()).collect();
        Self { names, origins }
    }

    /// Whether a request for `authority` that came in at the address `local` is meant for this server. The port is not
    /// compared: a forwarded port is not a way to lie about the name.
    pub fn answer_for(&self, authority: &str, local: Option<IpAddr>) -> bool {
        let Some(asked) = place(authority) else { return false };
        match &asked.name {
            Name::Ip(ip) if ip.is_loopback() || local.is_some_and(|local| local.to_canonical() == *ip) => true,
            Name::Dns(name) if name == "localhost" => true,
            name => self.names.iter().any(|given| given.name == *name),
        }
    }

    /// Whether a page of `origin` that asks for `authority` is a page of this server: the same host and port, or an origin
    /// that the operator gave.
    pub fn is_own_origin(&self, origin: &str, authority: Option<&str>) -> bool {
        let Some((scheme, rest)) = origin.split_once("://") else { return false };
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return false,
        };
        let explicit = |mut place: Place| {
            place.port = place.port.filter(|port| *port != default_port);
            place
        };
        let Some(page) = place(rest).map(explicit) else { return false };
        authority.and_then(place).map(explicit).is_some_and(|asked| asked == page)
            || self.origins.iter().cloned().map(explicit).any(|given| given == page)
    }
}

/// Whether `text` is a host with or without a port, as `--allow-host` takes it.
pub fn is_host(text: &str) -> bool {
    place(text).is_some()
}

fn place(text: &str) -> Option<Place> {
    // An IPv6 address without brackets, as a flag may have it.
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Place { name: Name::Ip(ip.to_canonical()), port: None });
    }
    let authority: Authority = text.parse().ok()?;
    if authority.as_str().contains('@') {
        return None;
    }
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let port = match authority.as_str().strip_prefix(authority.host())? {
        "" => None,
        rest => Some(rest.strip_prefix(':')?.parse().ok()?),
    };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
    let name = match bare.parse::<IpAddr>() {
        Ok(ip) => Name::Ip(ip.to_canonical()),
        Err(_) if host.is_empty() => return None,
        Err(_) => Name::Dns(host),
    };
    Some(Place { name, port })
}

#[cfg(test)]
mod tests {
    use super::{Hosts, is_host};

    #[test]
    fn issue13_only_names_that_were_given_are_answered() {
        let hosts = Hosts::new(["10.0.0.5", "c1.example"], ["grid.example", "proxy.example:8443", "fe80::1"]);
        let local = Some("10.9.9.9".parse().unwrap());
        for known in [
            "localhost:8765",
            "LOCALHOST",
            "127.0.0.1:8765",
            "127.8.9.1",
            "[::1]:8765",
            "10.0.0.5:8765",
            "c1.example:8765",
            "C1.Example.:8765",
            "grid.example",
            "proxy.example:1",
            "[fe80::1]:8765",
            "10.9.9.9:8765",
            "[::ffff:10.9.9.9]",
        ] {
            assert!(hosts.answer_for(known, local), "{known}");
        }
        for unknown in [
            "evil.example:8765",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil@localhost",
            "10.0.0.6:8765",
            "",
            ":8765",
            "a b",
            "localhost:x",
        ] {
            assert!(!hosts.answer_for(unknown, local), "{unknown}");
        }
    }

    #[test]
    fn issue13_a_page_is_ours_by_host_and_port() {
        let hosts = Hosts::new(["c1.example"], ["grid.example", "proxy.example:8443"]);
        for (origin, authority) in [
            ("http://127.0.0.1:8765", "127.0.0.1:8765"),
            ("http://c1.example", "c1.example:80"),
            ("https://c1.example", "c1.example"),
            ("https://grid.example", "127.0.0.1:8765"),
            ("https://proxy.example:8443", "127.0.0.1:8765"),
        ] {
            assert!(hosts.is_own_origin(origin, Some(authority)), "{origin} {authority}");
        }
        for (origin, authority) in [
            ("null", "127.0.0.1:8765"),
            ("http://127.0.0.1:9999", "127.0.0.1:8765"),
            ("http://localhost:8765", "127.0.0.1:8765"),
            ("http://evil.example", "127.0.0.1:8765"),
            ("http://c1.example:8765", "c1.example"),
            ("https://grid.example:9999", "127.0.0.1:8765"),
            ("https://proxy.example", "127.0.0.1:8765"),
            ("file://", "127.0.0.1:8765"),
        ] {
            assert!(!hosts.is_own_origin(origin, Some(authority)), "{origin} {authority}");
        }
        assert!(!hosts.is_own_origin("http://127.0.0.1:8765", None));
        assert!(is_host("c1.example:80") && is_host("[::1]") && !is_host("http://c1") && !is_host("a/b"));
    }
}
