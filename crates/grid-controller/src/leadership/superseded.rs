//! A cluster whose backup was restored elsewhere (E2): who may show it, and what then happens to its sessions.
//!
//! A worker or a controller of this cluster that has seen an epoch of a later restore proves it; a client's number proves nothing
//! and is only recorded, at most once a minute. An epoch names the restore: its generation is higher or, if one backup was
//! restored twice, its `n` is, which begins with the time of the restore.
//! Not here: what is refused afterwards (`grid-core`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use grid_core::{Command, Rejection, Shown, Supersede, Superseded};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_raft::PlausibleEpochs;
use grid_tasks::Tasks;
use grid_types::api::SupersededDoc;
use grid_types::{Code, LeaderEpoch};
use tracing::{error, warn};

use crate::control::Refusal;
use crate::shared::Shared;

const CLAIMS_EVERY_MS: u64 = 60_000;
/// A day: clocks of controllers differ by less.
const CLOCKS_DIFFER_SECS: u32 = 24 * 3_600;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Commits it, and ends the sessions of workers: they look for the controllers that they should follow. Does nothing if it
/// is recorded already, or an operator has lifted it.
pub async fn commit(shared: &Arc<Shared>, epoch: LeaderEpoch, by: String) {
    let is_news = shared.state().meta.is_superseded_by(epoch);
    if !is_news || shared.open_term().is_none() {
        return;
    }
    let shown = Some(Shown::new(epoch, Some(by.clone())));
    match shared.log.proposer.propose(&Command::Supersede(Supersede { shown })).await {
        Ok(_) if shared.state().meta.superseded.is_none() => {}
        Ok(_) => {
            error!(%epoch, by, "this cluster was restored elsewhere: writes are refused (gridc cluster status)");
            shared.lead(|leader, _| leader.on_superseded());
            note(shared);
        }
        Err(no_reply) => warn!(%epoch, by, "could not record that this cluster was superseded: {no_reply}"),
    }
}

/// What the log says reaches those who wait for it.
fn note(shared: &Shared) {
    let is_superseded = shared.state().meta.superseded.is_some();
    shared.tenure.superseded.send_if_modified(|noted| std::mem::replace(noted, is_superseded) != is_superseded);
}

/// Another leader announced itself to the workers, which both of them reach.
pub async fn announced(shared: &Arc<Shared>, cluster_id: &str, epoch: LeaderEpoch) {
    let is_elsewhere = {
        let state = shared.state();
        state.meta.cluster_id == cluster_id && state.meta.is_elsewhere(epoch)
    };
    if is_elsewhere && is_believed(shared, Port::Nats, epoch) {
        commit(shared, epoch, "a leader of the restored cluster".to_owned()).await;
    }
}

/// Whether restores can explain the epoch that is shown on `port` (`grid_raft::PlausibleEpochs`); one that they cannot is counted,
/// and supersedes nothing.
pub fn is_believed(shared: &Shared, port: Port, epoch: LeaderEpoch) -> bool {
    let plausible = plausible(shared);
    let is_believed = plausible.contains(epoch.wire());
    if !is_believed {
        let (LeaderEpoch { generation, n }, newest) = (epoch, plausible.newest_generation);
        refuse(
            port,
            Kind::GenerationTooHigh,
            format_args!("epoch {n} of generation {generation} is shown, generation {newest} is known"),
        );
    }
    is_believed
}

/// The epochs of a restore begin with its time, and leaders do not change every second.
fn plausible(shared: &Shared) -> PlausibleEpochs {
    let now_n = grid_core::first_n(shared.clock.wall_ms());
    let meta = &shared.state().meta;
    let own = meta.leadership.epoch;
    PlausibleEpochs {
        own_generation: own.generation,
        newest_generation: meta.newest_generation(),
        most_n: own.n.max(now_n).saturating_add(CLOCKS_DIFFER_SECS),
    }
}

/// Tells other controllers the epoch of this one, and commits that of a later restore which they show. Runs until the member
/// ends.
pub async fn follow_peers(shared: Arc<Shared>) {
    let shown = shared.log.raft.shown_epoch();
    let mut interval = tokio::time::interval(LOOK_EVERY);
    while shared.tenure.leadership.has_changed().is_ok() {
        interval.tick().await;
        let own = shared.state().meta.leadership.epoch;
        shared.log.raft.set_epoch(own.wire(), plausible(&shared));
        let (epoch, by) = shown.borrow().clone();
        commit(&shared, LeaderEpoch::from_wire(epoch), by).await;
        note(&shared);
    }
}

/// E2: a change of the members is a write, too.
pub fn refuse_change(shared: &Shared) -> Result<(), Refusal> {
    let state = shared.state();
    let Some(Superseded { generation, by, .. }) = state.meta.superseded.clone() else { return Ok(()) };
    Err(Refusal::new(Code::Superseded, Rejection::Superseded { generation, by }.to_string()))
}

/// A client sent an epoch that is not the current one.
pub fn claimed(shared: &Arc<Shared>, tasks: &Tasks, epoch: u64) {
    let claimed = LeaderEpoch::from_wire(epoch);
    let generation = claimed.generation;
    if generation <= shared.generation() || shared.open_term().is_none() {
        return;
    }
    if !is_believed(shared, Port::Api, claimed) {
        return;
    }
    let now = shared.clock.mono_ms().max(1);
    let last = shared.tenure.last_claim_mono_ms.load(Ordering::Relaxed);
    let is_due = last == 0 || now.saturating_sub(last) >= CLAIMS_EVERY_MS;
    let taken = shared.tenure.last_claim_mono_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
    if !is_due || taken.is_err() {
        return;
    }
    let shared = Arc::clone(shared);
    tasks.start_finite("epoch-claim", async move {
        let shown = Some(Shown::new(claimed, None));
        if let Err(no_reply) = shared.log.proposer.propose(&Command::Supersede(Supersede { shown })).await {
            warn!(generation, "a client's epoch of a higher generation was not recorded: {no_reply}");
        }
    });
}

pub fn doc(shared: &Shared) -> Option<SupersededDoc> {
    let state = shared.state();
    let superseded = state.meta.superseded.as_ref()?;
    let at = crate::time::time_text(superseded.wall_ms);
    Some(SupersededDoc { generation: superseded.generation, by: superseded.by.clone(), at })
}
