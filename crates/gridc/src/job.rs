//! `gridc job status|get|list|cancel`.

use std::collections::BTreeMap;

use grid_client::{Client, Error, JobsQuery, ResultsQuery};
use grid_types::api::{JobDoc, JobStateDoc, ListDoc, ResultRowDoc};
use grid_types::{JobId, JobStatus, Outcome, Span};

use crate::cli::{Format, Global, StatusWord};
use crate::connect::connect;
use crate::failure::{Failure, UNWRITTEN};
use crate::input::{each_once, job_id};
use crate::out::{self, tell};
use crate::table::{Table, facts};
use crate::text::{count, counts_line, message, one_line, progress, target};
use crate::watch::Until;

/// Rows of nodes that `job status` shows.
const MAX_SHOWN: usize = 50;
const PAGE: u32 = 1_000;

pub async fn status(global: &Global, id: &str, run: Option<u32>) -> Result<u8, Failure> {
    let (client, namespace, job) = (connect(global)?, global.namespace.as_str(), job_id(id)?);
    let doc = client.job_in(namespace, job, run).await?;
    print_status(&client, global.output.unwrap_or(Format::Table), namespace, job, &doc).await
}

async fn print_status(
    client: &Client,
    format: Format,
    namespace: &str,
    job: JobId,
    doc: &JobDoc,
) -> Result<u8, Failure> {
    let (mut rows, mut waits_for) = (Vec::new(), None);
    if format == Format::Table {
        rows = shown_rows(client, namespace, job, doc).await?;
        if !doc.status.is_ended() {
            // Only a word more: without it the rest still holds.
            waits_for = client.why(namespace, job).await.ok().map(|now| now.why);
        }
    }
    out::print(format, doc, |terminal| status_text(doc, waits_for.as_deref(), &rows, terminal))?;
    Ok(0)
}

pub async fn get(global: &Global, id: &str, run: Option<u32>) -> Result<u8, Failure> {
    let (client, namespace, job) = (connect(global)?, global.namespace.as_str(), job_id(id)?);
    let mut doc = client.job_in(namespace, job, run).await?;
    let format = global.output.unwrap_or(Format::Json);
    if format == Format::Table {
        return print_status(&client, format, namespace, job, &doc).await;
    }
    if doc.results.is_none() {
        doc.results = Some(every_result(&client, namespace, job, run).await?);
    }
    out::print(format, &doc, |_| String::new())?;
    Ok(0)
}

pub async fn list(
    global: &Global,
    limit: u32,
    status: Option<StatusWord>,
    name: Option<String>,
    labels: &[(String, String)],
) -> Result<u8, Failure> {
    each_once(labels)?;
    let label = labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let label = Some(label).filter(|label| !label.is_empty());
    let is_filtered = status.is_some() || name.is_some() || label.is_some();
    let (client, namespace) = (connect(global)?, global.namespace.as_str());
    let mut jobs: ListDoc<JobDoc> = ListDoc { items: Vec::new(), next: None };
    loop {
        let left = limit.saturating_sub(u32::try_from(jobs.items.len()).unwrap_or(u32::MAX));
        let query = JobsQuery {
            status: status.map(JobStatus::from),
            name: name.clone(),
            label: label.clone(),
            after: jobs.next.take(),
            limit: Some(left.min(PAGE)),
        };
        let page = client.jobs(namespace, &query).await?;
        let empty = page.items.is_empty();
        jobs.items.extend(page.items);
        jobs.next = page.next;
        if empty || jobs.next.is_none() || jobs.items.len() >= limit as usize {
            break;
        }
    }
    let format = global.output.unwrap_or(Format::Table);
    out::print(format, &jobs, |terminal| list_text(&jobs.items, terminal))?;
    if format == Format::Table && jobs.items.is_empty() && is_filtered {
        tell(&format!(
            "hint: no job in namespace {namespace} matches; gridc job list without filters shows all of them"
        ));
    } else if format == Format::Table && jobs.items.is_empty() {
        tell(&format!("hint: no jobs in namespace {namespace}; gridc job run submits one"));
    } else if format == Format::Table && jobs.next.is_some() {
        out::tell_more(jobs.items.len());
    }
    Ok(0)
}

pub async fn cancel(global: &Global, id: &str) -> Result<u8, Failure> {
    let (client, job) = (connect(global)?, job_id(id)?);
    print_state(global, &client.cancel(global.namespace.as_str(), job).await?)
}

