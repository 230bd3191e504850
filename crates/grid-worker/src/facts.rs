//! What this machine is, as it is registered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use grid_types::limits::{DEFAULT_SLOTS, MAX_SLOTS};
use grid_types::node::{Capacity, NodeFacts};

use crate::config::WorkerConfig;

#[must_use]
pub fn hostname() -> String {
    sysinfo::System::host_name().unwrap_or_else(|_| "unknown".to_owned())
}

/// Everything but the address, which is known once a controller was reached.
pub(crate) fn gather(config: &WorkerConfig, backends: BTreeMap<String, BTreeSet<String>>) -> NodeFacts {
    NodeFacts {
        hostname: hostname(),
        address: config.address.clone().unwrap_or_default(),
        groups: config.groups.iter().cloned().collect(),
        labels: config.labels.clone(),
        backends,
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        capacity: capacity(&config.data_dir, config.slots),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Zero means the default, as an unset flag does.
pub(crate) fn slots(asked: u32) -> u32 {
    if asked == 0 { DEFAULT_SLOTS } else { asked.min(MAX_SLOTS) }
}

fn capacity(data_dir: &Path, asked_slots: u32) -> Capacity {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let disk_bytes = rustix::fs::statvfs(data_dir).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    Capacity { cpu_milli: cpus as u64 * 1000, memory_bytes: memory_bytes(), disk_bytes, slots: slots(asked_slots) }
}

/// Zero where the machine does not tell.
fn memory_bytes() -> u64 {
    sysinfo::System::new().map_or(0, |mut system| {
        system.refresh_memory();
        system.total_memory()
    })
}
