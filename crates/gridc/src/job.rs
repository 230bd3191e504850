//! `gridc job status|get|list|cancel`.

mod list;
mod status;

use std::collections::BTreeMap;

use grid_client::{Client, Error, ResultsQuery};
use grid_types::api::{JobStateDoc, ResultDoc};
use grid_types::{JobId, Span};

use crate::cli::{Format, Global};
use crate::connect::connect;
use crate::failure::{Failure, UNWRITTEN};
use crate::input::job_id;
use crate::out;
use crate::text::one_line;
use crate::watch::Until;

pub use list::list;
pub use status::status;

/// The most that a controller answers at once.
const PAGE: u32 = 1_000;

/// Results by step and node, as documents have them.
type Results = BTreeMap<String, BTreeMap<String, ResultDoc>>;

pub async fn get(global: &Global, id: &str, run: Option<u32>) -> Result<u8, Failure> {
    let (client, namespace, job) = (connect(global)?, global.namespace.as_str(), job_id(id)?);
    let mut doc = client.job_in(namespace, job, run).await?;
    let format = global.output.unwrap_or(Format::Json);
    if format == Format::Table {
        return status::print(&client, global, job, doc, &status::Filter::default()).await;
    }
    if doc.results.is_none() {
        let query = ResultsQuery { run, ..ResultsQuery::default() };
        doc.results = Some(every_result(&client, namespace, job, query).await?);
    }
    out::print(format, &doc, |_| String::new())?;
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
    let code = crate::run::stay(&client, global, job, Until::Quiet.within(limit)).await?;
    Ok(if code == UNWRITTEN { code } else { 0 })
}

/// Page by page.
async fn every_result(client: &Client, namespace: &str, job: JobId, query: ResultsQuery) -> Result<Results, Error> {
    let mut results = Results::new();
    let mut query = ResultsQuery { limit: Some(PAGE), ..query };
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