/// Prints the status of a job after a decision about it.
pub fn print_state(global: &Global, doc: &JobStateDoc) -> Result<u8, Failure> {
    out::print(global.output.unwrap_or(Format::Table), doc, |_| format!("{} {}\n", one_line(&doc.id), doc.status))?;
    Ok(0)
}

/// Everything of it has ended then, one way or another: that is what was asked for.
pub async fn cancel_and_wait(global: &Global, id: &str, limit: Option<Span>) -> Result<u8, Failure> {
    let (client, job) = (connect(global)?, job_id(id)?);
    client.cancel(global.namespace.as_str(), job).await?;
    let doc = client.job(global.namespace.as_str(), job).await?;
    let code = crate::run::stay(&client, global, doc, job, Until::Quiet, limit).await?;
    Ok(if code == UNWRITTEN { code } else { 0 })
}

async fn every_result(
    client: &Client,
    namespace: &str,
    job: JobId,
    run: Option<u32>,
) -> Result<BTreeMap<String, BTreeMap<String, grid_types::api::ResultDoc>>, Error> {
    let mut results: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
    let mut query = ResultsQuery { limit: Some(PAGE), run, ..ResultsQuery::default() };
    loop {
        let page = client.results(namespace, job, &query).await?;
        let empty = page.items.is_empty();
        for row in page.items {
            results.entry(row.step.to_string()).or_default().insert(row.node, row.result);
        }
        query.after = page.next;
        if empty || query.after.is_none() {
            return Ok(results);
        }
    }
}

/// At most [`MAX_SHOWN`] rows, failures first.
async fn shown_rows(client: &Client, namespace: &str, job: JobId, doc: &JobDoc) -> Result<Vec<ResultRowDoc>, Error> {
    let mut rows = Vec::new();
    if let Some(results) = &doc.results {
        for (step, nodes) in results {
            let step = step.parse().unwrap_or(0);
            rows.extend(nodes.iter().map(|(node, result)| ResultRowDoc {
                step,
                node: node.clone(),
                result: result.clone(),
            }));
        }
    } else {
        let limit = u32::try_from(MAX_SHOWN).ok();
        let failures = Outcome::ALL.into_iter().filter(|o| o.is_failure() && count(&doc.counts, *o) > 0).map(Some);
        for status in failures.chain([None]) {
            let query = ResultsQuery { status, limit, run: shown_run(doc), ..ResultsQuery::default() };
            rows.extend(client.results(namespace, job, &query).await?.items);
        }
    }
    rows.sort_by_key(|row| (!row.result.status.is_failure(), row.step, row.node.clone()));
    rows.dedup_by_key(|row| (row.step, row.node.clone()));
    rows.truncate(MAX_SHOWN);
    Ok(rows)
}

/// The run that a document shows, if it is not the newest.
fn shown_run(doc: &JobDoc) -> Option<u32> {
    let newest = doc.runs.as_ref()?.first()?.run;
    Some(doc.run).filter(|run| *run != newest)
}

/// Runs, newest first, of a job that has had several.
fn runs_text(doc: &JobDoc, terminal: bool) -> Option<String> {
    let runs = doc.runs.as_ref().filter(|runs| runs.len() > 1)?;
    let mut table = Table::new(&["RUN", "KIND", "STATUS", "STARTED", "ENDED", "REASON"]);
    for run in runs {
        let time = |at: &Option<String>| one_line(at.as_deref().unwrap_or_default());
        table.row([
            run.run.to_string(),
            run.kind.to_string(),
            run.status.to_string(),
            time(&run.started_at),
            time(&run.ended_at),
            one_line(run.reason.as_deref().unwrap_or_default()),
        ]);
    }
    Some(table.render(terminal))
}

