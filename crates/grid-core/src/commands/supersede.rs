//! `Supersede`: somebody shows a higher generation of this cluster (E2).
//!
//! ```text
//!   serving --a worker or a controller shows a higher generation--> superseded --lifted by an operator--> serving
//! ```
//!
//! A backup of this cluster was restored elsewhere, and its workers follow the restored controllers. What is written here
//! would be lost, or would run beside them, so every write is refused, across restarts, until an operator lifts it. What was
//! lifted is not recorded again: workers that follow the other cluster go on showing the same generation. What a client
//! claims is only recorded as an event: anyone may send a number.

use grid_types::Event;
use grid_types::limits::MAX_WORD_BYTES;
use minicbor::{Decode, Encode};

use super::{Command, Rejection, Reply};
use crate::apply::Turn;
use crate::report::cut;
use crate::state::Superseded;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Supersede {
    /// `None`: an operator lifts it.
    #[n(0)]
    pub shown: Option<Shown>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Shown {
    #[n(0)]
    pub generation: u32,
    /// The worker or controller that showed it; `None`: a client.
    #[n(1)]
    pub by: Option<String>,
}

impl Supersede {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let meta = &mut turn.state.meta;
        let Some(Shown { generation, by }) = &self.shown else {
            let lifted = meta.superseded.take().ok_or(Rejection::NotSuperseded)?;
            meta.lifted_generation = meta.lifted_generation.max(lifted.generation);
            turn.record_event(Event::SupersessionLifted);
            return Ok(Reply::Done);
        };
        if *generation <= meta.leadership.epoch.generation {
            return Ok(Reply::Done);
        }
        let Some(by) = by else {
            turn.record_event(Event::HigherGenerationClaimed { generation: *generation });
            return Ok(Reply::Done);
        };
        if !meta.is_superseded_by(*generation) {
            return Ok(Reply::Done);
        }
        let by = cut(by.clone(), MAX_WORD_BYTES);
        let superseded = Superseded { generation: *generation, by: by.clone(), wall_ms: meta.wall_ms };
        meta.superseded = Some(superseded);
        turn.record_event(Event::ClusterSuperseded { generation: *generation, by });
        Ok(Reply::Done)
    }
}

impl Command {
    /// What a superseded cluster still applies: nothing that anyone asks for.
    pub(super) fn needs_no_write(&self) -> bool {
        match self {
            Self::Fenced(fenced) => fenced.command.needs_no_write(),
            Self::BeginTerm(_)
            | Self::RaiseFeatureLevel(_)
            | Self::Supersede(_)
            | Self::PruneHistory(_)
            | Self::ReclaimNodes(_) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Shown, Supersede};
    use crate::commands::{Command, Rejection, Reply};
    use crate::world::{World, leaf};

    fn shown(world: &mut World, generation: u32, by: Option<&str>) {
        let shown = Some(Shown { generation, by: by.map(str::to_owned) });
        assert_eq!(world.apply(vec![Command::Supersede(Supersede { shown })]).replies, [Ok(Reply::Done)]);
    }

    #[test]
    fn e2_a_superseded_cluster_refuses_every_write_until_an_operator_lifts_it() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let lease = world.offered()[0];
        shown(&mut world, 0, Some("web-01"));
        shown(&mut world, 7, None);
        assert_eq!(world.state.meta.superseded, None, "its own generation, and what a client says");
        shown(&mut world, 1, Some("web-01"));
        let refused = |reply: Result<Reply, Rejection>| {
            assert!(matches!(reply, Err(Rejection::Superseded { generation: 1, .. })));
        };
        refused(world.submit_keyed("all", vec![leaf("ping", "echo")], None));
        refused(world.cancel(job));
        refused(world.report(lease, grid_types::Outcome::Success));
        refused(world.register("node-1", b"journal-1", 2, b"again", false));
        let term = world.head().term + 1;
        world.begin_term(term).unwrap();
        refused(world.submit_keyed("all", vec![leaf("ping", "echo")], None));
        let lift = Command::Supersede(Supersede { shown: None });
        assert_eq!(world.apply(vec![lift.clone()]).replies, [Ok(Reply::Done)]);
        assert_eq!(world.apply(vec![lift]).replies, [Err(Rejection::NotSuperseded)]);
        world.finish_all();
        assert_eq!(world.status(job), grid_types::JobStatus::Completed);
    }

    #[test]
    fn e2_only_a_bounded_name_of_what_showed_it_is_stored() {
        let mut world = World::with_nodes(1);
        shown(&mut world, 1, Some(&"x".repeat(1 << 20)));
        let superseded = world.state.meta.superseded.as_ref();
        assert_eq!(superseded.map(|it| it.by.len()), Some(grid_types::limits::MAX_WORD_BYTES));
    }

    #[test]
    fn e2_a_generation_that_was_lifted_is_not_recorded_again_and_a_higher_one_is() {
        let mut world = World::with_nodes(1);
        shown(&mut world, 2, Some("web-01"));
        world.one(Command::Supersede(Supersede { shown: None })).unwrap();
        for generation in [1, 2] {
            shown(&mut world, generation, Some("web-01"));
            assert_eq!(world.state.meta.superseded, None);
        }
        assert_eq!(world.state.meta.newest_generation(), 2, "a restore goes above it");
        shown(&mut world, 3, Some("web-01"));
        assert_eq!(world.state.meta.superseded.as_ref().map(|it| it.generation), Some(3));
    }
}
