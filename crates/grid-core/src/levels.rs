//! Checks feature levels: which behaviour of `apply` and which stored rows a program knows (L2).
//!
//! A cluster works at one level, which is part of the state (`Meta::feature_level`): a new cluster begins at the level of
//! its first leader (`BeginTerm`), and a leader raises it when every member knows more (`RaiseFeatureLevel`).
//! A program refuses data of a level that it does not know before it applies or leads anything: replicas that decide
//! differently would diverge in silence. No level is ever lowered.

/// The newest level that this program knows.
pub const FEATURE_LEVEL: u32 = 3;
/// The oldest level whose data this program reads. Levels 1 and 2 were never released.
pub const OLDEST_LEVEL: u32 = 3;

/// Why data of a feature level is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLevel {
    /// A newer program has written it.
    #[error(
        "it was written by a newer grid (feature level {found}, this one knows {known}); start that grid, or a newer \
         one, with it"
    )]
    Newer {
        /// The level of the data.
        found: u32,
        /// The highest level that this program knows.
        known: u32,
    },
    /// The data is of a level that this program no longer reads.
    #[error(
        "it was written by an older grid (feature level {found}, this one reads {OLDEST_LEVEL} and above); start the \
         older grid on this folder, or this one in an empty folder"
    )]
    Older {
        /// The level of the data.
        found: u32,
    },
}

/// Whether a program that knows levels up to `known` takes data of level `found`.
pub fn check_level(found: u32, known: u32) -> Result<(), BadLevel> {
    if found > known {
        return Err(BadLevel::Newer { found, known });
    }
    if found < OLDEST_LEVEL {
        // Programs of level 1 did not record it everywhere.
        return Err(BadLevel::Older { found: found.max(1) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BadLevel, FEATURE_LEVEL, OLDEST_LEVEL, check_level};

    #[test]
    fn l2_only_data_of_known_levels_is_taken_and_the_refusal_says_what_to_do() {
        assert!((OLDEST_LEVEL..=FEATURE_LEVEL).all(|level| check_level(level, FEATURE_LEVEL).is_ok()));
        let newer = check_level(FEATURE_LEVEL + 1, FEATURE_LEVEL).unwrap_err();
        assert_eq!(newer, BadLevel::Newer { found: FEATURE_LEVEL + 1, known: FEATURE_LEVEL });
        assert!(newer.to_string().contains("start that grid, or a newer one"), "{newer}");
        for level in [0, OLDEST_LEVEL - 1] {
            let older = check_level(level, FEATURE_LEVEL).unwrap_err().to_string();
            assert!(older.contains("feature level") && older.contains("start the older grid"), "{older}");
        }
    }
}