fn status_text(doc: &JobDoc, waits_for: Option<&str>, rows: &[ResultRowDoc], terminal: bool) -> String {
    let why = doc.reason.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    let mut head = vec![
        ("job", one_line(&doc.id)),
        ("namespace", one_line(&doc.namespace)),
        ("status", format!("{}{why}", doc.status)),
    ];
    head.extend(waits_for.map(|why| ("why", one_line(why))));
    head.extend(doc.name.as_deref().map(|name| ("name", one_line(name))));
    if !doc.labels.is_empty() {
        let labels: Vec<_> = doc.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        head.push(("labels", one_line(&labels.join(","))));
    }
    let newest = doc.runs.as_ref().and_then(|runs| runs.first()).map_or(1, |run| run.run);
    if newest > 1 {
        head.push(("run", format!("{} of {newest}", doc.run)));
    }
    head.extend([
        ("target", target(&doc.target)),
        ("nodes", doc.node_count().to_string()),
        ("strategy", one_line(&doc.strategy)),
    ]);
    // Older controllers do not say.
    head.extend(Some(one_line(&doc.failure_tolerate)).filter(|text| !text.is_empty()).map(|text| ("tolerates", text)));
    head.extend(doc.timeout.as_deref().map(|timeout| ("timeout", one_line(timeout))));
    head.extend([("created", one_line(&doc.created_at)), ("updated", one_line(&doc.updated_at))]);
    let mut steps = Table::new(&["STEP", "PHASE", "TASK", "DONE", "OUTCOMES"]);
    for step in &doc.steps {
        let (done, all) = progress(&step.counts);
        let task = one_line(&format!("{}/{}", step.backend, step.action));
        let counts = counts_line(&step.counts);
        steps.row([step.step.to_string(), step.phase.to_string(), task, format!("{done}/{all}"), counts]);
    }
    let mut text = format!("{}\n{}", facts(&head), steps.render(terminal));
    text.extend(runs_text(doc, terminal).map(|runs| format!("\n{runs}")));
    if rows.is_empty() {
        return text;
    }
    let mut nodes = Table::new(&["STEP", "NODE", "STATUS", "ATTEMPTS", "DURATION", "MESSAGE"]);
    for row in rows {
        let result = &row.result;
        nodes.row([
            row.step.to_string(),
            one_line(&row.node),
            result.status.to_string(),
            result.attempts.to_string(),
            one_line(result.duration.as_deref().unwrap_or_default()),
            message(result).unwrap_or_default(),
        ]);
    }
    text.push_str(&format!("\n{}", nodes.render(terminal)));
    let all: u64 = doc.counts.values().sum();
    let more = all.saturating_sub(rows.len() as u64);
    if rows.len() == MAX_SHOWN && more > 0 {
        text.push_str(&format!("… {more} more; gridc job get {} has all of them\n", one_line(&doc.id)));
    }
    text
}

/// The column of names is there if any job has one.
fn list_text(jobs: &[JobDoc], terminal: bool) -> String {
    let named = jobs.iter().any(|job| job.name.is_some());
    let mut columns = vec!["ID", "STATUS", "TARGET", "NODES", "STEPS", "CREATED", "OUTCOMES"];
    if named {
        columns.insert(1, "NAME");
    }
    let mut table = Table::new(&columns);
    for job in jobs {
        let mut row = vec![
            one_line(&job.id),
            format!("{}{}", job.status, if job.held.is_some() { " (held)" } else { "" }),
            target(&job.target),
            job.node_count().to_string(),
            job.steps.len().to_string(),
            one_line(&job.created_at),
            counts_line(&job.counts),
        ];
        if named {
            row.insert(1, job.name.as_deref().map_or_else(|| "-".to_owned(), one_line));
        }
        table.row(row);
    }
    table.render(terminal)
}

#[cfg(test)]
mod tests {
    use super::{list_text, status_text};
    use crate::samples::job;
    use grid_types::Outcome;
    use grid_types::api::{ResultDoc, ResultRowDoc};

    #[test]
    fn status_reads_as_facts_steps_and_nodes() {
        let mut doc = job("failed", &[("success", 2), ("failed", 1)]);
        doc.reason = Some("too many failures".to_owned());
        let result = ResultDoc {
            status: Outcome::Failed,
            duration: Some("0.2s".to_owned()),
            attempts: 2,
            error: Some("boom\nand more".to_owned()),
            reason: None,
            started_at: None,
        };
        doc.failure_tolerate = "10%".to_owned();
        let text = status_text(&doc, None, &[ResultRowDoc { step: 0, node: "web-02".to_owned(), result }], false);
        let want = "\
job        job-0c5t9v3k2m7qa
namespace  default
status     failed: too many failures
target     all
nodes      3
strategy   fail-fast
tolerates  10%
created    2026-02-12T10:30:00Z
updated    2026-02-12T10:30:01Z

STEP  PHASE  TASK       DONE  OUTCOMES
0     0      ping/echo  3/3   2 success, 1 failed

STEP  NODE    STATUS  ATTEMPTS  DURATION  MESSAGE
0     web-02  failed  2         0.2s      boom\\nand more
";
        assert_eq!(text, want);
    }

    #[test]
    fn a_list_has_one_line_a_job() {
        let text = list_text(&[job("running", &[("running", 3)])], false);
        let want = "\
ID                 STATUS   TARGET  NODES  STEPS  CREATED               OUTCOMES
job-0c5t9v3k2m7qa  running  all     3      1      2026-02-12T10:30:00Z  3 running
";
        assert_eq!(text, want);
    }
}
