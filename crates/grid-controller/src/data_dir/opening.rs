//! Opens the log and the store of a data folder, in the order in which nothing can be lost.
//!
//! ```text
//!   sealed? -> take the folder, look the log and the snapshots over -> open the store, or rebuild it by a replay
//! ```
//!
//! L5: the store is a cache of snapshot and log. It is thrown away only after both were found sound: when they are not,
//! it may hold the newest state there is. A refusal names what is damaged, up to which entry the state is
//! sound, and how to continue from it.
//! Not here: what the checks are (`grid-raft`, `grid-store`).

use std::path::{Path, PathBuf};

use grid_core::decode_entry_at;
use grid_raft::{CheckedFolder, Config, MachineKnown, Start};
use grid_store::{Store, Stored};

use super::OpenError;
use super::folder::{raft_dir, state_path};

pub fn take(dir: &Path, config: Config, start: Start) -> Result<(CheckedFolder, Store, Stored), OpenError> {
    let state = state_path(dir);
    let level = config.member.feature_level;
    let is_sound = grid_store::is_sealed(&state)?;
    let applied = || grid_store::peek(&state).ok().map(|info| info.applied.index);
    let known = MachineKnown { is_sound, applied: &applied };
    let folder = CheckedFolder::open(config, start, known).map_err(|e| with_way_out(dir, e))?;
    if !is_sound && state.exists() {
        tracing::warn!(
            "{}: was not closed in order, or by an older grid; it is rebuilt from snapshot and log",
            state.display()
        );
    }
    let sound = if is_sound { Some(open_sound(&state, level)?) } else { None };
    let after = sound.as_ref().map_or_else(|| folder.base_index(), |(_, stored)| stored.applied.map(|at| at.index));
    // L2: before the store is discarded, and before this member votes or leads.
    let readable = |payload: &[u8]| decode_entry_at(payload, level).map(drop).map_err(|e| e.to_string());
    folder.check_payloads(after, readable)?;
    let (store, stored) = sound.map_or_else(|| Store::open_anew(&state), Ok)?;
    Ok((folder, store, stored))
}

fn open_sound(state: &Path, level: u32) -> Result<(Store, Stored), OpenError> {
    let (store, stored) = Store::open(state)?;
    grid_store::check_level(state, &stored.parts.meta, level)?;
    Ok((store, stored))
}

/// Adds what an operator can do about the damage.
pub fn with_way_out(dir: &Path, e: grid_raft::OpenError) -> OpenError {
    let reason = match e {
        grid_raft::OpenError::Damaged { reason, .. } => reason,
        grid_raft::OpenError::Mismatch { machine, reason, .. } => {
            format!("the state is at {machine} and the raft log is not ({reason})")
        }
        other => return other.into(),
    };
    let way_out = match newest_state(dir) {
        Some((index, file)) => format!(
            "sound state up to entry {index} is in {0}: start in an empty folder with `grid server --restore {0}`, with a \
             newer backup, or, if others of its cluster run, with `--join URL --replace`",
            file.display()
        ),
        None => "no sound state is left in it: start in an empty folder with `grid server --restore BACKUP` or, if others of \
                 its cluster run, with `--join URL --replace`"
            .to_owned(),
    };
    OpenError::Damaged { path: dir.to_path_buf(), reason, way_out }
}

/// The newest state in a data folder that passes its checks, and up to which entry it goes.
pub fn newest_state(dir: &Path) -> Option<(u64, PathBuf)> {
    let snapshots = grid_raft::sound_snapshots(&raft_dir(dir)).into_iter();
    let mut found: Vec<(u64, PathBuf)> = snapshots.filter_map(|(path, at)| Some((at?.index, path))).collect();
    let state = state_path(dir);
    found.extend(grid_store::peek(&state).ok().map(|info| (info.applied.index, state)));
    found.into_iter().max_by_key(|(index, _)| *index)
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
