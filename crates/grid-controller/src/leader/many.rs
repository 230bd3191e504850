//! Collects the offers of a step that begins on many nodes at once, so that a fabric can broadcast them (N2).
//!
//! N2: windows, retries, re-offers, restored leases and single nodes are offered per session. So is a step that is not the first of its
//! phase, where each node of a pipeline goes at its own pace.
//! Each recipient is named by node and session; a session that began later is not meant, even if it is of the same node.
//! Only offers that follow each other are collected: those of a phase do, and to look for others would cost every single offer.
//! Not here: how a broadcast is sent, and to which of the sessions (`shared::many`, the fabrics).

use grid_core::{Job, Offer, State};
use grid_fabric::{Audience, OfferMany, Recipient};
use grid_proto::v1;
use grid_types::job::{JobSpec, Phase, Target};
use grid_types::{Attempt, StepIndex};

use super::wire::offer_message;

/// A broadcast to a larger multiple of its recipients costs those that ignore it more than it saves.
const LARGEST_AUDIENCE: usize = 16;

/// Offers that may go to many, in the order in which they came.
#[derive(Default)]
pub struct Gathered {
    groups: Vec<Group>,
}

/// Equal offers to different nodes.
struct Group {
    offer: Offer,
    audience: Audience,
    recipients: Vec<Recipient>,
    /// About how many nodes a broadcast would reach.
    reached: usize,
}

/// What became of a group.
pub enum Ready {
    Many(Box<OfferMany>),
    /// Per session.
    Each(v1::Offer, Vec<Recipient>),
}

impl Gathered {
    /// Whether the offer is collected; otherwise it goes to its session alone. `sessions`: how many there are.
    pub fn take_in(&mut self, state: &State, sessions: usize, offer: &Offer) -> bool {
        let last = self.groups.last().is_some_and(|group| group.is_of(offer));
        if !last {
            match Group::new(state, sessions, offer) {
                Some(group) => self.groups.push(group),
                None => return false,
            }
        }
        let Some(group) = self.groups.last_mut() else { return false };
        let reached = is_reached(state, offer, &group.audience);
        if reached {
            group.recipients.push(Recipient { node: offer.node, session: offer.session });
        }
        reached
    }

    pub fn ready(self) -> impl Iterator<Item = Ready> {
        self.groups.into_iter().filter_map(Group::ready)
    }
}

impl Group {
    fn new(state: &State, sessions: usize, offer: &Offer) -> Option<Self> {
        let job = state.jobs.get(&offer.lease.job).filter(|job| may_go_to_many(job, offer))?;
        let (audience, reached) = match &offer.spec.target {
            Target::Group(group) => (Audience::Group(group.clone()), job.expected.len()),
            Target::All | Target::Node(_) | Target::Labels(_) | Target::Any | Target::Where(_) => {
                (Audience::All, sessions)
            }
        };
        Some(Self { offer: offer.clone(), audience, recipients: Vec::new(), reached })
    }

    fn is_of(&self, offer: &Offer) -> bool {
        let own = &self.offer;
        own.lease == offer.lease
            && std::ptr::eq(own.spec.as_ref(), offer.spec.as_ref())
            && (own.run, own.restored) == (offer.run, offer.restored)
    }

    fn ready(self) -> Option<Ready> {
        let offer = v1::Offer { session: 0, ..offer_message(&self.offer)? };
        let (audience, recipients) = (self.audience, self.recipients);
        Some(if recipients.len() > 1 && recipients.len().saturating_mul(LARGEST_AUDIENCE) >= self.reached {
            Ready::Many(Box::new(OfferMany { leader_epoch: 0, offer, recipients, audience }))
        } else {
            Ready::Each(offer, recipients)
        })
    }
}

fn may_go_to_many(job: &Job, offer: &Offer) -> bool {
    let expected = job.expected.len();
    let begins = || phase_that_begins(&offer.spec, offer.lease.step);
    let is_open = |phase: &Phase| {
        offer.spec.places(phase, expected).is_none() && offer.spec.first_nodes(phase, expected).is_none()
    };
    expected > 1 && !offer.restored && offer.lease.attempt == Attempt(1) && begins().is_some_and(is_open)
}

/// The phase whose first step this is.
fn phase_that_begins(spec: &JobSpec, step: StepIndex) -> Option<&Phase> {
    let step = usize::try_from(step.0).ok()?;
    let mut first = 0;
    spec.phases.iter().find(|phase| {
        let is_it = first == step && !phase.tasks.is_empty();
        first += phase.tasks.len();
        is_it
    })
}

/// Whether a broadcast would reach the session of the offer and no later one. A node that has registered again since the offer was applied is
/// offered its lease by its new session (W5).
fn is_reached(state: &State, offer: &Offer, audience: &Audience) -> bool {
    let Some(node) = state.nodes.get(&offer.node).filter(|node| node.session == offer.session) else { return false };
    match audience {
        Audience::All => true,
        Audience::Group(group) => node.facts.groups.contains(group),
    }
}
