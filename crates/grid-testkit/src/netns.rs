//! Creates network namespaces joined by a bridge: one for each controller, with links that can be cut in one direction.
//!
//! Needs root and the program `ip`; [`Lan::try_new`] returns `None` without them, and a test then prints that it was not run.
//! All names contain the id of this process, and everything is removed when the value is dropped.
//! A cut is a blackhole route of the sender: packets of one direction are lost silently, as on a broken link.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Some hosts on one link, which the test can reach too.
pub struct Lan {
    tag: String,
    net: u8,
    hosts: usize,
}

impl Lan {
    /// `hosts` namespaces, numbered from 0. `None` if namespaces cannot be created here.
    pub fn try_new(hosts: usize) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Several in one process, and several processes: a net that another one has is refused by `ip` below.
        let id = std::process::id().wrapping_mul(16).wrapping_add(MADE.fetch_add(1, Ordering::Relaxed));
        // Dropped on any failure below, together with what was created by then.
        let lan = Self { tag: format!("gt{:x}", id % 0xf_ffff), net: u8::try_from(id % 250).ok()? + 1, hosts };
        let bridge = lan.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add 10.213.{}.1/24 dev {bridge}", lan.net))?;
        ip(&format!("link set {bridge} up"))?;
        for host in 0..hosts {
            let (ns, link) = (lan.namespace(host), lan.link(host));
            ip(&format!("netns add {ns}"))?;
            ip(&format!("link add {link} type veth peer name eth0 netns {ns}"))?;
            ip(&format!("link set {link} master {bridge} up"))?;
            ip(&format!("-n {ns} addr add {}/24 dev eth0", lan.address(host)))?;
            ip(&format!("-n {ns} link set eth0 up"))?;
            ip(&format!("-n {ns} link set lo up"))?;
        }
        Some(lan)
    }

    pub fn namespace(&self, host: usize) -> String {
        format!("{}n{host}", self.tag)
    }

    pub fn address(&self, host: usize) -> String {
        format!("10.213.{}.{}", self.net, 10 + host)
    }

    /// Drops everything that `from` sends to `to` from now on; the other direction is not affected.
    ///
    /// # Panics
    /// When it is cut already.
    pub fn cut(&self, from: usize, to: usize) {
        let route = format!("-n {} route add blackhole {}/32", self.namespace(from), self.address(to));
        ip(&route).unwrap_or_else(|| panic!("ip {route} failed"));
    }

    /// # Panics
    /// When it is not cut.
    pub fn heal(&self, from: usize, to: usize) {
        let route = format!("-n {} route del blackhole {}/32", self.namespace(from), self.address(to));
        ip(&route).unwrap_or_else(|| panic!("ip {route} failed"));
    }

    fn link(&self, host: usize) -> String {
        format!("{}v{host}", self.tag)
    }

    fn bridge(&self) -> String {
        format!("{}b", self.tag)
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            // Closed explicitly: an open connection keeps a namespace, and everything in it, for minutes.
            let _ = ip(&format!("link del {}", self.link(host)));
            let _ = ip(&format!("netns del {}", self.namespace(host)));
        }
        let _ = ip(&format!("link del {}", self.bridge()));
    }
}

fn ip(arguments: &str) -> Option<()> {
    let mut command = Command::new("ip");
    let done = command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.ok().filter(std::process::ExitStatus::success).map(drop)
}
