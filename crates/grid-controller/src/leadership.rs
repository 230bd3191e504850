//! Follows Raft's leadership: takes the role `LEADER` when this member leads, and gives it up afterwards.
//!
//! ```text
//!   STANDBY --Raft: leader in term T--> BeginTerm(T) proposed --applied--> LEADER --Raft: not any more--> STANDBY
//!                                                                          |    ^
//!                                                   no majority answers (E5) |    | it answers again, same term
//!                                                                          v    |
//!                                                                         STANDBY
//! ```
//!
//! E1: `BeginTerm` is proposed once per Raft term; mutations and dispatch open only when it is applied. What is watched
//! is the term, not the name of the leader: the watch coalesces, and A→B→A must not look like A.
//! Not here: handing leadership over (`hand_over`).

mod about;
mod hand_over;
pub mod levels;
mod local_worker;
pub mod superseded;
mod unable;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use grid_core::{BeginTerm, Command, EntryHead, OLDEST_LEVEL, Reply, encode_command, encode_entry};
use grid_raft::Leadership;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use crate::leader::Leader;
use crate::shared::Shared;
use crate::term::Term;

pub use about::{About, describe, snapshot_problem};
pub use hand_over::hand_over;
pub use local_worker::follow as follow_local_worker;
pub use unable::hand_over_leadership;

/// How often a leader looks whether a majority is behind it, and tries again to begin its term. A majority is lost by silence, which
/// nothing signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs until the member ends.
pub async fn follow(shared: Arc<Shared>, term: watch::Sender<Option<Term>>, deposed: Arc<Notify>) {
    let mut leadership = shared.log.raft.leadership();
    let mut held: Option<Term> = None;
    loop {
        let now = leadership.borrow_and_update().clone();
        if held.as_ref().is_some_and(|held| !now.is_leader || held.term != now.term) {
            held = None;
        }
        if now.is_leader && held.is_none() {
            close(&shared, &term, "a new term begins");
            held = begin(&shared, &now).await;
        }
        match &held {
            Some(held) if shared.is_draining() || shared.log.raft.has_majority() => open(&shared, &term, held),
            Some(_) => close(&shared, &term, "no majority of the controllers answers"),
            None => close(&shared, &term, "this controller leads no more"),
        }
        tokio::select! {
            changed = leadership.changed() => if changed.is_err() { break },
            () = deposed.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY), if now.is_leader => {}
        }
    }
    close(&shared, &term, "this controller ends");
}

/// Takes up the work of the term, if that is not done yet.
fn open(shared: &Shared, term: &watch::Sender<Option<Term>>, held: &Term) {
    if term.borrow().is_some() {
        return;
    }
    info!(epoch = %held.epoch, term = held.term, "leader");
    shared.begin_leading(|now| Leader::new(held.term, held.epoch, shared.settings.thresholds, now));
    term.send_replace(Some(held.clone()));
    shared.log.raft.open_reads(held.term);
}

fn close(shared: &Shared, term: &watch::Sender<Option<Term>>, why: &str) {
    if term.borrow().is_none() {
        return;
    }
    shared.log.raft.open_reads(0);
    term.send_replace(None);
    info!("standby: {why}");
    shared.end_leading();
}

/// `None`: it is tried again, or leadership is gone.
async fn begin(shared: &Arc<Shared>, now: &Leadership) -> Option<Term> {
    // The effects of other terms are not this controller's; it stays until the next one, as others have other terms.
    shared.log.leading_term.store(now.term, Ordering::Release);
    if let Some(begun) = begun(shared, now.term) {
        return Some(begun);
    }
    let mut leadership = shared.log.raft.leadership();
    let proposed = tokio::select! {
        proposed = propose(shared, now.term) => proposed,
        // Without a majority the proposal waits for ever; another leader makes it pointless.
        _ = leadership.wait_for(|current| !current.is_leader || current.term != now.term) => return None,
    };
    // The reply may be lost, the entry not.
    let begun = begun(shared, now.term);
    if let (None, Err(why)) = (&begun, proposed) {
        warn!(term = now.term, "could not begin the term: {why}");
    }
    begun
}

/// The term, if its `BeginTerm` is applied here and was this controller's.
fn begun(shared: &Arc<Shared>, raft_term: u64) -> Option<Term> {
    let state = shared.state();
    let leadership = &state.meta.leadership;
    let is_ours = leadership.term == raft_term && leadership.leader.as_ref() == Some(&shared.settings.node_id);
    // Leader time goes on from what is applied now.
    is_ours.then(|| Term::new(leadership.epoch, raft_term, state.meta.now_ms, Arc::clone(&shared.clock)))
}

async fn propose(shared: &Arc<Shared>, raft_term: u64) -> Result<(), String> {
    let settings = &shared.settings;
    let command = Command::BeginTerm(BeginTerm {
        term: raft_term,
        leader: settings.node_id.clone(),
        api_url: settings.api_url.clone(),
        grpc_addr: settings.grpc_addr.clone(),
        quotas: settings.quotas,
        cluster_id: shared.log.raft.local_member().cluster_id.clone(),
        restored: shared.tenure.restored.clone(),
        feature_level: levels::common(shared).max(OLDEST_LEVEL),
    });
    let (now_ms, epoch) = {
        let state = shared.state();
        // W6: what passed since the last entry is recorded now, or a change of leader would take it back.
        (shared.tenure.elapsed.now_ms(state.meta.now_ms), state.meta.leadership.epoch)
    };
    let head = EntryHead { epoch, term: raft_term, now_ms, wall_ms: shared.clock.wall_ms(), commands: 1 };
    let payload = encode_entry(head, [&encode_command(&command)]);
    let mut replies = shared.log.raft.propose(Bytes::from(payload)).await.map_err(|e| e.to_string())?;
    match replies.pop() {
        Some(Ok(Reply::TermBegun { .. })) => Ok(()),
        Some(Err(rejection)) => Err(rejection.to_string()),
        other => Err(format!("unexpected reply {other:?}")),
    }
}
