//! Who is still at it, the longest first.
//!
//! Asked only while few are: of thousands that run, the longest ten seconds tell nothing, and the last ten nodes do.
//! How long is reckoned from the leader's wall clock to this machine's, and can never exceed what was watched: the two
//! clocks may differ.

use std::time::{Duration, Instant};

use grid_client::{Client, ResultsQuery};
use grid_types::api::{JobDoc, ResultDoc};
use grid_types::{JobId, Outcome};
use jiff::Timestamp;

use crate::live::Running;
use crate::text::count;

const FEW: u32 = 200;

pub async fn longest(client: &Client, namespace: &str, job: JobId, doc: &JobDoc, begun: Instant) -> Vec<Running> {
    let there = count(&doc.counts, Outcome::Running);
    if there == 0 || doc.status.is_ended() {
        return Vec::new();
    }
    let row = |step: u32, node: &str, result: &ResultDoc| Running {
        node: node.to_owned(),
        step,
        for_long: since(result.started_at.as_deref(), Timestamp::now(), begun.elapsed()),
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

fn since(started_at: Option<&str>, now: Timestamp, most: Duration) -> Duration {
    let started: Option<Timestamp> = started_at.and_then(|text| text.parse().ok());
    let ms = started.map_or(0, |started| now.as_millisecond() - started.as_millisecond());
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).min(most)
}

#[cfg(test)]
mod tests {
    use super::since;
    use std::time::Duration;

    #[test]
    fn clocks_that_differ_never_give_more_than_was_watched_nor_less_than_nothing() {
        let now = "2026-02-12T10:30:10Z".parse().unwrap();
        let watched = Duration::from_secs(30);
        for (started, want_s) in [
            (Some("2026-02-12T10:30:03Z"), 7),
            (Some("2026-02-12T10:35:00Z"), 0),
            (Some("2026-02-12T09:00:00Z"), 30),
            (Some("soon"), 0),
            (None, 0),
        ] {
            assert_eq!(since(started, now, watched), Duration::from_secs(want_s), "{started:?}");
        }
    }
}
