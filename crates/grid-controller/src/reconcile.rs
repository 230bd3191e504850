//! W5: what a worker holds against what the state says it should. Level-triggered: whatever message was lost, the next
//! comparison says it again.

use std::collections::BTreeSet;

use grid_core::{Effect, Node, Offer, State, node_effects};
use grid_proto::v1;
use grid_types::LeaseKey;

use crate::sessions::Session;

/// What is expected and not held is offered again after this long.
const OFFER_AGAIN_MS: u64 = 3_000;

/// The digest of the leases a node should hold.
pub fn expected_digest(state: &State, node: &Node) -> u64 {
    let leases: Vec<LeaseKey> = node_effects(state, node).filter_map(|effect| lease_of(&effect)).collect();
    grid_proto::held_digest(&leases)
}

fn lease_of(effect: &Effect) -> Option<LeaseKey> {
    match effect {
        Effect::Offer(offer) => Some(offer.lease),
        Effect::Revoke { lease, .. } => Some(*lease),
        Effect::Forget { .. } | Effect::Deposed => None,
    }
}

/// What to tell a worker that holds `held`. Leases it accepted are in the second part, with their timeouts.
pub fn reconcile(
    state: &State,
    node: &Node,
    session: &mut Session,
    held: &BTreeSet<LeaseKey>,
    now_mono_ms: u64,
) -> (v1::ToWorker, Vec<(LeaseKey, u64)>) {
    let mut message = v1::ToWorker::default();
    let mut accepted = Vec::new();
    let mut known = BTreeSet::new();
    for effect in node_effects(state, node) {
        match effect {
            Effect::Offer(offer) => {
                known.insert(offer.lease);
                if held.contains(&offer.lease) {
                    accepted.push((offer.lease, timeout_ms(&offer)));
                } else if is_due(session, offer.lease, now_mono_ms) {
                    session.offered_mono_ms.insert(offer.lease, now_mono_ms);
                    message.offers.extend(offer_message(&offer));
                }
            }
            Effect::Revoke { lease, .. } => {
                known.insert(lease);
                message.revokes.push(lease.into());
            }
            Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
    for lease in held.difference(&known).filter(|lease| !may_settle(state, node, lease)) {
        message.revokes.push((*lease).into());
    }
    (message, accepted)
}

fn is_due(session: &Session, lease: LeaseKey, now_mono_ms: u64) -> bool {
    let last = session.offered_mono_ms.get(&lease);
    last.is_none_or(|last| now_mono_ms.saturating_sub(*last) >= OFFER_AGAIN_MS)
}

/// W8: an `unknown` that the worker's journal may still settle is not taken away from it.
fn may_settle(state: &State, node: &Node, lease: &LeaseKey) -> bool {
    let Some(job) = state.jobs.get(&lease.job) else { return false };
    job.head.unknown.get(&(lease.step, node.ord)) == Some(&lease.attempt) && !job.head.status.is_ended()
}

fn task(offer: &Offer) -> Option<&grid_types::job::Task> {
    let step = usize::try_from(offer.lease.step.0).ok()?;
    offer.spec.steps().nth(step).map(|(_, task)| task)
}

fn timeout_ms(offer: &Offer) -> u64 {
    task(offer).map_or(0, |task| task.timeout_ms)
}

/// An offer as the wire carries it.
pub fn offer_message(offer: &Offer) -> Option<v1::Offer> {
    let task = task(offer)?;
    Some(v1::Offer {
        lease: Some(offer.lease.into()),
        session: offer.session.0,
        backend: task.backend.clone(),
        action: task.action.clone(),
        params: v1::Offer::params_of(&task.params),
        effect: v1::EffectClass::of(task.effect).into(),
        timeout_ms: task.timeout_ms,
    })
}
