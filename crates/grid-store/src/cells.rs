//! Stores cells: where each expected node of a live job is in its current phase, and which rows still say so.
//!
//! A cell at its default has no row, or one that does not count any more: in a phase of one task, a row counts only
//! until a result of its step and node comes after it (`cells.after` is the newest result when it was written). For
//! taking 500 cells out of 64 jobs would dirty as many pages as there are cells; so they go all together, when the
//! phase ends. In a pipeline, whose cells walk on, a row goes when its cell is at its default. So it does in a restored job,
//! whose cells may have a later step leased (E2).

use grid_core::{Cell, JobHead};
use grid_types::job::{JobSpec, Phase};
use grid_types::{NodeOrd, StepIndex};
use rusqlite::{CachedStatement, Connection, params};

use crate::codec::{blob, key};
use crate::error::Fault;

/// Whether a result closes the row of its cell.
pub(crate) fn closed_by_results(phase: Option<&Phase>) -> bool {
    phase.is_some_and(|phase| phase.tasks.len() == 1)
}

/// The cells of one live job.
pub(crate) struct StoredCells<'c> {
    job: i64,
    first: StepIndex,
    closed_by_results: bool,
    cell: CachedStatement<'c>,
    later: CachedStatement<'c>,
}

impl<'c> StoredCells<'c> {
    pub fn of(conn: &'c Connection, head: &JobHead, spec: &JobSpec) -> Result<Self, Fault> {
        let phase = usize::try_from(head.phase).unwrap_or(usize::MAX);
        Ok(Self {
            job: key(head.id),
            first: spec.first_step(phase),
            closed_by_results: closed_by_results(spec.phases.get(phase)),
            cell: conn.prepare_cached("SELECT after, cell FROM cells WHERE job = ?1 AND position = ?2")?,
            later: conn.prepare_cached(
                "SELECT 1 FROM results WHERE job = ?1 AND step = ?2 AND node = ?3 AND id > ?4 LIMIT 1",
            )?,
        })
    }

    /// The cell of the node at a position of `expected`; none if it is at its default.
    pub fn at(&mut self, position: usize, node: NodeOrd) -> Result<Option<Cell>, Fault> {
        let mut rows = self.cell.query(params![self.job, position.cast_signed()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let after: i64 = row.get(0)?;
        let cell: Cell = blob(row, 1)?;
        let closed_by_results = self.closed_by_results && cell.ahead.is_none();
        if closed_by_results && self.later.exists(params![self.job, self.first.0, node.0, after])? {
            return Ok(None);
        }
        Ok(Some(cell))
    }

    /// The cell's step.
    pub fn step_of(&self, cell: &Cell) -> u32 {
        cell.ahead.map_or(self.first.0.saturating_add(cell.sub), |ahead| ahead.step.0)
    }
}
