//! Binds sockets before anything is announced, so that the port behind port 0 is known.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use grid_api::Hosts;
use tokio::net::TcpListener;

pub async fn bind(addr: SocketAddr, what: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr} for {what}"))?;
    let actual = listener.local_addr().with_context(|| format!("cannot listen on {addr} for {what}"))?;
    Ok((listener, actual))
}

/// A client that reaches a socket may run jobs: other machines are served only if the operator allows it.
pub fn check_exposure(addrs: &[(&str, SocketAddr)], insecure: bool) -> anyhow::Result<()> {
    for (flag, addr) in addrs {
        if !addr.ip().is_loopback() && !insecure {
            bail!(
                "{flag} {addr} can be reached from other machines, and this server has neither TLS nor tokens; \
                 use a loopback address, or --insecure if the network is trusted"
            );
        }
    }
    Ok(())
}

/// Addresses that other controllers, workers and clients can connect to.
pub fn check_reachable(flag: &str, addr: SocketAddr, advertise: Option<&str>) -> anyhow::Result<()> {
    if addr.ip().is_unspecified() && advertise.is_none() {
        bail!("{flag} {addr} is not an address that others can connect to; set one with --advertise HOST");
    }
    Ok(())
}

/// `host:port` as others reach it.
pub fn advertised(host: Option<&str>, addr: SocketAddr) -> String {
    match host {
        Some(host) => format!("{host}:{}", addr.port()),
        None => addr.to_string(),
    }
}

/// The host names that requests of clients may carry.
pub fn hosts(api: SocketAddr, advertise: Option<&str>, allowed: &[String]) -> Hosts {
    let bound = (!api.ip().is_unspecified()).then(|| api.ip().to_string());
    Hosts::new(bound.as_deref().into_iter().chain(advertise), allowed.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::{advertised, check_exposure, check_reachable};

    #[test]
    fn an_open_address_needs_a_word_from_the_operator() {
        let open = [("--api", "0.0.0.0:1".parse().unwrap())];
        let closed = [("--api", "127.0.0.1:1".parse().unwrap()), ("--grpc", "[::1]:2".parse().unwrap())];
        assert!(check_exposure(&open, false).unwrap_err().to_string().contains("--insecure"));
        assert!(check_exposure(&open, true).is_ok());
        assert!(check_exposure(&closed, false).is_ok());
    }

    #[test]
    fn an_address_that_nobody_can_dial_needs_another_to_be_named() {
        let (open, own) = ("0.0.0.0:1".parse().unwrap(), "127.0.0.1:1".parse().unwrap());
        let refused = check_reachable("--api", open, None).unwrap_err().to_string();
        assert!(refused.contains("--api 0.0.0.0:1") && refused.contains("--advertise"), "{refused}");
        assert!(check_reachable("--raft", open, Some("c1")).is_ok() && check_reachable("--raft", own, None).is_ok());
    }

    #[test]
    fn the_advertised_host_keeps_the_real_port() {
        assert_eq!(advertised(Some("c1.example"), "0.0.0.0:77".parse().unwrap()), "c1.example:77");
    }
}
