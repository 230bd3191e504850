//! `ExpireLease`: the leader's backstop behind the worker's own timeout (W6). Nobody knows how it ended: `unknown`.

use grid_types::{LeaseKey, NodeOrd, Reason};
use minicbor::{Decode, Encode};

use super::{Answer, Rejection, Reply, Stale};
use crate::apply::Turn;
use crate::effect::Effect;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ExpireLease {
    #[n(0)]
    pub node: NodeOrd,
    #[n(1)]
    pub lease: LeaseKey,
}

impl ExpireLease {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let found = turn.state.jobs.get(&self.lease.job).and_then(|job| {
            let (lease, _) = job.lease_at(self.node)?;
            job.position(self.node).filter(|_| lease == self.lease)
        });
        let Some(position) = found else {
            return Ok(Reply::Answered(Answer::Superseded(Stale::Settled)));
        };
        let (job, node) = (turn.state.jobs.get(&self.lease.job), turn.state.nodes.get(&self.node));
        if job.zip(node).is_some_and(|(job, node)| job.never_reached(node)) {
            // W10: an agent that never asked for it has not run it. It may still come.
            turn.take_back(self.lease.job, position);
            return Ok(Reply::Done);
        }
        turn.lose_lease(self.lease.job, position, Reason::NoResultInTime);
        turn.effects.push(Effect::Revoke { node: self.node, lease: self.lease });
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use crate::effect::Effect;
    use crate::world::{World, leaf};
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn w6_an_expired_lease_is_unknown_and_revoked() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let (node, lease) = world.offered()[0];
        let effects = world.expire((node, lease));
        assert!(effects.contains(&Effect::Revoke { node, lease }));
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
        assert_eq!(world.status(job), JobStatus::Failed);
        assert!(world.expire((node, lease)).is_empty(), "a second time changes nothing");
    }
}
