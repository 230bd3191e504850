//! `BeginTerm`: a controller that won the Raft election becomes the leader (E1).
//!
//! E2: a leader whose data came from a backup says so in every term; the first one that says a higher generation raises
//! it and holds every unfinished job. Its epochs are then above everything that workers have seen. They begin with the
//! time in seconds instead of 1: one backup may be restored twice, and workers must take the second for the newer one.

use grid_types::{Event, JobId, LeaderEpoch, Name};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::state::{Leadership, Quotas};
use crate::turn::Turn;

/// The first entry of a leader's term (E1). Alone in its entry.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BeginTerm {
    /// The Raft term.
    #[n(0)]
    pub term: u64,
    /// The controller that leads.
    #[n(1)]
    pub leader: Name,
    /// Where its API is reached.
    #[n(2)]
    pub api_url: String,
    /// Where workers reach it.
    #[n(3)]
    pub grpc_addr: String,
    /// The limits of admission that it is configured with.
    #[n(4)]
    pub quotas: Quotas,
    /// Random; taken only by a cluster that has none yet.
    #[n(5)]
    pub cluster_id: String,
    /// The restore that its data folder was made by, if any (E2).
    #[n(6)]
    pub restored: Option<RestoredFrom>,
    /// L2: that of the cluster; of a new one, the level at which it begins.
    #[n(7)]
    #[cbor(default)]
    pub feature_level: u32,
}

/// What the leader's data folder was made from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RestoredFrom {
    /// Above that of the backup.
    #[n(0)]
    pub generation: u32,
    /// When the backup was taken, as people read it.
    #[n(1)]
    pub backup: String,
}

/// 2020-01-01: seconds from there fit an epoch until 2156.
const EPOCHS_SINCE_MS: u64 = 1_577_836_800_000;
/// A day: clocks of controllers differ by less.
const JOB_ID_STRIDE_MS: u64 = 24 * 3_600 * 1_000;
/// No cluster grants a million sessions or records a million events a second.
const STRIDE_BITS: u32 = 20;

/// E2: with which the epochs of a restore begin that is made at this time.
#[must_use]
pub fn first_n(wall_ms: u64) -> u32 {
    u32::try_from(wall_ms.saturating_sub(EPOCHS_SINCE_MS) / 1_000).unwrap_or(1).max(1)
}

impl BeginTerm {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let meta = &mut turn.state.meta;
        let current = meta.leadership.epoch;
        let raised = self.restored.as_ref().filter(|restored| restored.generation > current.generation);
        let epoch = raised.map_or_else(
            || current.next(),
            |restored| LeaderEpoch { generation: restored.generation, n: first_n(meta.wall_ms) },
        );
        meta.leadership = Leadership {
            epoch,
            term: self.term,
            leader: Some(self.leader.clone()),
            api_url: self.api_url.clone(),
            grpc_addr: self.grpc_addr.clone(),
        };
        meta.quotas = self.quotas;
        if meta.cluster_id.is_empty() {
            meta.cluster_id.clone_from(&self.cluster_id);
            meta.feature_level = meta.feature_level.max(self.feature_level);
        }
        if raised.is_some() {
            // The cluster that superseded this one is the older one now.
            meta.superseded = meta.superseded.take().filter(|superseded| superseded.generation >= epoch.generation);
        }
        turn.record_event(Event::TermBegun { leader: self.leader.clone(), epoch });
        if let Some(restored) = raised {
            turn.move_ids();
            turn.hold_all(&restored.backup);
        }
        Ok(Reply::TermBegun { epoch })
    }
}

