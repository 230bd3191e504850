//! Events in the order of their time, and of their insertion where that is equal.

use std::collections::BTreeMap;

pub struct Schedule<E> {
    events: BTreeMap<(u64, u64), E>,
    inserted: u64,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), inserted: 0 }
    }
}

impl<E> Schedule<E> {
    pub fn at(&mut self, at_ms: u64, event: E) {
        self.inserted += 1;
        self.events.insert((at_ms, self.inserted), event);
    }

    /// The next event and its time.
    pub fn next(&mut self) -> Option<(u64, E)> {
        self.events.pop_first().map(|((at_ms, _), event)| (at_ms, event))
    }
}
