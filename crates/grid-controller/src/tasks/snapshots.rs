//! Records when the snapshots of a controller fail and when they work again.
//!
//! Each controller reports what is wrong with its own (`leadership::About`); the leader asks all of them and proposes what
//! the state does not have yet. A controller that does not answer is left as it is.
//! Not here: the retries (`grid-raft::snapshots::persistence`), what becomes an event (`ReportSnapshots`).

use std::sync::Arc;
use std::time::Duration;

use grid_core::{Command, ReportSnapshots};
use grid_types::Name;
use tracing::debug;

use crate::leadership::snapshot_problem;
use crate::shared::Shared;

/// Other controllers say how their snapshots are when they are asked, and not before.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs until the member ends.
pub async fn follow(shared: Arc<Shared>) {
    let mut term = shared.tenure.term.clone();
    while term.wait_for(Option::is_some).await.is_ok() {
        for command in news(&shared).await {
            if let Err(no_reply) = shared.log.proposer.propose(&Command::ReportSnapshots(command)).await {
                debug!("a change of the snapshots' state was not recorded: {no_reply}");
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn news(shared: &Shared) -> Vec<ReportSnapshots> {
    if shared.open_term().is_none() {
        return Vec::new();
    }
    let states = shared.log.raft.states().await;
    let roster = shared.log.raft.roster();
    let known = shared.state().meta.failing_snapshots.clone();
    let found = states.iter().filter_map(|state| {
        let listed = roster.members.iter().find(|listed| listed.raft_id == state.raft_id)?;
        let controller: Name = listed.member.node_id.parse().ok()?;
        let problem = snapshot_problem(state)?;
        Some(ReportSnapshots { controller, problem })
    });
    found.filter(|report| report.problem.is_some() != known.contains(&report.controller)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use grid_store::EventFilter;
    use tempfile::TempDir;

    use crate::controller::Controller;
    use crate::data_dir::raft_dir;
    use crate::life::{opening, propose, register, started};

    fn recorded(controller: &Controller) -> Vec<String> {
        let events = controller.shared.reading.reader.events_before(&EventFilter::default(), None, 1_000).unwrap();
        let kinds = events.items.into_iter().rev().map(|row| row.event.kind().to_owned());
        kinds.filter(|kind| kind.starts_with("Snapshots")).collect()
    }

    async fn until(controller: &Controller, kinds: &[&str]) {
        let reached = async {
            while recorded(controller) != kinds {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
        assert!(reached.is_ok(), "{:?} instead of {kinds:?}", recorded(controller));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn issue13_13_snapshots_that_fail_are_an_event_and_another_when_they_work_again() {
        let home = TempDir::new().unwrap();
        let controller = started(opening(home.path(), "c1", true)).await.unwrap();
        propose(&controller, register("n1")).await;
        let (folder, aside) = (raft_dir(home.path()).join("snapshots"), home.path().join("aside"));
        // No folder can be made or written where a file is.
        fs::rename(&folder, &aside).unwrap();
        fs::write(&folder, "").unwrap();
        let taken = tokio::spawn({
            let raft = controller.shared.log.raft.clone();
            async move { raft.trigger_snapshot().await }
        });
        until(&controller, &["SnapshotsFailed"]).await;
        fs::remove_file(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
        until(&controller, &["SnapshotsFailed", "SnapshotsRecovered"]).await;
        taken.await.unwrap().unwrap();
        assert_eq!(controller.shared.log.raft.snapshot_trouble(), None);
        controller.shutdown().await;
    }
}
