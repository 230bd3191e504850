//! `RaiseFeatureLevel`: raises the level at which the cluster works, once every member knows it (L2).
//!
//! A behaviour that differs between versions asks `meta.feature_level`, never the version of the binary: replicas of two
//! versions must decide alike. It only rises; a member that does not know the level cannot join any more.

use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// Raises the feature level of the cluster (L2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RaiseFeatureLevel {
    /// The level that every member knows.
    #[n(0)]
    pub level: u32,
}

impl RaiseFeatureLevel {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let meta = &mut turn.state.meta;
        meta.feature_level = meta.feature_level.max(self.level);
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::RaiseFeatureLevel;
    use crate::commands::Command;
    use crate::world::World;

    #[test]
    fn l2_the_feature_level_rises_and_never_falls() {
        let mut world = World::new();
        for (level, after) in [(3, 3), (1, 3), (5, 5)] {
            let head = world.head();
            let applied = world.apply_raw(head, vec![Command::RaiseFeatureLevel(RaiseFeatureLevel { level })]);
            assert!(applied.replies[0].is_ok());
            assert_eq!(world.state.meta.feature_level, after);
        }
    }
}
