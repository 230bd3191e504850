//! `Supersede`: somebody shows an epoch of a later restore of this cluster (E2).
//!
//! ```text
//!   serving --a worker or a controller shows a later restore--> superseded --lifted by an operator--> serving
//! ```
//!
//! A backup of this cluster was restored elsewhere, and its workers follow the restored controllers. What is written here
//! would be lost, or would run beside them, so every write is refused, across restarts, until an operator lifts it. What was
//! lifted is not recorded again: workers that follow the other cluster go on showing its epochs. Those of every restore that
//! was made before the operator lifted it begin with an earlier time; a restore that is made afterwards is recorded.
//! A later restore has a higher generation or, if the same backup was restored again, higher epochs. What a client claims is only recorded as an event: anyone may send a number.

use grid_types::limits::MAX_WORD_BYTES;
use grid_types::{Event, LeaderEpoch};
use minicbor::{Decode, Encode};

use super::begin_term::first_n;
use super::{Command, Rejection, Reply};
use crate::jobs::cut;
use crate::state::Superseded;
use crate::turn::Turn;

/// Records a later restore of this cluster, or lifts that (E2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Supersede {
    /// `None`: an operator lifts it.
    #[n(0)]
    pub shown: Option<Shown>,
}

/// An epoch of a later restore, and what showed it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Shown {
    /// The generation of that restore.
    #[n(0)]
    pub generation: u32,
    /// The worker or controller that showed it; `None`: a client.
    #[n(1)]
    pub by: Option<String>,
    /// Of the epoch that was shown; two restores of one backup differ in it.
    #[n(2)]
    pub n: Option<u32>,
}

impl Shown {
    /// An epoch that was shown. `by`: the worker or controller that proves it; none: a client, which proves nothing.
    #[must_use]
    pub fn new(epoch: LeaderEpoch, by: Option<String>) -> Self {
        Self { generation: epoch.generation, by, n: Some(epoch.n) }
    }

    fn epoch(&self) -> LeaderEpoch {
        LeaderEpoch { generation: self.generation, n: self.n.unwrap_or(0) }
    }
}

impl Supersede {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let meta = &mut turn.state.meta;
        let Some(shown) = &self.shown else {
            let lifted = meta.superseded.take().ok_or(Rejection::NotSuperseded)?;
            let n = lifted.n.unwrap_or(0).max(first_n(meta.wall_ms));
            let before = (meta.lifted_generation, meta.lifted_n.unwrap_or(0));
            let (generation, n) = before.max((lifted.generation, n));
            (meta.lifted_generation, meta.lifted_n) = (generation, Some(n));
            turn.record_event(Event::SupersessionLifted);
            return Ok(Reply::Done);
        };
        let generation = shown.generation;
        let Some(by) = &shown.by else {
            if generation > meta.leadership.epoch.generation {
                turn.record_event(Event::HigherGenerationClaimed { generation });
            }
            return Ok(Reply::Done);
        };
        if !meta.is_superseded_by(shown.epoch()) {
            return Ok(Reply::Done);
        }
        let by = cut(by.clone(), MAX_WORD_BYTES);
        meta.superseded = Some(Superseded { generation, by: by.clone(), wall_ms: meta.wall_ms, n: shown.n });
        turn.record_event(Event::ClusterSuperseded { generation, by });
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
    use grid_types::LeaderEpoch;

    fn shown(world: &mut World, generation: u32, by: Option<&str>) {
        shown_epoch(world, LeaderEpoch { generation, n: 1 }, by);
    }

    fn shown_epoch(world: &mut World, epoch: LeaderEpoch, by: Option<&str>) {
        let shown = Some(Shown::new(epoch, by.map(str::to_owned)));
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
        let why = crate::why(&world.state, world.job(job), 0);
        assert!(why.starts_with("this cluster was superseded by generation 1, shown by web-01"), "{why}");
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

    fn after_restore(generation: u32) -> (World, LeaderEpoch) {
        let mut world = World::with_nodes(1);
        world.restore(generation);
        let epoch = world.state.meta.leadership.epoch;
        (world, epoch)
    }

    #[test]
    fn e2_a_later_restore_of_the_same_backup_supersedes_the_first_and_not_the_other_way_round() {
        let (mut world, first) = after_restore(1);
        shown_epoch(&mut world, first, Some("worker web-01"));
        shown_epoch(&mut world, LeaderEpoch { n: first.n - 1, ..first }, Some("worker web-01"));
        assert_eq!(world.state.meta.superseded, None, "its own epoch, and that of an earlier restore");
        let second = LeaderEpoch { n: first.n + 5, ..first };
        shown_epoch(&mut world, second, None);
        assert_eq!(world.state.meta.superseded, None, "what a client says");
        shown_epoch(&mut world, second, Some("worker web-01"));
        let refused = world.submit_keyed("all", vec![leaf("ping", "echo")], None);
        assert!(matches!(refused, Err(Rejection::Superseded { generation: 1, .. })), "{refused:?}");
        let recorded = world.state.meta.superseded.clone();
        shown_epoch(&mut world, second.next(), Some("worker web-02"));
        assert_eq!(world.state.meta.superseded, recorded, "its next leader is no news");
        assert_eq!(world.state.meta.newest_generation(), 1, "a restore goes above both");
    }

    #[test]
    fn e2_without_a_restore_no_epoch_of_the_own_generation_supersedes() {
        let mut world = World::with_nodes(1);
        let own = world.state.meta.leadership.epoch;
        shown_epoch(&mut world, LeaderEpoch { n: own.n + 9, ..own }, Some("worker web-01"));
        assert_eq!((own.generation, world.state.meta.superseded.is_none()), (0, true));
    }

    #[test]
    fn e2_what_was_restored_before_an_operator_lifted_it_is_not_recorded_again_and_a_later_restore_is() {
        for generation in [0, 1] {
            let (mut world, own) = after_restore(generation);
            let other = LeaderEpoch { generation: 1, n: own.n + 5 };
            shown_epoch(&mut world, other, Some("worker web-01"));
            assert!(world.state.meta.superseded.is_some());
            world.advance_ms(3_600_000);
            world.one(Command::Supersede(Supersede { shown: None })).unwrap();
            for _ in 0..2 {
                shown_epoch(&mut world, LeaderEpoch { n: other.n + 60, ..other }, Some("worker web-01"));
                assert_eq!(world.state.meta.superseded, None, "later leaders of what was lifted");
            }
            let restored_later = super::first_n(world.state.meta.wall_ms) + 60;
            shown_epoch(&mut world, LeaderEpoch { n: restored_later, ..other }, Some("worker web-01"));
            assert!(world.state.meta.superseded.is_some(), "generation {generation}");
        }
    }
}
