//! A cluster whose backup was restored elsewhere (E2): who may show it, and what then happens to its sessions.
//!
//! A worker or a controller of this cluster that has seen a higher generation proves it; a client's number proves nothing
//! and is only recorded, at most once a minute.
//! Not here: what is refused afterwards (`grid-core`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use grid_core::{Command, Shown, Supersede};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_types::LeaderEpoch;
use grid_types::api::SupersededDoc;
use tracing::{error, warn};

use crate::control::Refusal;
use crate::requests::refused;
use crate::shared::Shared;

const CLAIMS_EVERY_MS: u64 = 60_000;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Commits it, and ends the sessions of workers: they look for the controllers that they should follow. Does nothing if it
/// is recorded already, or an operator has lifted it.
pub async fn commit(shared: &Arc<Shared>, generation: u32, by: String) {
    let is_news = shared.state().meta.is_superseded_by(generation);
    if !is_news || shared.open_term().is_none() {
        return;
    }
    let shown = Some(Shown { generation, by: Some(by.clone()) });
    match shared.proposer.propose(&Command::Supersede(Supersede { shown })).await {
        Ok(_) => {
            error!(generation, by, "this cluster was restored elsewhere: writes are refused (gridc cluster status)");
            shared.sessions().end_all(grid_fabric::closing::STALE_SESSION);
        }
        Err(no_reply) => warn!(generation, by, "could not record that this cluster was superseded: {no_reply}"),
    }
}

/// Whether restores can explain the generation that somebody shows on `port`; one that is too far above the newest known one
/// is counted, and supersedes nothing.
pub fn is_believed(shared: &Shared, port: Port, generation: u32) -> bool {
    let newest = shared.state().meta.newest_generation();
    let is_believed = generation <= newest.saturating_add(grid_raft::GENERATION_STEP);
    if !is_believed {
        refuse(port, Kind::GenerationTooHigh, format_args!("generation {generation} is shown, {newest} is known"));
    }
    is_believed
}

/// Tells other controllers which generation this one is of, and commits a higher one that they show. Runs until the member
/// ends.
pub async fn follow_peers(shared: Arc<Shared>) {
    let shown = shared.raft.shown_generation();
    let mut interval = tokio::time::interval(LOOK_EVERY);
    while shared.leadership.has_changed().is_ok() {
        interval.tick().await;
        shared.raft.set_generation(shared.generation());
        let (generation, by) = shown.borrow().clone();
        commit(&shared, generation, by).await;
    }
}

pub async fn lift(shared: &Arc<Shared>) -> Result<(), Refusal> {
    let command = Command::Supersede(Supersede { shown: None });
    shared.proposer.propose(&command).await.map(drop).map_err(refused)
}

/// A client sent an epoch that is not the current one.
pub fn claimed(shared: &Arc<Shared>, epoch: u64) {
    let generation = LeaderEpoch::from_wire(epoch).generation;
    if generation <= shared.generation() || shared.open_term().is_none() {
        return;
    }
    if !is_believed(shared, Port::Api, generation) {
        return;
    }
    let now = shared.clock.mono_ms().max(1);
    let last = shared.last_claim_mono_ms.load(Ordering::Relaxed);
    let is_due = last == 0 || now.saturating_sub(last) >= CLAIMS_EVERY_MS;
    let taken = shared.last_claim_mono_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
    if !is_due || taken.is_err() {
        return;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let shown = Some(Shown { generation, by: None });
        if let Err(no_reply) = shared.proposer.propose(&Command::Supersede(Supersede { shown })).await {
            warn!(generation, "a client's epoch of a higher generation was not recorded: {no_reply}");
        }
    });
}

pub fn doc(shared: &Shared) -> Option<SupersededDoc> {
    let state = shared.state();
    let superseded = state.meta.superseded.as_ref()?;
    let at = grid_store::time_text(superseded.wall_ms);
    Some(SupersededDoc { generation: superseded.generation, by: superseded.by.clone(), at })
}
