//! Prints how a job ended, in a few lines.
//!
//! Failures with the same text are printed once, with the nodes they happened on: of 200 nodes that could not reach the
//! mirror the mirror is the news.

use std::collections::{BTreeMap, BTreeSet};

use grid_client::{Client, Error, ResultsQuery};
use grid_types::api::{JobDoc, ResultDoc};
use grid_types::{JobId, JobStatus, Outcome};

use crate::text::{count, counts_line, failures, message, named, nodes, number, one_line, step_name};

const MAX_GROUPS: usize = 6;
const PAGE: u32 = 1_000;

/// Status and reason, counts per outcome, which nodes failed and with what words, and how to go on.
///
/// # Errors
/// When the failures of a large job cannot be read.
pub async fn summary(client: &Client, namespace: &str, job: JobId, doc: &JobDoc) -> Result<String, Error> {
    let why = doc.reason.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    let mut text = format!("{job} {}{why}\n", doc.status);
    let (steps, nodes) = (number(doc.steps.len(), "step"), nodes(doc));
    text.push_str(&format!("  {steps} on {nodes}: {}\n", counts_line(&doc.counts)));
    let all = failures(&doc.counts);
    if all > 0 {
        let groups = grouped(failed(client, namespace, job, doc).await?);
        text.push_str(&failed_text(job, doc, &groups, all));
    }
    if doc.skipped_offline > 0 {
        text.push_str(&offline_text(job, doc, offline(client, namespace, job, doc).await?));
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

struct Group {
    step: u32,
    status: Outcome,
    message: String,
    nodes: Vec<String>,
}

/// Largest first.
fn grouped(rows: Vec<(u32, String, ResultDoc)>) -> Vec<Group> {
    let mut groups: BTreeMap<(u32, Outcome, String), Vec<String>> = BTreeMap::new();
    for (step, node, result) in rows {
        let key = (step, result.status, message(&result).unwrap_or_default());
        groups.entry(key).or_default().push(node);
    }
    let mut groups: Vec<_> = groups
        .into_iter()
        .map(|((step, status, message), mut nodes)| {
            nodes.sort();
            Group { step, status, message, nodes }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    groups
}

fn failed_text(job: JobId, doc: &JobDoc, groups: &[Group], all: u64) -> String {
    let mut text = String::new();
    let mut told = 0;
    for group in groups.iter().take(MAX_GROUPS) {
        told += group.nodes.len() as u64;
        let step = doc.steps.iter().find(|s| s.step == group.step);
        let step = step.map_or_else(|| format!("step {}", group.step), step_name);
        let why = if group.message.is_empty() { String::new() } else { format!(": {}", group.message) };
        match group.nodes.as_slice() {
            [node] => text.push_str(&format!("  {step} {} on {}{why}\n", group.status, one_line(node))),
            nodes => {
                let many = number(nodes.len(), "node");
                text.push_str(&format!("  {step} {} on {many}{why}\n    {}\n", group.status, named(nodes)));
            }
        }
    }
    let more = all.saturating_sub(told);
    if more > 0 {
        text.push_str(&format!("  and {more} more; gridc job get {job} has all of them\n"));
    }
    text
}

/// Nobody is left out in silence: who was away, by name.
fn offline_text(job: JobId, doc: &JobDoc, names: Vec<String>) -> String {
    let names: Vec<String> = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    if names.is_empty() {
        return String::new();
    }
    let mut text = format!("  skipped, offline: {}\n", named(&names));
    if doc.status == JobStatus::Completed {
        text.push_str(&format!("hint: when they are back, gridc job resume {job} runs it there\n"));
    }
    text
}

async fn offline(client: &Client, namespace: &str, job: JobId, doc: &JobDoc) -> Result<Vec<String>, Error> {
    let is_offline = |result: &ResultDoc| {
        result.status == Outcome::Skipped && result.reason.as_deref().is_some_and(|why| why.contains("offline"))
    };
    if let Some(results) = &doc.results {
        let rows = results.values().flatten().filter(|(_, result)| is_offline(result));
        return Ok(rows.map(|(node, _)| node.clone()).collect());
    }
    let query = ResultsQuery { status: Some(Outcome::Skipped), limit: Some(PAGE), ..ResultsQuery::default() };
    let page = client.results(namespace, job, &query).await?;
    Ok(page.items.into_iter().filter(|row| is_offline(&row.result)).map(|row| row.node).collect())
}

/// Failures, at most a page of each kind.
async fn failed(
    client: &Client,
    namespace: &str,
    job: JobId,
    doc: &JobDoc,
) -> Result<Vec<(u32, String, ResultDoc)>, Error> {
    let mut rows = Vec::new();
    if let Some(results) = &doc.results {
        for (step, nodes) in results {
            let failed = nodes.iter().filter(|(_, result)| result.status.is_failure());
            rows.extend(failed.map(|(node, result)| (step.parse().unwrap_or(0), node.clone(), result.clone())));
        }
    } else {
        let kinds = Outcome::ALL.into_iter().filter(|o| o.is_failure() && count(&doc.counts, *o) > 0);
        for outcome in kinds {
            let query = ResultsQuery { status: Some(outcome), limit: Some(PAGE), ..ResultsQuery::default() };
            let page = client.results(namespace, job, &query).await?;
            rows.extend(page.items.into_iter().map(|row| (row.step, row.node, row.result)));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::{failed_text, grouped};
    use crate::samples::job;
    use grid_types::Outcome;
    use grid_types::api::ResultDoc;

    #[test]
    fn equal_words_are_told_once_and_lists_are_bounded() {
        let row = |node: String, status: Outcome, error: &str| {
            let error = Some(error.to_owned()).filter(|e| !e.is_empty());
            (
                0,
                node,
                ResultDoc {
                    status,
                    duration: None,
                    attempts: 1,
                    error,
                    reason: None,
                    started_at: None,
                    exit_code: None,
                    signal: None,
                    changed: None,
                },
            )
        };
        let mut rows = vec![row("a".to_owned(), Outcome::Failed, "boom"), row("b".to_owned(), Outcome::TimedOut, "")];
        rows.extend((0..30).map(|n| row(format!("n-{n:02}"), Outcome::Failed, "disk full")));
        let doc = job("failed", &[("failed", 40)]);
        let id = "job-0c5t9v3k2m7qa".parse().unwrap();
        assert_eq!(
            failed_text(id, &doc, &grouped(rows), 40),
            "  step 0 ping/echo failed on 30 nodes: disk full\n    \
             n-00, n-01, n-02, n-03, n-04, n-05, n-06, n-07, n-08, n-09, n-10 and 19 more\n  \
             step 0 ping/echo failed on a: boom\n  \
             step 0 ping/echo timed_out on b\n  \
             and 8 more; gridc job get job-0c5t9v3k2m7qa has all of them\n"
        );
        let rows = (0..9).map(|n| row(format!("n-{n}"), Outcome::Failed, &format!("error {n}"))).collect();
        let text = failed_text(id, &doc, &grouped(rows), 9);
        assert!(
            text.lines().count() == 7
                && text.ends_with("  and 3 more; gridc job get job-0c5t9v3k2m7qa has all of them\n"),
            "{text}"
        );
    }
}
