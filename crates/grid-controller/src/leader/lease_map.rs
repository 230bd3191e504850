//! A small map of leases: what a leader remembers about the few that one session has.
//!
//! A sorted list instead of a tree. A session has about as many leases as its node has slots, and each comes and goes within a
//! millisecond: a tree would allocate and free a leaf for each. An empty map keeps no memory, which counts in ten thousand idle sessions.

use grid_types::LeaseKey;

#[derive(Debug)]
pub struct LeaseMap<V> {
    sorted: Vec<(LeaseKey, V)>,
}

impl<V> Default for LeaseMap<V> {
    fn default() -> Self {
        Self { sorted: Vec::new() }
    }
}

impl<V> LeaseMap<V> {
    /// Returns what was there before.
    pub fn insert(&mut self, lease: LeaseKey, value: V) -> Option<V> {
        match self.find(&lease) {
            Ok(at) => Some(std::mem::replace(&mut self.sorted[at].1, value)),
            Err(at) => {
                self.sorted.insert(at, (lease, value));
                None
            }
        }
    }

    pub fn remove(&mut self, lease: &LeaseKey) -> Option<V> {
        let (_, value) = self.sorted.remove(self.find(lease).ok()?);
        if self.sorted.is_empty() {
            self.clear();
        }
        Some(value)
    }

    pub fn get(&self, lease: &LeaseKey) -> Option<&V> {
        self.find(lease).ok().map(|at| &self.sorted[at].1)
    }

    pub fn has(&self, lease: &LeaseKey) -> bool {
        self.find(lease).is_ok()
    }

    pub fn retain(&mut self, keep: impl Fn(&LeaseKey) -> bool) {
        self.sorted.retain(|(lease, _)| keep(lease));
        if self.sorted.is_empty() {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.sorted = Vec::new();
    }

    fn find(&self, lease: &LeaseKey) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(lease, |(known, _)| *known)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    use super::LeaseMap;

    fn lease(number: u64) -> LeaseKey {
        LeaseKey { job: JobId(number % 7), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) }
    }

    #[test]
    fn it_does_what_a_tree_does_and_keeps_nothing_when_it_is_empty() {
        let (mut map, mut tree) = (LeaseMap::default(), BTreeMap::new());
        let mut number = 1_u64;
        for round in 0..1_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = lease(number >> 33);
            if number >> 63 == 0 {
                assert_eq!(map.insert(key, round), tree.insert(key, round));
            } else {
                assert_eq!(map.remove(&key), tree.remove(&key));
            }
            assert!(map.sorted.iter().map(|(key, value)| (key, value)).eq(tree.iter()));
            assert_eq!((map.get(&key), map.has(&key)), (tree.get(&key), tree.contains_key(&key)));
        }
        map.retain(|_| false);
        assert_eq!(map.sorted.capacity(), 0);
    }
}
