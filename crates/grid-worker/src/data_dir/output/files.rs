//! Names and finds the files of outputs: `output/<job>/<step>-<attempt>-e<epoch>-<started, ms since 1970>`.
//!
//! The time in the name tells the run of a lease from an earlier one. Files of older workers have none; then it is the time at which they were made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use grid_types::LeaseKey;

const NS_PER_MS: u64 = 1_000_000;

/// A file with an output.
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

pub(super) fn run_of(started_at_ms: u64) -> u64 {
    started_at_ms.saturating_mul(NS_PER_MS)
}

pub(super) fn job_dir(dir: &Path, lease: &LeaseKey) -> PathBuf {
    dir.join(lease.job.to_string())
}

pub(super) fn path(dir: &Path, lease: &LeaseKey, run: u64) -> PathBuf {
    job_dir(dir, lease).join(format!("{}-{}", stem(lease), run / NS_PER_MS))
}

fn stem(lease: &LeaseKey) -> String {
    let LeaseKey { job_epoch, step, attempt, .. } = lease;
    format!("{step}-{attempt}-e{job_epoch}")
}

/// Every file of a lease with its run, usually none or one, the newest first.
pub(super) fn find(dir: &Path, lease: &LeaseKey) -> io::Result<Vec<(PathBuf, u64)>> {
    let Some(entries) = if_there(fs::read_dir(job_dir(dir, lease)))? else { return Ok(Vec::new()) };
    let stem = stem(lease);
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(stem.as_str())) else { continue };
        let run = match rest.strip_prefix('-').map(str::parse) {
            Some(Ok(started_at_ms)) => run_of(started_at_ms),
            None if rest.is_empty() => entry.metadata().map_or(0, |metadata| made_at_ns(&metadata)),
            _ => continue,
        };
        found.push((entry.path(), run));
    }
    found.sort_by_key(|(_, run)| std::cmp::Reverse(*run));
    Ok(found)
}

/// 0: not every file system knows.
fn made_at_ns(metadata: &fs::Metadata) -> u64 {
    let made = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    made.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}

/// Every output there is.
pub(super) fn all(dir: &Path) -> io::Result<Vec<OutputFile>> {
    let Some(jobs) = if_there(fs::read_dir(dir))? else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for job in jobs {
        let job = job?;
        if !job.file_type()?.is_dir() {
            continue;
        }
        // What is discarded meanwhile is not there any more.
        let Some(outputs) = if_there(fs::read_dir(job.path()))? else { continue };
        for output in outputs {
            let output = output?;
            let Some(metadata) = if_there(output.metadata())? else { continue };
            files.push(OutputFile { path: output.path(), bytes: metadata.len(), modified: metadata.modified()? });
        }
    }
    Ok(files)
}

pub(super) fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}
