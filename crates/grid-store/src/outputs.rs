//! Stores equal outputs of a job once: knows which of the recent ones is stored where.
//!
//! Outputs lie in arrival order, and the way from a hash to its row is kept in memory for the newest of them only. An
//! index over all hashes would cost one dirty page per distinct output (random keys), for outputs that nobody prints
//! again: equal ones come from one step of one job, at about one time. One that comes again after [`WINDOW`] others is
//! stored again, which costs space and nothing else: groups are formed by hash. Two jobs never share one, so that what a
//! job leaves behind can be removed with it, without asking every other result whether it refers to it too.

use std::collections::{HashMap, VecDeque};

use grid_types::JobId;
use rusqlite::Connection;

use crate::error::Fault;

const WINDOW: usize = 65_536;
/// Results whose outputs are remembered across a restart; each may be a page to read.
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
    rows: HashMap<(JobId, OutputHash), i64>,
    /// Oldest first.
    order: VecDeque<(JobId, OutputHash)>,
}

impl RecentOutputs {
    pub fn load(conn: &Connection) -> Result<Self, Fault> {
        let mut newest = conn.prepare(
            "SELECT r.job, o.hash, o.id FROM (SELECT * FROM results ORDER BY id DESC LIMIT ?1) r
             JOIN outputs o ON o.id = r.output ORDER BY r.id DESC",
        )?;
        let mut rows = newest.query([RELOADED])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let job = JobId(row.get::<_, i64>(0)?.cast_unsigned());
            found.push((job, row.get::<_, OutputHash>(1)?, row.get::<_, i64>(2)?));
        }
        let mut recent = Self::default();
        for (job, hash, id) in found.into_iter().rev() {
            recent.insert(job, hash, id);
        }
        Ok(recent)
    }

    pub fn row_of(&self, job: JobId, hash: OutputHash) -> Option<i64> {
        self.rows.get(&(job, hash)).copied()
    }

    pub fn insert(&mut self, job: JobId, hash: OutputHash, id: i64) {
        if self.rows.insert((job, hash), id).is_none() {
            self.order.push_back((job, hash));
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
    use grid_types::JobId;

    #[test]
    fn the_oldest_is_forgotten_first_and_memory_is_bounded() {
        let mut recent = RecentOutputs::default();
        let (job, first) = (JobId(1), hash(b"first"));
        recent.insert(job, first, 1);
        assert_eq!(recent.row_of(JobId(2), first), None, "of another job");
        for i in 0..WINDOW {
            assert_eq!(recent.row_of(job, first), Some(1));
            recent.insert(job, hash(&i.to_le_bytes()), 2);
        }
        assert_eq!(recent.row_of(job, first), None);
        assert_eq!((recent.rows.len(), recent.order.len()), (WINDOW, WINDOW));
    }
}
