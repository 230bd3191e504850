//! Effects become messages. Followers drop them; a leader sends each to the session it is for, if that is open, and
//! relies on `reconcile` for the rest.

use std::collections::HashMap;
use std::sync::Arc;

use grid_core::{Effect, Offer};
use grid_proto::v1;
use grid_types::NodeOrd;
use tokio::sync::{Notify, mpsc};

use crate::reconcile::offer_message;
use crate::shared::Shared;

pub async fn dispatch(shared: Arc<Shared>, mut effects: mpsc::UnboundedReceiver<Vec<Effect>>, deposed: Arc<Notify>) {
    while let Some(batch) = effects.recv().await {
        if batch.contains(&Effect::Deposed) {
            deposed.notify_one();
        }
        let now_mono_ms = shared.clock.mono_ms();
        arm(&shared, &batch, now_mono_ms);
        // E5: cut off for a moment, it says nothing; the next beats tell what that left out.
        if shared.open_term().is_some() {
            send(&shared, batch, now_mono_ms);
        }
    }
}

fn send(shared: &Shared, effects: Vec<Effect>, now_mono_ms: u64) {
    shared.agents.ring(effects.iter().filter_map(told_to));
    let mut sessions = shared.sessions();
    let mut messages: HashMap<NodeOrd, v1::ToWorker> = HashMap::new();
    let gives_out = shared.gate.is_open();
    for effect in effects {
        match effect {
            // E8: it is in the state, and comes up when the gate opens.
            Effect::Offer(_) if !gives_out => {}
            Effect::Offer(offer) => {
                let Some(session) = sessions.get_mut(offer.session).filter(|session| session.outbox.is_some()) else {
                    continue;
                };
                session.offered_mono_ms.insert(offer.lease, now_mono_ms);
                add_offer(&mut messages, &offer);
            }
            Effect::Revoke { node, lease } => messages.entry(node).or_default().revokes.push(lease.into()),
            Effect::Forget { job, nodes } => {
                for node in nodes {
                    if let Some(session) = sessions.of_node(node) {
                        session.forget_offers(job);
                        messages.entry(node).or_default().forgets.push(v1::Forget { job_id: job.0 });
                    }
                }
            }
            Effect::Deposed => {}
        }
    }
    for (node, message) in messages {
        if let Some(session) = sessions.of_node(node) {
            session.send(message);
        }
    }
}

/// The node that something is offered to, or taken back from.
fn told_to(effect: &Effect) -> Option<NodeOrd> {
    match effect {
        Effect::Offer(offer) => Some(offer.node),
        Effect::Revoke { node, .. } => Some(*node),
        Effect::Forget { .. } | Effect::Deposed => None,
    }
}

/// Every lease that is out has an end (W6), whether its worker is there or not.
fn arm(shared: &Shared, effects: &[Effect], now_mono_ms: u64) {
    let mut soft = shared.soft();
    for effect in effects {
        match effect {
            Effect::Offer(offer) => soft.backstop.sent(offer, now_mono_ms),
            Effect::Revoke { node, lease } => soft.backstop.revoked(*node, *lease, now_mono_ms),
            Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
}

fn add_offer(messages: &mut HashMap<NodeOrd, v1::ToWorker>, offer: &Offer) {
    messages.entry(offer.node).or_default().offers.extend(offer_message(offer));
}
