//! Leadership: from Raft's word that this member leads to the role `LEADER`, and back.
//!
//! ```text
//!   STANDBY --Raft: leader in term T--> BeginTerm(T) proposed --applied--> LEADER --Raft: not any more--> STANDBY
//! ```
//!
//! E1: `BeginTerm` is proposed once per Raft term; mutations and dispatch open only when it is applied. What is watched
//! is the term, not the name of the leader: the watch coalesces, and A→B→A must not look like A.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grid_core::{BeginTerm, Command, EntryHead, Reply, encode_command, encode_entry};
use grid_fabric::closing;
use grid_raft::Raft;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use crate::machine::Replies;
use crate::shared::Shared;
use crate::term::Term;

/// Before a term that could not begin is begun again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Runs until the member ends.
pub async fn follow(shared: Arc<Shared>, raft: Raft<Replies>, term: watch::Sender<Option<Term>>, deposed: Arc<Notify>) {
    let mut leadership = raft.leadership();
    loop {
        let now = leadership.borrow_and_update().clone();
        let held = term.borrow().as_ref().map(|term| term.term);
        if held.is_some() && (!now.is_leader || held != Some(now.term)) {
            step_down(&shared, &term);
        }
        if now.is_leader && held != Some(now.term) {
            match begin(&shared, &raft, now.term).await {
                Ok(begun) => {
                    info!(epoch = %begun.epoch, term = now.term, "leader");
                    {
                        let state = shared.state();
                        let mut soft = shared.soft();
                        soft.liveness.new_term();
                        soft.backstop.new_term(&state, shared.clock.mono_ms());
                    }
                    term.send_replace(Some(begun));
                    shared.publish_role(true);
                }
                Err(why) => warn!(term = now.term, "could not begin the term: {why}"),
            }
        }
        let begun = term.borrow().is_some();
        tokio::select! {
            changed = leadership.changed() => if changed.is_err() { break },
            () = deposed.notified() => {}
            () = tokio::time::sleep(TRY_AGAIN), if now.is_leader && !begun => {}
        }
    }
    step_down(&shared, &term);
}

fn step_down(shared: &Shared, term: &watch::Sender<Option<Term>>) {
    if term.send_replace(None).is_some() {
        info!("standby");
    }
    shared.publish_role(false);
    shared.sessions().end_all(closing::NOT_LEADER);
}

async fn begin(shared: &Arc<Shared>, raft: &Raft<Replies>, raft_term: u64) -> Result<Term, String> {
    let settings = &shared.settings;
    let mut id = [0u8; 16];
    getrandom::fill(&mut id).map_err(|e| format!("no randomness: {e}"))?;
    let command = Command::BeginTerm(BeginTerm {
        term: raft_term,
        leader: settings.node_id.clone(),
        api_url: settings.api_url.clone(),
        grpc_addr: settings.grpc_addr.clone(),
        quotas: settings.quotas,
        cluster_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
        restored: shared.restored.clone(),
    });
    let (now_ms, epoch) = {
        let state = shared.state();
        (state.meta.now_ms, state.meta.leadership.epoch)
    };
    let head = EntryHead { epoch, term: raft_term, now_ms, wall_ms: shared.clock.wall_ms(), commands: 1 };
    let payload = encode_entry(head, [&encode_command(&command)]);
    let mut replies = raft.propose(Bytes::from(payload)).await.map_err(|e| e.to_string())?;
    match replies.pop() {
        Some(Ok(Reply::TermBegun { epoch })) => {
            // Leader time goes on from what is applied now, which may be past what was when this began.
            let base_ms = shared.state().meta.now_ms;
            Ok(Term::new(epoch, raft_term, base_ms, Arc::clone(&shared.clock)))
        }
        Some(Err(rejection)) => Err(rejection.to_string()),
        other => Err(format!("unexpected reply {other:?}")),
    }
}
