//! Collects the facts about this machine that a registration contains.
//!
//! What the machine says of itself (`machine::hardware`) is read again for every registration, and is left out where it does not fit:
//! the list of disks and interfaces never takes more than the share that every node has, so that it uses nothing of the bytes
//! that all nodes have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use grid_proto::v1;
use grid_types::limits::{DEFAULT_SLOTS, FACTS_SHARE_BYTES, MAX_FACTS, MAX_SLOTS};
use grid_types::node::{Capacity, NodeFacts};

use crate::config::WorkerConfig;
use crate::machine::{hardware, hostname};

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
        facts: BTreeMap::new(),
    }
}

/// Adds what the machine says of itself now.
pub(crate) fn refresh(registered: &mut v1::NodeFacts) {
    registered.facts.clear();
    let Ok(mut facts) = NodeFacts::try_from(registered.clone()) else { return };
    add_fitting(&mut facts, hardware::read());
    registered.facts = facts.facts.into_iter().collect();
}

/// Facts that are not of a single disk or interface may use what the node's labels leave of its bytes.
fn add_fitting(facts: &mut NodeFacts, found: Vec<(String, String)>) {
    let shared = facts.stored_bytes().max(FACTS_SHARE_BYTES);
    for (key, value) in found {
        let is_detail = key.split('.').count() > 2;
        facts.facts.insert(key.clone(), value);
        let fits = facts.facts.len() <= MAX_FACTS && facts.check_size().is_ok();
        if !fits || (is_detail && facts.stored_bytes() > shared) {
            facts.facts.remove(&key);
        }
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

#[cfg(test)]
mod tests {
    use super::{add_fitting, v1};
    use grid_types::limits::{FACTS_SHARE_BYTES, MAX_FACTS_BYTES};
    use grid_types::node::{Capacity, NodeFacts};

    fn labelled(labels: usize) -> NodeFacts {
        let labels = (0..labels).map(|i| (format!("label-{i}"), "v".repeat(240))).collect();
        NodeFacts { labels, capacity: Capacity { slots: 1, ..Capacity::default() }, ..NodeFacts::default() }
    }

    fn found() -> Vec<(String, String)> {
        let details = (0..40).map(|i| (format!("disk.sd{i}.size_bytes"), "1".repeat(100)));
        [("os.id".to_owned(), "debian".to_owned())].into_iter().chain(details).collect()
    }

    #[test]
    fn details_stay_within_the_share_of_the_node() {
        let mut facts = labelled(0);
        add_fitting(&mut facts, found());
        assert!(facts.facts.contains_key("os.id") && facts.facts.len() > 5, "{}", facts.facts.len());
        assert!(facts.stored_bytes() <= FACTS_SHARE_BYTES);
        let mut wide = labelled(20);
        add_fitting(&mut wide, found());
        assert_eq!(wide.facts.len(), 1, "what it says beside its labels costs all nodes");
    }

    #[test]
    fn a_node_whose_labels_take_everything_still_registers() {
        let mut full = labelled(61);
        while full.check_size().is_ok() {
            full.hostname.push('h');
        }
        full.hostname.pop();
        add_fitting(&mut full, found());
        assert!(full.facts.is_empty() && full.check_size().is_ok());
        assert!(full.stored_bytes() < MAX_FACTS_BYTES);
    }

    #[test]
    fn a_registration_carries_what_the_machine_says_now() {
        let mut wire = v1::NodeFacts::from(&labelled(1));
        wire.facts.insert("os.id".to_owned(), "old".to_owned());
        super::refresh(&mut wire);
        assert!(wire.facts.contains_key("kernel.release"), "{:?}", wire.facts);
        assert_ne!(wire.facts.get("os.id").map(String::as_str), Some("old"));
    }
}
