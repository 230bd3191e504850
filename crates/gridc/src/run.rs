//! `gridc job run`: submit, and wait if asked to.
//!
//! Ctrl-C and `--wait-timeout` end the wait, not the job: a line names the job and how to cancel it.

use std::collections::BTreeSet;
use std::time::Duration;

use grid_client::{Client, IdempotencyKey, LogsQuery};
use grid_types::api::JobDoc;
use grid_types::job::parse_job;
use grid_types::{JobId, JobStatus, Outcome, Span};

use serde_json::{Value, json};

use crate::cli::{Format, Global, RunArgs, WaitArgs};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::{each_once, job_id};
use crate::live::{LiveView, Look, is_quiet, plain_view, view_in};
use crate::out::{self, tell, warn};
use crate::safe::Safe;
use crate::summary::summary;
use crate::text::{count, one_line};
use crate::watch::{Patience, Until, WatchedJob, watch_until};

/// Nodes that are named in one line.
const MAX_NAMED: usize = 8;

pub async fn run(global: &Global, args: &RunArgs) -> Result<u8, Failure> {
    let mut body = match &args.file {
        Some(path) => crate::jobfile::read(path)?,
        None => crate::task::document(args)?,
    };
    put_marks(&mut body, args)?;
    let client = connect(global)?;
    let format = global.output.unwrap_or(Format::Table);
    let key = IdempotencyKey::random()?;
    let doc = client.submit_with_key(global.namespace.as_str(), &body, &key, args.plan.as_deref()).await?;
    let id = id_of(&doc)?;
    if args.follow {
        tell(&format!("{id} submitted"));
        return follow(&client, global, doc, id, args).await;
    }
    if !args.wait {
        out::print(format, &doc, |_| format!("{id} submitted\n")).inspect_err(|_| tell(&format!("{id} submitted")))?;
        if format == Format::Table {
            tell(&format!("hint: gridc job status {id} shows its progress; --wait waits until it has ended"));
        }
        return Ok(0);
    }
    tell(&format!("{id} submitted"));
    let (end, written) = stay_for(&client, global, doc, id, Until::Ended.within(args.wait_timeout)).await?;
    Ok(worse(exit_code(&end, args.fail_on_skipped), written))
}

/// 1: it ended other than completed, or, if that was asked for, nodes were skipped because they were offline (J11).
fn exit_code(end: &JobDoc, fail_on_skipped: bool) -> u8 {
    u8::from(end.status != JobStatus::Completed || (fail_on_skipped && end.skipped_offline > 0))
}

/// How the job ended counts for more than an answer that could not be written, which was reported.
pub fn worse(job: u8, written: u8) -> u8 {
    if job == 0 { written } else { job }
}

/// `--name`, `--label` and what narrows the target may accompany a file: they override what it says.
pub fn put_marks(body: &mut Value, args: &RunArgs) -> Result<(), Failure> {
    each_once("label", &args.labels)?;
    let Some(job) = body.as_object_mut() else { return Ok(()) };
    if !args.narrow().put(job) && args.name.is_none() && args.labels.is_empty() {
        return Ok(());
    }
    job.extend(args.name.as_ref().map(|name| ("name".to_owned(), json!(name))));
    if !args.labels.is_empty() {
        let labels = job.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.extend(args.labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        }
    }
    parse_job(body)
        .map(drop)
        .map_err(|faults| Failure::Invalid { what: "the job".to_owned(), faults: crate::aim::pointed(&faults, body) })
}

/// `gridc job wait`: the live view of a job that is there already.
pub async fn wait_for(global: &Global, args: &WaitArgs) -> Result<u8, Failure> {
    let (client, job) = (connect(global)?, job_id(&args.id)?);
    let doc = client.job(global.namespace.as_str(), job).await?;
    let (end, written) = stay_for(&client, global, doc, job, Until::Ended.within(args.wait_timeout)).await?;
    Ok(worse(exit_code(&end, args.fail_on_skipped), written))
}

/// Shows how a job goes until it has ended, and prints its end.
pub async fn stay(client: &Client, global: &Global, id: JobId, patience: Patience) -> Result<u8, Failure> {
    let doc = client.job(global.namespace.as_str(), id).await?;
    let (end, written) = stay_for(client, global, doc, id, patience).await?;
    Ok(worse(exit_code(&end, false), written))
}

/// The end of the job, and what its printing alone would exit with.
async fn stay_for(
    client: &Client,
    global: &Global,
    doc: JobDoc,
    id: JobId,
    patience: Patience,
) -> Result<(JobDoc, u8), Failure> {
    let end = wait(client, global, doc, id, patience).await?;
    if let Ok(text) = summary(client, global.namespace.as_str(), id, &end).await {
        warn(&Safe::lines(&text));
    }
    let format = global.output.unwrap_or(Format::Table);
    let printed = out::print(format, &end, |_| format!("{id} {}{}\n", end.status, offline_text(&end)));
    let written = printed.map_or_else(|failure| out::report(&failure), |()| 0);
    Ok((end, written))
}

