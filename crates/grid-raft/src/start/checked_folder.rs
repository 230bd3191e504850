//! Locks and checks a member's data folder before anything in it is changed or discarded.
//!
//! ```text
//!   lock -> whose folder -> log: files, mark, tear, gaps -> newest sound snapshot that the log goes on from
//! ```
//!
//! L3, L5: acknowledged entries never vanish in silence. A log that ends before its mark, has damage in the middle or
//! lacks its beginning is refused, and so is one that goes on from a snapshot nobody has, unless the machine itself is
//! sound. What is refused is left as it was; a machine that is rebuilt from here can throw its old data away.
//! Not here: bringing the machine up to date and running it (`start`).
//! A damaged snapshot is set aside, not removed, and only once the start is known to do without it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{Config, Start};
use crate::data_dir::folder::{self, Folder, FolderLock};
use crate::data_dir::local_member::LocalMember;
use crate::error::OpenError;
use crate::log::check::{self, Survey};
use crate::log::mark::{self, Mark};
use crate::log::store::{LogExtent, LogStore};
use crate::snapshots::{Snapshot, Snapshots};

/// A data folder that this process holds and whose log and snapshots can carry a member.
pub struct CheckedFolder {
    pub(crate) config: Config,
    pub(crate) start: Start,
    pub(crate) local: LocalMember,
    pub(crate) folder: Folder,
    pub(crate) lock: Arc<FolderLock>,
    pub(crate) log: LogStore,
    pub(crate) extent: LogExtent,
    pub(crate) snapshots: Snapshots,
    /// Newest first.
    pub(crate) sound: Vec<Snapshot>,
    /// What is wrong with the others.
    pub(crate) problems: Vec<String>,
}

/// What is known of the machine before it is opened.
#[derive(Clone, Copy)]
pub struct MachineKnown<'a> {
    /// Its data can be believed, so that it needs no snapshot to begin from.
    pub is_sound: bool,
    /// Up to which entry it was applied, as far as its data can tell; asked only if the log cannot prove by itself that
    /// nothing is missing at its end.
    pub applied: &'a dyn Fn() -> Option<u64>,
}

impl MachineKnown<'static> {
    /// A machine that answers for itself.
    pub const SOUND: Self = Self { is_sound: true, applied: &|| None };
}

impl CheckedFolder {
    pub fn open(config: Config, start: Start, machine: MachineKnown<'_>) -> Result<Self, OpenError> {
        let folder = Folder::new(&config.data_dir);
        if start == Start::Existing && folder.is_blank() {
            return Err(not_initialised(&folder));
        }
        let lock = Arc::new(folder.lock()?);
        let local = LocalMember::of_folder(&folder, &config, start)?;
        folder.check(local.raft_id)?;
        let survey = survey(&folder, machine)?;
        folder.create()?;
        let log = open_log(&config, local.raft_id, &folder, &survey, lock.clone())?;
        let extent = log.extent();
        if extent.is_pristine && folder::is_initialised(folder.root()) {
            return Err(OpenError::damaged(folder.root(), "the raft log is empty"));
        }
        if extent.is_pristine && start == Start::Existing {
            return Err(not_initialised(&folder));
        }
        if extent.is_pristine {
            // Before the first entry, which names the member.
            local.save(folder.root())?;
        }
        if let Some(gap) = log.missing_at_begin().map_err(|e| OpenError::damaged(folder.root(), e))? {
            return Err(OpenError::damaged(folder.root(), gap));
        }
        let snapshots = Snapshots::new(folder.snapshots());
        let (sound, problems) = snapshots.look_over().map_err(|e| OpenError::damaged(folder.root(), e))?;
        let checked = Self { config, start, local, folder, lock, log, extent, snapshots, sound, problems };
        if !machine.is_sound && checked.extent.purged.is_some() && checked.base().is_none() {
            return Err(checked.no_base());
        }
        Ok(checked)
    }

    /// The newest snapshot behind which the log goes on.
    pub(crate) fn base(&self) -> Option<&Snapshot> {
        self.sound.first().filter(|snapshot| snapshot.last >= self.extent.purged)
    }

    /// Up to where the state is that a machine without data begins from.
    pub fn base_index(&self) -> Option<u64> {
        self.base().and_then(|snapshot| snapshot.last).map(|last| last.index)
    }

