//! Equal outputs are stored once: which of the recent ones is stored where.
//!
//! Outputs lie in arrival order, and the way from a hash to its row is kept in memory for the newest of them only. An
//! index over all hashes would cost one dirty page per distinct output (random keys), for outputs that nobody prints
//! again: equal ones come from one step of one job, at about one time. One that comes again after [`WINDOW`] others is
//! stored again, which costs space and nothing else: groups are formed by hash.

use std::collections::{HashMap, VecDeque};

use rusqlite::Connection;

use crate::error::Fault;

const WINDOW: usize = 65_536;
/// Remembered across a restart; each may be a page to read.
const RELOADED: u32 = 4_096;

/// 128 bits of BLAKE3: equal exactly if the outputs are.
pub(crate) type OutputHash = [u8; 16];

pub(crate) fn hash(tail: &[u8]) -> OutputHash {
    let mut short = [0; 16];
    blake3::Hasher::new().update(tail).finalize_xof().fill(&mut short);
    short
}

#[derive(Debug, Default)]
pub(crate) struct RecentOutputs {
    rows: HashMap<OutputHash, i64>,
    /// Oldest first.
    order: VecDeque<OutputHash>,
}

impl RecentOutputs {
    pub fn load(conn: &Connection) -> Result<Self, Fault> {
        let mut newest = conn.prepare("SELECT hash, id FROM outputs ORDER BY id DESC LIMIT ?1")?;
        let mut rows = newest.query([RELOADED])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((row.get::<_, OutputHash>(0)?, row.get::<_, i64>(1)?));
        }
        let mut recent = Self::default();
        for (hash, id) in found.into_iter().rev() {
            recent.insert(hash, id);
        }
        Ok(recent)
    }

    pub fn row_of(&self, hash: &OutputHash) -> Option<i64> {
        self.rows.get(hash).copied()
    }

    pub fn insert(&mut self, hash: OutputHash, id: i64) {
        if self.rows.insert(hash, id).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > WINDOW
            && let Some(oldest) = self.order.pop_front()
        {
            self.rows.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RecentOutputs, WINDOW, hash};

    #[test]
    fn the_oldest_is_forgotten_first_and_memory_is_bounded() {
        let mut recent = RecentOutputs::default();
        let first = hash(b"first");
        recent.insert(first, 1);
        for i in 0..WINDOW {
            assert_eq!(recent.row_of(&first), Some(1));
            recent.insert(hash(&i.to_le_bytes()), 2);
        }
        assert_eq!(recent.row_of(&first), None);
        assert_eq!((recent.rows.len(), recent.order.len()), (WINDOW, WINDOW));
    }
}
