//! `gridc job confirm|resolve|resume|retry|why`: sends an operator's decisions about a job.

use grid_client::{JobsQuery, OnceSteps};
use grid_types::api::JobStateDoc;
use grid_types::{Code, JobId, JobStatus, NodeId, Span, StepIndex};

use crate::cli::{Format, Global, RerunArgs, Verdict};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::job_id;
use crate::job::print_state;
use crate::out::{self, tell};
use crate::text::one_line;
use crate::watch::Until;

pub async fn confirm(global: &Global, id: &str, phase: Option<u32>, rerun_once: bool) -> Result<JobStateDoc, Failure> {
    let (client, namespace, job) = (connect(global)?, global.namespace.as_str(), job_id(id)?);
    let done = if rerun_once {
        client.release(namespace, job, OnceSteps::Rerun).await?
    } else {
        client.confirm(namespace, job, phase).await?
    };
    tell_doubts(&done);
    Ok(done)
}

/// Prints what a decision led to, or stays until the job has ended.
pub async fn then(
    global: &Global,
    job: JobId,
    done: &JobStateDoc,
    wait: bool,
    limit: Option<Span>,
) -> Result<u8, Failure> {
    if !wait {
        return print_state(global, done);
    }
    tell(&format!("{job} {}", done.status));
    crate::run::stay(&connect(global)?, global, job, Until::Ended.within(limit)).await
}

/// E2: what may have run after the backup, a line for each, and what to do about it.
fn tell_doubts(done: &JobStateDoc) {
    const SHOWN: usize = 20;
    for doubt in done.may_have_run.iter().take(SHOWN) {
        let awaited = if doubt.awaited { " (the node has not registered since the restore)" } else { "" };
        tell(&format!("may have run: step {} on {}{awaited}", doubt.step, one_line(&doubt.node)));
    }
    if done.may_have_run.len() > SHOWN {
        tell(&format!("may have run: {} more, see -o json", done.may_have_run.len() - SHOWN));
    }
    if let Some(note) = &done.note {
        tell(&format!("hint: {}", one_line(note)));
    }
}

/// Each by its own word: one that has ended meanwhile does not keep the others waiting.
pub async fn confirm_held(global: &Global, rerun_once: bool) -> Result<u8, Failure> {
    const PAGE: u32 = 1_000;
    let (client, namespace) = (connect(global)?, global.namespace.as_str());
    let mut held = Vec::new();
    for status in [JobStatus::Running, JobStatus::Pending] {
        let mut query = JobsQuery { status: Some(status), limit: Some(PAGE), ..JobsQuery::default() };
        loop {
            let page = client.jobs(namespace, &query).await?;
            held.extend(page.items.into_iter().filter(|job| job.held.is_some()).map(|job| job.id));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    if held.is_empty() {
        tell(&format!("hint: no job of namespace {namespace} is held"));
    }
    // Oldest first, as they were submitted.
    held.sort_unstable();
    for id in held {
        match client.release(namespace, job_id(&id)?, once_steps(rerun_once)).await {
            Ok(done) => {
                tell_doubts(&done);
                print_state(global, &done)?;
            }
            Err(error) if matches!(error.code(), Some(Code::Conflict | Code::NotFound)) => {
                tell(&format!("{}: {}", one_line(&id), one_line(&error.to_string())));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(0)
}

pub async fn resolve(
    global: &Global,
    id: &str,
    step: StepIndex,
    node: &NodeId,
    verdict: Verdict,
) -> Result<u8, Failure> {
    let (client, job) = (connect(global)?, job_id(id)?);
    let done = client.resolve(global.namespace.as_str(), job, step, node.as_str(), verdict.into()).await?;
    print_state(global, &done)
}

pub async fn resume(global: &Global, args: &RerunArgs) -> Result<u8, Failure> {
    let job = job_id(&args.id)?;
    let done = connect(global)?.resume(global.namespace.as_str(), job, once_steps(args.rerun_once)).await?;
    rerun(global, args, job, &done).await
}

pub async fn retry(global: &Global, args: &RerunArgs) -> Result<u8, Failure> {
    let job = job_id(&args.id)?;
    let done = connect(global)?.retry(global.namespace.as_str(), job, once_steps(args.rerun_once)).await?;
    rerun(global, args, job, &done).await
}

fn once_steps(rerun_once: bool) -> OnceSteps {
    if rerun_once { OnceSteps::Rerun } else { OnceSteps::Keep }
}

/// Says what the next run of a job is about, and stays with it if that is wanted.
async fn rerun(global: &Global, args: &RerunArgs, job: JobId, done: &JobStateDoc) -> Result<u8, Failure> {
    if let Some(note) = &done.note {
        tell(&format!("hint: {}", one_line(note)));
    }
    then(global, job, done, args.wait, args.wait_timeout).await
}

pub async fn why(global: &Global, id: &str) -> Result<u8, Failure> {
    let (client, job) = (connect(global)?, job_id(id)?);
    let doc = client.why(global.namespace.as_str(), job).await?;
    out::print(global.output.unwrap_or(Format::Table), &doc, |_| format!("{}\n", one_line(&doc.why)))?;
    Ok(0)
}