    /// Refuses the folder if the log holds an entry behind `after` that `readable` does not take: better now than after
    /// this member has voted or leads.
    pub fn check_payloads(
        &self,
        after: Option<u64>,
        readable: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        let refused = self.log.first_refused(from, readable).map_err(|e| OpenError::damaged(self.folder.root(), e))?;
        match refused {
            None => Ok(()),
            Some((position, reason)) => {
                Err(OpenError::Unreadable { folder: self.folder.root().to_path_buf(), position, reason })
            }
        }
    }

    pub(crate) fn no_base(&self) -> OpenError {
        let begin = self.extent.purged.map_or("the beginning".to_owned(), |purged| purged.to_string());
        let mut reason = format!("the log begins after {begin}, and there is no sound snapshot to go on from");
        for problem in &self.problems {
            reason.push_str(": ");
            reason.push_str(problem);
        }
        OpenError::damaged(self.folder.root(), reason)
    }
}

fn survey(folder: &Folder, machine: MachineKnown<'_>) -> Result<Survey, OpenError> {
    let damaged = |reason: String| OpenError::damaged(folder.root(), reason);
    let log = folder.log();
    if !log.exists() {
        return Ok(Survey::default());
    }
    let survey = check::survey(&log, mark::read(&folder.mark())).map_err(damaged)?;
    if !survey.is_proven
        && let Some(applied) = (machine.applied)()
        && survey.last_index < Some(applied)
    {
        let ends = survey.last_index.map_or("has no entries".to_owned(), |last| format!("ends at entry {last}"));
        return Err(damaged(format!("raft-log {ends}, and entries up to {applied} were applied")));
    }
    Ok(survey)
}

fn open_log(
    config: &Config,
    raft_id: u64,
    folder: &Folder,
    survey: &Survey,
    lock: Arc<FolderLock>,
) -> Result<LogStore, OpenError> {
    let path: PathBuf = folder.mark();
    let mark = Mark::open(&path).map_err(OpenError::io(&path, "cannot open"))?;
    survey.cut_tear().map_err(OpenError::io(&folder.log(), "cannot cut off what a crash left incomplete in"))?;
    LogStore::open(config, raft_id, &folder.log(), lock, mark).map_err(|e| {
        let reason = survey.damage().unwrap_or_else(|| format!("raft-log: {e}"));
        OpenError::damaged(folder.root(), reason)
    })
}

fn not_initialised(folder: &Folder) -> OpenError {
    OpenError::NotInitialised { folder: folder.root().to_path_buf() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openraft::Vote;
    use openraft::storage::RaftLogStorage;

    use crate::config::Start;
    use crate::data_dir::folder::Folder;
    use crate::file_machine::{Home, block_on, propose};
    use crate::log::mark::Mark;
    use crate::log::store::LogStore;
    use crate::machine::LogPosition;

    /// A member's folder after `change` to its log.
    fn changed(change: impl AsyncFnOnce(&mut LogStore)) -> Home {
        let home = Home::new();
        home.run(Start::Bootstrap, async |raft| {
            propose(&raft, "a").await;
            raft.shutdown().await;
        });
        let folder = Folder::new(home.path());
        block_on(async {
            let lock = Arc::new(folder.lock().expect("free"));
            let mark = Mark::open(&folder.mark()).expect("opened");
            let mut log = LogStore::open(&home.config, 1, &folder.log(), lock, mark).expect("opened");
            change(&mut log).await;
        });
        home
    }

    #[test]
    fn issue14_1_a_term_on_the_disk_that_would_overflow_is_refused_by_name() {
        let vote = changed(async |log| log.save_vote(&Vote::new(u64::MAX, 2)).await.expect("saved"));
        let error = vote.refusal(Start::Existing).to_string();
        assert!(error.contains("a vote: the term 18446744073709551615") && error.contains(".wal"), "{error}");
        assert!(error.contains(&vote.path().display().to_string()), "{error}");
        let purged = changed(async |log| {
            let position = LogPosition { term: 7, index: u64::MAX - 1 };
            log.begin_after(position, Vote::new(7, 2)).await.expect("saved");
        });
        let error = purged.refusal(Start::Existing).to_string();
        assert!(error.contains(".wal") && error.contains("the index 18446744073709551614"), "{error}");
    }
}
