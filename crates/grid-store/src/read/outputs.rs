//! Outputs as they are stored: the end of each, equal ones once.
//!
//! Of each node the newest result's output counts, also while a retry of it runs: that one has none yet. Only results that
//! the run shows count: what it skipped has no output in it (J8).

use std::collections::HashMap;

use grid_types::{JobRef, NodeOrd, StepIndex};
use rusqlite::{Connection, params};

use super::job::StoredJob;
use crate::codec::key;
use crate::error::Fault;
use crate::outputs::OutputHash;
use crate::rows::OutputGroup;

/// Bounds the answer to 16 MiB or so when no two nodes print the same; each node's own output stays readable.
const MOST_GROUPS: usize = 1_000;

/// Output row and whole length.
type Newest = (Option<i64>, u64);
/// Equal content of equal length; an output that was cut differs from one that was not.
type Content = (Option<OutputHash>, u64);

pub(super) fn groups(
    conn: &Connection,
    job: &JobRef,
    step: StepIndex,
    run: Option<u32>,
) -> Result<Option<Vec<OutputGroup>>, Fault> {
    let Some(job) = StoredJob::of_run(conn, job, run)? else { return Ok(None) };
    let mut groups: HashMap<Content, (Option<i64>, Vec<NodeOrd>)> = HashMap::new();
    let mut hashes: HashMap<i64, OutputHash> = HashMap::new();
    let mut hash_of = conn.prepare_cached("SELECT hash FROM outputs WHERE id = ?1")?;
    for (node, (output, total)) in newest_of_step(conn, &job, step)? {
        let hash = match output {
            None => None,
            Some(row) => Some(match hashes.get(&row) {
                Some(hash) => *hash,
                None => *hashes.entry(row).or_insert(hash_of.query_row([row], |row| row.get(0))?),
            }),
        };
        groups.entry((hash, total)).or_insert_with(|| (output, Vec::new())).1.push(node);
    }
    let mut groups: Vec<_> = groups.into_iter().map(|((_, total), (output, nodes))| (nodes, total, output)).collect();
    groups.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
    groups.truncate(MOST_GROUPS);
    groups
        .into_iter()
        .map(|(nodes, total, output)| group(conn, &nodes, total, output))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn newest_of_step(conn: &Connection, job: &StoredJob, step: StepIndex) -> Result<Vec<(NodeOrd, Newest)>, Fault> {
    let mut all = conn.prepare_cached(
        "SELECT node, output, output_bytes, job_epoch FROM results WHERE job = ?1 AND step = ?2
         ORDER BY node, job_epoch, id",
    )?;
    let mut rows = all.query(params![key(job.head.id), step.0])?;
    let mut newest: Vec<(NodeOrd, Newest)> = Vec::new();
    while let Some(row) = rows.next()? {
        let node = NodeOrd(row.get(0)?);
        let (first, last) = job.epochs(step.0, node);
        if !(first..=last).contains(&row.get(3)?) {
            continue;
        }
        let output = (row.get(1)?, row.get::<_, i64>(2)?.cast_unsigned());
        match newest.last_mut() {
            Some((last, earlier)) if *last == node => *earlier = output,
            _ => newest.push((node, output)),
        }
    }
    Ok(newest)
}

fn group(conn: &Connection, nodes: &[NodeOrd], total: u64, output: Option<i64>) -> Result<OutputGroup, Fault> {
    let mut name_of = conn.prepare_cached("SELECT id FROM nodes WHERE ord = ?1")?;
    let names: Result<Vec<String>, _> = nodes.iter().map(|ord| name_of.query_row([ord.0], |row| row.get(0))).collect();
    let mut names = names?;
    names.sort();
    let tail = match output {
        None => Vec::new(),
        Some(row) => conn
            .prepare_cached("SELECT tail FROM outputs WHERE id = ?1")?
            .query_row([row], |row| row.get::<_, Vec<u8>>(0))?,
    };
    Ok(OutputGroup { nodes: names, tail, total_bytes: total })
}
