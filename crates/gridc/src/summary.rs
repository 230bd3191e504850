//! How a job ended, in a few lines for a person.

use grid_client::{Client, Error, ResultsQuery};
use grid_types::api::JobDoc;
use grid_types::{JobId, JobStatus, Outcome};

use crate::text::{count, counts_line, failures, number, one_line};

const MAX_NAMED: usize = 10;

/// Status and reason, counts per outcome, and the first nodes that failed.
///
/// # Errors
/// When the failures of a large job cannot be read.
pub async fn summary(client: &Client, namespace: &str, job: JobId, doc: &JobDoc) -> Result<String, Error> {
    let why = doc.reason.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    let mut text = format!("{job} {}{why}\n", doc.status);
    let (steps, nodes) = (number(doc.steps.len(), "step"), number(doc.expected.len(), "node"));
    text.push_str(&format!("  {steps} on {nodes}: {}\n", counts_line(&doc.counts)));
    let all = usize::try_from(failures(&doc.counts)).unwrap_or(usize::MAX);
    if all > 0 {
        let named = failed(client, namespace, job, doc).await?;
        let more = all.saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text.push_str(&format!("  failed: {}{more}\n", named.join(", ")));
    }
    if count(&doc.counts, Outcome::Unknown) > 0 {
        text.push_str("hint: unknown counts as failed; with on_unknown: wait a job asks first (gridc job resolve)\n");
    }
    if doc.status != JobStatus::Completed {
        text.push_str(&format!("hint: gridc job status {job} shows what happened on each node\n"));
        text.push_str(&format!("hint: gridc job resume {job} runs what is missing\n"));
    }
    Ok(text)
}

/// `web-02 (step 1)`, at most [`MAX_NAMED`] of them.
async fn failed(client: &Client, namespace: &str, job: JobId, doc: &JobDoc) -> Result<Vec<String>, Error> {
    let mut rows: Vec<(u32, String)> = Vec::new();
    if let Some(results) = &doc.results {
        for (step, nodes) in results {
            let failed = nodes.iter().filter(|(_, result)| result.status.is_failure());
            rows.extend(failed.map(|(node, _)| (step.parse().unwrap_or(0), node.clone())));
        }
    } else {
        for outcome in Outcome::ALL.into_iter().filter(|o| o.is_failure()) {
            let limit = u32::try_from(MAX_NAMED).ok();
            let query = ResultsQuery { status: Some(outcome), limit, ..ResultsQuery::default() };
            let page = client.results(namespace, job, &query).await?;
            rows.extend(page.items.into_iter().map(|row| (row.step, row.node)));
        }
    }
    rows.sort();
    rows.truncate(MAX_NAMED);
    Ok(rows.iter().map(|(step, node)| format!("{} (step {step})", one_line(node))).collect())
}
