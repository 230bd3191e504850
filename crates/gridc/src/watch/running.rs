//! Lists the nodes that are still running, the longest first.
//!
//! Asked only while few are: of thousands that run, the longest ten seconds tell nothing, and the last ten nodes do.

use grid_client::{Client, ResultsQuery};
use grid_types::api::{JobDoc, ResultDoc};
use grid_types::{JobId, Outcome};

use crate::live::Running;
use crate::text::count;
use crate::when::since;

const FEW: u32 = 200;

pub async fn longest(client: &Client, namespace: &str, job: JobId, doc: &JobDoc) -> Vec<Running> {
    let there = count(&doc.counts, Outcome::Running);
    if there == 0 || doc.status.is_ended() {
        return Vec::new();
    }
    let row = |step: u32, node: &str, result: &ResultDoc| Running {
        node: node.to_owned(),
        step,
        for_long: since(result.started_at.as_deref(), client.now()),
    };
    let mut rows: Vec<Running> = if let Some(results) = &doc.results {
        let steps = results.iter().map(|(step, nodes)| (step.parse().unwrap_or(0), nodes));
        let running = steps.flat_map(|(step, nodes)| nodes.iter().map(move |(node, result)| (step, node, result)));
        let running = running.filter(|(.., result)| result.status == Outcome::Running);
        running.map(|(step, node, result)| row(step, node, result)).collect()
    } else if there <= u64::from(FEW) {
        let query = ResultsQuery { status: Some(Outcome::Running), limit: Some(FEW), ..ResultsQuery::default() };
        // Only words more: without them the rest still holds.
        let page = client.results(namespace, job, &query).await;
        page.map(|page| page.items.iter().map(|r| row(r.step, &r.node, &r.result)).collect()).unwrap_or_default()
    } else {
        Vec::new()
    };
    rows.sort_by(|a, b| b.for_long.cmp(&a.for_long).then_with(|| a.node.cmp(&b.node)));
    rows
}
