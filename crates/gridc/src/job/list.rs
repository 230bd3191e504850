//! `gridc job list`: one line a job, newest first.
//!
//! A job that waits for an operator is shown as `waiting`, although its document says `running` or `pending`: it is the one
//! line of the list that somebody has to act on.

use grid_client::JobsQuery;
use grid_types::api::{JobDoc, ListDoc};
use jiff::Timestamp;

use super::PAGE;
use crate::cli::{Format, Global, ListArgs, StatusWord};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::each_once;
use crate::out::{self, tell};
use crate::paint::Tone;
use crate::table::{Cell, Table};
use crate::text::{counts_line, failures, one_line, target};
use crate::when::ago;

pub async fn list(global: &Global, args: &ListArgs) -> Result<u8, Failure> {
    each_once("label", &args.labels)?;
    let label = args.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let label = Some(label).filter(|label| !label.is_empty());
    let waiting = args.waiting || args.status == Some(StatusWord::Waiting);
    let is_filtered = waiting || args.status.is_some() || args.name.is_some() || label.is_some();
    let (client, namespace) = (connect(global)?, global.namespace.as_str());
    let mut jobs: ListDoc<JobDoc> = ListDoc { items: Vec::new(), next: None };
    loop {
        let left = args.limit.saturating_sub(u32::try_from(jobs.items.len()).unwrap_or(u32::MAX));
        let query = JobsQuery {
            status: args.status.and_then(StatusWord::status),
            name: args.name.clone(),
            label: label.clone(),
            waiting,
            after: jobs.next.take(),
            limit: Some(left.min(PAGE)),
        };
        let page = client.jobs(namespace, &query).await?;
        jobs.items.extend(page.items);
        jobs.next = page.next;
        if jobs.next.is_none() || jobs.items.len() >= args.limit as usize {
            break;
        }
    }
    let format = global.output.unwrap_or(Format::Table);
    out::print(format, &jobs, |terminal| table(&jobs.items, client.now()).painted(global.color.style(terminal)))?;
    if format != Format::Table {
        return Ok(0);
    }
    if jobs.items.is_empty() && waiting {
        tell(&format!("hint: no job in namespace {namespace} waits for an operator"));
    } else if jobs.items.is_empty() && is_filtered {
        tell(&format!(
            "hint: no job in namespace {namespace} matches; gridc job list without filters shows all of them"
        ));
    } else if jobs.items.is_empty() {
        tell(&format!("hint: no jobs in namespace {namespace}; gridc job run submits one"));
    } else if jobs.next.is_some() {
        out::tell_more(jobs.items.len());
    }
    Ok(0)
}

/// The column of names is there if any job has one.
fn table(jobs: &[JobDoc], now: Timestamp) -> Table {
    let named = jobs.iter().any(|job| job.name.is_some());
    let mut columns = vec!["ID", "STATUS", "TARGET", "NODES", "FAILED", "CREATED", "OUTCOMES"];
    if named {
        columns.insert(1, "NAME");
    }
    let mut table = Table::new(&columns).keep(&["ID", "STATUS", "NODES", "FAILED", "CREATED"]).spare("OUTCOMES");
    for job in jobs {
        let failed = failures(&job.counts);
        let mut row: Vec<Cell> = vec![
            one_line(&job.id).into(),
            status(job),
            target(&job.target).into(),
            job.node_count().to_string().into(),
            Cell::toned(failed.to_string(), if failed > 0 { Tone::Bad } else { Tone::Plain }),
            ago(&job.created_at, now).into(),
            counts_line(&job.counts).into(),
        ];
        if named {
            row.insert(1, job.name.as_deref().map(one_line).unwrap_or_default().into());
        }
        table.row(row);
    }
    table
}

/// Older controllers mark only what is held after a restore.
fn status(job: &JobDoc) -> Cell {
    if job.waiting_for.is_some() || job.held.is_some() {
        Cell::toned("waiting", Tone::Waits)
    } else {
        Cell::toned(job.status.word(), Tone::of_job(job.status))
    }
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::samples::job;
    use grid_types::WaitingFor;
    use jiff::Timestamp;

    fn now() -> Timestamp {
        "2026-02-12T10:33:10Z".parse().unwrap()
    }

    #[test]
    fn a_list_has_one_line_a_job() {
        let mut waits = job("running", &[("success", 2), ("pending", 1)]);
        waits.waiting_for = Some(WaitingFor::Confirmation);
        let text = table(&[job("running", &[("failed", 1), ("running", 2)]), waits], now()).render(false);
        let want = "\
ID                 STATUS   TARGET  NODES  FAILED  CREATED  OUTCOMES
job-0c5t9v3k2m7qa  running  all     3      1       3m ago   1 failed, 2 running
job-0c5t9v3k2m7qa  waiting  all     3      0       3m ago   2 success, 1 pending
";
        assert_eq!(text, want);
    }
}
