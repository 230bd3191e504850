//! Ports that stay free while a process restarts.
//!
//! Below the kernel's range for outgoing connections: a port of that range could
//! be taken by any client while its server is down, and the restart would fail.
//! Test processes that run at once begin at different places, by their pid.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;
const APART: u32 = 97;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A loopback port nobody listens on and that no other caller in this process gets.
///
/// # Panics
/// When the whole range is taken.
pub fn free_port() -> u16 {
    let base = std::process::id().wrapping_mul(APART) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + base.wrapping_add(step) % COUNT;
        let port = u16::try_from(port).expect("FIRST + COUNT is below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}

#[cfg(test)]
mod tests {
    use super::free_port;

    #[test]
    fn two_callers_get_two_ports() {
        assert_ne!(free_port(), free_port());
    }
}