/// Nobody is left out in silence, not even by the last line.
fn offline_text(end: &JobDoc) -> String {
    match end.skipped_offline {
        0 => String::new(),
        1 => "; 1 node was offline and skipped".to_owned(),
        nodes => format!("; {nodes} nodes were offline and skipped"),
    }
}

/// Prints the output of a job until it has ended; its progress goes to stderr, in lines between them.
async fn follow(client: &Client, global: &Global, doc: JobDoc, job: JobId, args: &RunArgs) -> Result<u8, Failure> {
    let limit = args.wait_timeout;
    let namespace = global.namespace.as_str();
    // The nodes are known once it has started; before that only their names' width is not.
    let doc = client.job(namespace, job).await.unwrap_or(doc);
    let query = LogsQuery { follow: true, ..LogsQuery::default() };
    let mut view = plain_view();
    let outage = Until::Ended.outage();
    let watched = WatchedJob { client, namespace, job };
    let both = async {
        let (end, printed) = tokio::join!(
            watch_until(Until::Ended, watched, &mut *view, &outage),
            crate::logs::follow(watched, global, &doc, query, &outage)
        );
        let written = match printed {
            Ok(_) => 0,
            Err(unwritten @ Failure::Output(_)) => out::report(&unwritten),
            Err(failure) => return Err(failure),
        };
        Ok::<_, Failure>((end?, written))
    };
    let (end, written) = tokio::select! {
        both = both => both?,
        after = over(limit) => return Err(Failure::WaitTimedOut { job, after }),
        _ = tokio::signal::ctrl_c() => return Err(Failure::Interrupted { job }),
    };
    if let Ok(text) = summary(client, namespace, job, &end).await {
        warn(&Safe::lines(&text));
    }
    Ok(worse(exit_code(&end, args.fail_on_skipped), written))
}

/// The id of a job that was submitted just now.
pub fn id_of(doc: &JobDoc) -> Result<JobId, Failure> {
    let bad = |problem: String| grid_client::Error::Unexpected { url: "the controller".to_owned(), problem };
    doc.id.parse().map_err(|_| bad(format!("the new job has the id {:?}", one_line(&doc.id))).into())
}

/// Watches a job until it has ended, the limit is over or somebody has seen enough.
pub async fn wait(
    client: &Client,
    global: &Global,
    doc: JobDoc,
    job: JobId,
    patience: Patience,
) -> Result<JobDoc, Failure> {
    let Patience { until, limit } = patience;
    let mut view = Keep { view: view_in(global.color), last: doc };
    let outage = until.outage();
    let watched = WatchedJob { client, namespace: global.namespace.as_str(), job };
    let after = tokio::select! {
        end = watch_until(until, watched, &mut view, &outage) => return Ok(end?),
        after = over(limit) => Some(after),
        _ = tokio::signal::ctrl_c() => None,
    };
    view.close();
    let Some(after) = after else {
        return Err(match until {
            Until::Ended => Failure::Interrupted { job },
            Until::Quiet => Failure::LeftCancelled { job },
        });
    };
    if until == Until::Quiet && is_quiet(&view.last) {
        return Ok(view.last);
    }
    let format = global.output.unwrap_or(Format::Table);
    if format != Format::Table {
        out::print(format, &view.last, |_| String::new())?;
    }
    Err(match until {
        Until::Ended => Failure::WaitTimedOut { job, after },
        Until::Quiet => Failure::StillRuns { job, what: what_runs(&view.last), after },
    })
}

/// On which nodes, if the document has them; else how much.
fn what_runs(doc: &JobDoc) -> String {
    let rows = doc.results.iter().flat_map(|steps| steps.values().flatten());
    let nodes: BTreeSet<_> =
        rows.filter(|(_, result)| result.status == Outcome::Running).map(|(node, _)| one_line(node)).collect();
    if nodes.is_empty() {
        return match count(&doc.counts, Outcome::Running) {
            1 => "1 step of it still runs".to_owned(),
            n => format!("{n} steps of it still run"),
        };
    }
    let named = nodes.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = nodes.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("still runs on {named}{more}")
}

/// Never, without a limit.
async fn over(limit: Option<Span>) -> Span {
    match limit {
        Some(limit) => {
            tokio::time::sleep(Duration::from_millis(limit.ms())).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// A view that remembers: a script whose wait timed out gets the document as it was last seen.
struct Keep {
    view: Box<dyn LiveView + Send>,
    last: JobDoc,
}

impl LiveView for Keep {
    fn show(&mut self, look: &Look<'_>) {
        self.view.show(look);
        self.last = look.job.clone();
    }

    fn failed(&mut self, line: &str) {
        self.view.failed(line);
    }

    fn silence(&mut self, line: &str) {
        self.view.silence(line);
    }

    fn tick(&mut self) {
        self.view.tick();
    }

    fn close(&mut self) {
        self.view.close();
    }
}
