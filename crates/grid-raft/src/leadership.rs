//! Reports who leads, and whether this member still runs.
//!
//! A task follows openraft's metrics and publishes [`Leadership`] when it
//! changes. E1: a watch keeps only the newest value, so A→B→A may be seen as
//! one step; the term tells the two As apart.
//! When the core ends, the last value says that nobody leads, the channel
//! closes, and the reason is kept.
//! Not here: the roles of a controller, which depend on `BeginTerm` being
//! applied, not on winning the vote.

use grid_tasks::Tasks;
use openraft::ServerState;
use openraft::error::Fatal;
use openraft::metrics::RaftServerMetrics;
use tokio::sync::watch;

use crate::group::{Group, Member};

/// The group's leadership as this member knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    pub leader: Option<LeaderInfo>,
    /// Whether this member leads in `term`.
    pub is_leader: bool,
}

/// Where to find a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderInfo {
    pub raft_id: u64,
    /// Empty if membership does not know it yet.
    pub member: Member,
}

/// Follows `raft` until it ends. The second channel holds the reason, once
/// there is one.
pub fn observe(
    raft: &openraft::Raft<Group>,
    tasks: &Tasks,
) -> (watch::Receiver<Leadership>, watch::Receiver<Option<String>>) {
    let mut server = raft.server_metrics();
    let state = raft.metrics();
    let (leadership, leadership_rx) = watch::channel(leadership_of(&server.borrow_and_update()));
    let (reason, reason_rx) = watch::channel(None);
    tasks.start("leadership", async move {
        while server.changed().await.is_ok() {
            let now = leadership_of(&server.borrow_and_update());
            publish(&leadership, now);
        }
        let term = leadership.borrow().term;
        let ended = Leadership { term, ..Leadership::default() };
        publish(&leadership, ended);
        let text = reason_of(&state.borrow().running_state);
        reason.send_replace(Some(text));
    });
    (leadership_rx, reason_rx)
}

fn publish(channel: &watch::Sender<Leadership>, now: Leadership) {
    channel.send_if_modified(|before| {
        let is_news = *before != now;
        *before = now;
        is_news
    });
}

fn leadership_of(metrics: &RaftServerMetrics<u64, Member>) -> Leadership {
    let leader = metrics.current_leader.map(|raft_id| LeaderInfo {
        raft_id,
        member: metrics.membership_config.membership().get_node(&raft_id).cloned().unwrap_or_default(),
    });
    Leadership {
        term: metrics.vote.leader_id.term,
        is_leader: metrics.state == ServerState::Leader && metrics.current_leader == Some(metrics.id),
        leader,
    }
}

fn reason_of(running: &Result<(), Fatal<u64>>) -> String {
    match running {
        // The core sets a reason whenever it ends by itself.
        Ok(()) | Err(Fatal::Panicked) => "internal error: the raft task panicked".into(),
        Err(Fatal::Stopped) => "it was shut down".into(),
        Err(Fatal::StorageError(e)) => e.to_string(),
    }
}