impl Turn<'_> {
    /// E2: moves the ids of sessions, jobs and events beyond anything that was granted after the backup. Nobody knows how far
    /// that went; all follow the clock, with room for clocks that differ.
    fn move_ids(&mut self) {
        let newest = self.state.jobs.last_key_value().map(|(id, _)| *id);
        let newest = newest.max(self.state.stubs.last_key_value().map(|(id, _)| *id));
        let newest_ms = newest.map_or(0, JobId::minted_ms);
        let meta = &mut self.state.meta;
        let from_ms = meta.wall_ms.max(newest_ms).max(meta.job_ids_from_ms);
        meta.job_ids_from_ms = from_ms.saturating_add(JOB_ID_STRIDE_MS);
        let by_clock = u64::from(meta.leadership.epoch.n) << STRIDE_BITS;
        meta.next_session = meta.next_session.max(by_clock).saturating_add(1 << STRIDE_BITS);
        self.changes.events_from = Some(by_clock);
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::{Command, FireTimers, Rejection, Reply};
    use crate::effect::Effect;
    use crate::world::World;
    use grid_types::LeaderEpoch;

    #[test]
    fn e1_an_entry_of_another_term_or_epoch_changes_nothing() {
        let mut world = World::new();
        let before = world.state.hash();
        let current = world.head();
        for head in [
            crate::EntryHead { term: current.term - 1, ..current },
            crate::EntryHead { term: current.term + 1, ..current },
            crate::EntryHead { epoch: LeaderEpoch { generation: 0, n: current.epoch.n + 1 }, ..current },
            crate::EntryHead { epoch: LeaderEpoch { generation: 0, n: current.epoch.n - 1 }, ..current },
        ] {
            let applied = world.apply_raw(head, vec![Command::FireTimers(FireTimers {})]);
            assert!(matches!(applied.replies[..], [Err(Rejection::StaleLeader { .. })]));
            assert_eq!(applied.effects, [Effect::Deposed], "a leader whose own entry is refused must hear of it");
            assert_eq!(world.state.hash(), before);
        }
    }

    #[test]
    fn e1_a_term_begins_once_and_raises_the_epoch() {
        let mut world = World::new();
        let first = world.state.meta.leadership.epoch;
        let again = world.begin_term(world.head().term);
        assert!(matches!(again, Err(Rejection::StaleLeader { .. })), "A→B→A must not look like A");
        let next = world.begin_term(world.head().term + 1);
        assert_eq!(next, Ok(Reply::TermBegun { epoch: first.next() }));
    }

    #[test]
    fn e2_a_restore_above_the_generation_that_superseded_a_cluster_lets_it_accept_writes() {
        for (generation, is_superseded) in [(2, true), (3, true), (4, false)] {
            let mut world = World::with_nodes(1);
            let shown = Some(crate::Shown { generation: 3, by: Some("worker web-01".to_owned()), n: Some(1) });
            world.one(Command::Supersede(crate::Supersede { shown })).unwrap();
            assert_eq!(world.state.meta.newest_generation(), 3);
            world.restore(generation);
            assert_eq!(world.state.meta.superseded.is_some(), is_superseded, "generation {generation}");
            let submitted = world.submit_keyed("all", vec![crate::world::leaf("ping", "echo")], None);
            assert_eq!(submitted.is_err(), is_superseded, "generation {generation}");
        }
    }

    #[test]
    fn l2_a_new_cluster_begins_at_the_level_of_its_first_leader() {
        let mut world = World::new();
        assert_eq!(world.state.meta.feature_level, crate::FEATURE_LEVEL);
        let head = crate::EntryHead { term: world.head().term + 1, ..world.head() };
        let Command::BeginTerm(begin) = world.begin_command(head.term) else { unreachable!() };
        let newer = crate::BeginTerm { feature_level: crate::FEATURE_LEVEL + 1, ..begin };
        assert!(world.apply_raw(head, vec![Command::BeginTerm(newer)]).replies[0].is_ok());
        assert_eq!(world.state.meta.feature_level, crate::FEATURE_LEVEL, "only `RaiseFeatureLevel` raises it");
    }

    #[test]
    fn e1_begin_term_stands_alone_in_its_entry() {
        let mut world = World::new();
        let head = crate::EntryHead { term: world.head().term + 1, ..world.head() };
        let commands = vec![world.begin_command(head.term), Command::FireTimers(FireTimers {})];
        let applied = world.apply_raw(head, commands);
        assert!(applied.replies.iter().all(Result::is_err));
    }
}
