//! Reserves ports that stay free while a process restarts.
//!
//! Below the kernel's range for outgoing connections: any client could take a port of that range while its server is down, and
//! the restart would fail. Parallel test processes must not get the same port either, and a port is free between two runs of
//! its server: so this process claims it by binding the UDP port of the same number, for as long as it lives. That leaves no
//! file behind, and the claim ends with the process.

use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;

const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;
/// Test processes start at different positions, so that they rarely try the same port.
const APART: u32 = 97;

struct Claims {
    tried: u32,
    held: Vec<UdpSocket>,
}

static CLAIMS: Mutex<Claims> = Mutex::new(Claims { tried: 0, held: Vec::new() });

/// A free loopback port that no other caller gets, in this or any other test process.
///
/// # Panics
/// When the whole range is taken.
pub fn free_port() -> u16 {
    let base = std::process::id().wrapping_mul(APART) % COUNT;
    let mut claims = CLAIMS.lock().expect("only the panic below happens under this lock");
    for _ in 0..COUNT {
        claims.tried += 1;
        let port = FIRST + (base + claims.tried) % COUNT;
        let port = u16::try_from(port).expect("FIRST + COUNT is below 65536");
        let Ok(claim) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            claims.held.push(claim);
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}

#[cfg(test)]
mod tests {
    use super::free_port;
    use std::net::UdpSocket;

    #[test]
    fn a_port_is_claimed_against_other_processes_for_good() {
        let (one, two) = (free_port(), free_port());
        assert_ne!(one, two);
        for port in [one, two] {
            assert!(UdpSocket::bind(("127.0.0.1", port)).is_err(), "{port} is not claimed");
        }
    }
}
