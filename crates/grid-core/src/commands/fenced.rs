//! `Fenced`: a request that names the leader epoch it was made for, and takes effect only under that one (E9).
//!
//! The comparison belongs into the log: between a check before the proposal and the entry that carries the command
//! another controller may have led. A mismatch has a rejection of its own, since the leader that proposed the entry is
//! still the right one: only the request is stale.
//! Not here: reports of workers, which their session fences.

use minicbor::{Decode, Encode};

use super::{Command, Rejection, Reply};
use crate::turn::Turn;

/// A command together with the leader epoch that its request named (E9).
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Fenced {
    /// As on the wire.
    #[n(0)]
    pub epoch: u64,
    /// What is done if the epoch is current.
    #[n(1)]
    pub command: Box<Command>,
}

impl Fenced {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let epoch = turn.state.meta.leadership.epoch;
        // What only a leader itself proposes is checked by its entry, and never by a request.
        let is_request =
            !matches!(*self.command, Command::BeginTerm(_) | Command::RaiseFeatureLevel(_) | Command::Fenced(_));
        if self.epoch != epoch.wire() || !is_request {
            return Err(Rejection::StaleRequest { given: self.epoch, epoch });
        }
        self.command.handle(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::Fenced;
    use crate::commands::{CancelJob, Command, Rejection, Reply};
    use crate::world::{World, leaf};
    use grid_types::JobStatus;

    #[test]
    fn e9_a_request_for_another_leader_epoch_changes_nothing() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let given = world.state.meta.leadership.epoch.wire();
        let cancel = Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job });
        let fenced = Command::Fenced(Fenced { epoch: given, command: Box::new(cancel) });
        // The leader changes between the check of the request and the entry that carries it.
        world.begin_term(world.head().term + 1).unwrap();
        let before = world.state.hash();
        let epoch = world.state.meta.leadership.epoch;
        let refused = world.apply(vec![fenced.clone()]);
        assert_eq!(refused.replies, [Err(Rejection::StaleRequest { given, epoch })]);
        assert_eq!((world.state.hash(), world.status(job)), (before, JobStatus::Running));
        assert!(refused.effects.is_empty(), "the leader is not deposed by it");
        let Command::Fenced(Fenced { command, .. }) = fenced else { unreachable!() };
        let current = Command::Fenced(Fenced { epoch: epoch.wire(), command });
        let replies = world.apply(vec![current]).replies;
        assert!(matches!(replies[..], [Ok(Reply::Cancelled { .. })]), "{replies:?}");
    }

    #[test]
    fn e9_no_term_begins_by_a_request() {
        let mut world = World::new();
        let head = world.head();
        let begin = Box::new(world.begin_command(head.term + 1));
        let fenced = Command::Fenced(Fenced { epoch: head.epoch.wire(), command: begin });
        assert!(world.apply(vec![fenced]).replies[0].is_err());
        assert_eq!(world.head().epoch, head.epoch);
    }
}
