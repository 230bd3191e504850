//! `gridc job confirm|resolve|resume|why`: what a person decides about a job, and what it waits for.

use grid_types::api::JobStateDoc;
use grid_types::{NodeId, StepIndex};

use crate::cli::{Format, Global, Verdict};
use crate::failure::Failure;
use crate::job::job_id;
use crate::out;
use crate::text::one_line;

pub async fn confirm(global: &Global, id: &str, phase: Option<u32>) -> Result<u8, Failure> {
    let (client, job) = (crate::connect(global)?, job_id(id)?);
    print_state(global, &client.confirm(global.namespace.as_str(), job, phase).await?)
}

pub async fn resolve(
    global: &Global,
    id: &str,
    step: StepIndex,
    node: &NodeId,
    verdict: Verdict,
) -> Result<u8, Failure> {
    let (client, job) = (crate::connect(global)?, job_id(id)?);
    let done = client.resolve(global.namespace.as_str(), job, step, node.as_str(), verdict.into()).await?;
    print_state(global, &done)
}

pub async fn resume(global: &Global, id: &str, rerun_once: bool) -> Result<u8, Failure> {
    let (client, job) = (crate::connect(global)?, job_id(id)?);
    print_state(global, &client.resume(global.namespace.as_str(), job, rerun_once).await?)
}

pub async fn why(global: &Global, id: &str) -> Result<u8, Failure> {
    let (client, job) = (crate::connect(global)?, job_id(id)?);
    let doc = client.why(global.namespace.as_str(), job).await?;
    out::print(global.output.unwrap_or(Format::Table), &doc, |_| format!("{}\n", one_line(&doc.why)))?;
    Ok(0)
}

/// How the job stands after what was asked of it.
pub fn print_state(global: &Global, doc: &JobStateDoc) -> Result<u8, Failure> {
    out::print(global.output.unwrap_or(Format::Table), doc, |_| format!("{} {}\n", one_line(&doc.id), doc.status))?;
    Ok(0)
}
