//! Handles requests of workers to start `once` leases (W3). Many of them are one entry, as results are.
//!
//! The answer carries the time of the question by the worker's clock, so that the worker knows how old it is. The log does not have
//! that; the session remembers it.

use grid_core::{BeginLease, Command};
use grid_proto::v1;
use grid_types::{LeaseKey, NodeOrd, SessionId};

use super::reports::count_invented;
use super::wire::begin_kind;
use super::{Leader, Now, Origin, Out, Proposal};
use crate::reply::{Replied, TOGETHER};

impl Leader {
    /// What is asked again while it is on its way is left out. One about a lease that is not out to this node is answered here.
    pub(super) fn begin(
        &mut self,
        now: &Now<'_>,
        (node, session): (NodeOrd, SessionId),
        begins: Vec<v1::Begin>,
        outs: &mut Vec<Out>,
    ) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let (mut asked, mut begun, mut invented) = (Vec::new(), Vec::new(), 0);
        for v1::Begin { lease, asked_ms } in begins {
            let Some(lease) = lease.map(LeaseKey::from) else { continue };
            let command = BeginLease { node, session, lease };
            match now.state.concerns_begin(&command) {
                Ok(()) if known.beginning.has(&lease) => {}
                Ok(()) => {
                    known.beginning.insert(lease, asked_ms);
                    asked.push(command);
                }
                Err(reply) => {
                    invented += u64::from(now.state.is_invented(node, lease));
                    let kind = begin_kind(Ok(&reply)).into();
                    begun.push(v1::BeginAnswer { lease: Some(lease.into()), kind, asked_ms });
                }
            }
        }
        if !begun.is_empty() {
            outs.extend(known.send(session, v1::ToWorker { begun, ..v1::ToWorker::default() }));
        }
        count_invented(node, invented, outs);
        for some in asked.chunks(TOGETHER) {
            let leases = some.iter().map(|begin| begin.lease).collect();
            let commands = some.iter().cloned().map(Command::BeginLease).collect();
            outs.push(Proposal::out(commands, Origin::Begins { session, leases }));
        }
    }

    /// Nothing was decided about some of them: the worker asks again.
    pub(super) fn begins_refused(
        &mut self,
        session: SessionId,
        leases: &[LeaseKey],
        replies: &[Replied],
        outs: &mut Vec<Out>,
    ) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let mut begun = Vec::new();
        for (lease, reply) in leases.iter().zip(replies) {
            let kind = begin_kind(reply.as_ref());
            // The others are answered when they are applied.
            if kind == v1::BeginKind::AskAgain
                && let Some(asked_ms) = known.beginning.remove(lease)
            {
                begun.push(v1::BeginAnswer { lease: Some((*lease).into()), kind: kind.into(), asked_ms });
            }
        }
        if !begun.is_empty() {
            outs.extend(known.send(session, v1::ToWorker { begun, ..v1::ToWorker::default() }));
        }
    }
}
