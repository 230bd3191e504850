//! Keeps history and the list of nodes from growing for ever: proposes what may be dropped, in small commands (L6).
//!
//! Soon after a term begins and about once an hour, the leader proposes what is due until nothing is. What a command
//! leaves to be removed on disk goes with the batches after it; if nobody else writes, empty commands bring them about.
//! Not here: which jobs and nodes are due (`grid-plan`), what goes (`grid-core`, `grid-store`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grid_core::{Command, PruneHistory, ReclaimNodes, RemoveNode};
use grid_plan::{old_history, unused_nodes};
use grid_types::NodeOrd;
use tracing::{debug, info};

use crate::shared::Shared;

const SELDOM: Duration = Duration::from_secs(3_600);
const OFTEN: Duration = Duration::from_secs(1);
/// Between two commands, so that they never delay what clients wait for.
const BREATH: Duration = Duration::from_millis(20);

pub async fn prune(shared: Arc<Shared>) {
    // A history of a day or less is looked through more often.
    let pause = Duration::from_millis(shared.settings.history_ms / 24).clamp(OFTEN, SELDOM);
    let mut term = shared.tenure.term.clone();
    loop {
        if term.wait_for(Option::is_some).await.is_err() {
            return;
        }
        // A new leader has more urgent things to do first.
        tokio::time::sleep(OFTEN).await;
        let forgotten = forget_what_is_due(&shared).await;
        if forgotten > 0 {
            info!(jobs = forgotten, "old history was removed");
        }
        drop_unused_nodes(&shared).await;
        tokio::time::sleep(pause).await;
    }
}

async fn forget_what_is_due(shared: &Shared) -> usize {
    let mut forgotten = 0;
    loop {
        let Some(term) = shared.current_term() else { return forgotten };
        let due = old_history(&shared.state(), term.now_ms(), shared.settings.history_ms);
        let next = match due {
            Some(due) => due,
            None => match left_over(shared, term.now_ms()).await {
                Some(rest) => rest,
                None => return forgotten,
            },
        };
        let jobs = next.jobs.len();
        if let Err(no_reply) = shared.log.proposer.propose(&Command::PruneHistory(next)).await {
            debug!("history is not pruned now: {no_reply}");
            return forgotten;
        }
        forgotten += jobs;
        tokio::time::sleep(BREATH).await;
    }
}

/// Rows that no batch has removed yet, and events that belong to no job.
async fn left_over(shared: &Shared, now_ms: u64) -> Option<PruneHistory> {
    let events_before_ms = now_ms.saturating_sub(shared.settings.history_ms);
    let read = shared.reading.read(move |reader| {
        Ok((reader.unswept_jobs()? > 0, events_before_ms > 0 && reader.has_loose_events_before(events_before_ms)?))
    });
    let (unswept, old_events) = read.await.ok()?;
    let events_before_ms = if old_events { events_before_ms } else { 0 };
    (unswept || old_events).then_some(PruneHistory { ended_before_ms: 0, jobs: Vec::new(), events_before_ms })
}

/// Removes agents that stopped asking, and reclaims removed nodes; both only if no stored job names them.
async fn drop_unused_nodes(shared: &Shared) {
    let Some(term) = shared.current_term() else { return };
    let unused = unused_nodes(&shared.state(), term.now_ms());
    let candidates: BTreeSet<NodeOrd> = unused.tombstones.keys().chain(&unused.silent_agents).copied().collect();
    if candidates.is_empty() {
        return;
    }
    let Ok(named) = shared.reading.read(move |reader| reader.expected_among(&candidates)).await else { return };
    for node in unused.silent_agents.difference(&named).copied() {
        let command = Command::RemoveNode(RemoveNode { node, force: false, lapsed: true });
        if let Err(no_reply) = shared.log.proposer.propose(&command).await {
            debug!("agent {node} is not removed now: {no_reply}");
        }
    }
    let nodes: Vec<_> = unused.tombstones.into_iter().filter(|(node, _)| !named.contains(node)).collect();
    if !nodes.is_empty()
        && let Err(no_reply) = shared.log.proposer.propose(&Command::ReclaimNodes(ReclaimNodes { nodes })).await
    {
        debug!("removed nodes are not reclaimed now: {no_reply}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grid_core::{Command, RemoveNode};
    use grid_types::{JobId, NodeOrd};
    use tempfile::TempDir;

    use crate::life::{opening, propose, register, started, submit};

    #[tokio::test(flavor = "multi_thread")]
    async fn issue13_19_a_removed_node_is_reclaimed_unless_a_job_names_it() {
        let home = TempDir::new().unwrap();
        let mut opening = opening(home.path(), "c1", true);
        opening.settings.history_ms = 1_000_000;
        let controller = started(opening).await.unwrap();
        propose(&controller, register("n1")).await;
        propose(&controller, submit(JobId(1))).await;
        propose(&controller, register("n2")).await;
        for node in [1, 2] {
            propose(&controller, Command::RemoveNode(RemoveNode { node: NodeOrd(node), force: true, lapsed: false }))
                .await;
        }
        let known = || controller.shared.state().nodes.keys().map(|node| node.0).collect::<Vec<_>>();
        let reclaimed = async {
            while known() != [1] {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), reclaimed).await.is_ok(), "{:?}", known());
        controller.shutdown().await;
    }
}
