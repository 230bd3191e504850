//! W1 over the whole data folder: whatever happens to its files, a `once` lease that was started is still known to have
//! been, or the journal has another id.

use std::path::Path;

use grid_types::decl::EffectClass;
use grid_types::{Attempt, JobEpoch, JobId, LeaderEpoch, LeaseKey, NodeId, StepIndex};

use super::{LeftOver, WorkerError, open_journal};
use crate::data_dir::folder::{Folder, KnownJournal};
use crate::data_dir::journal::Journal;
use crate::engine::book::Book;
use crate::engine::record::Record;
use crate::machine::{SystemRandom, host};

const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
const FILES: [&str; 3] = ["identity", "journal", "journal.len"];

struct Start {
    folder: Folder,
    journal: Journal,
    knows_the_lease: bool,
}

async fn start(dir: &Path, known: KnownJournal) -> Result<Start, WorkerError> {
    let node: NodeId = "web-01".parse().unwrap();
    let mut folder = Folder::open(dir, Some(&node), known, &SystemRandom)?;
    let mut book = Book::new(8);
    let journal = open_journal(&mut folder, &mut book, &host(), |_| {}).await?;
    book.recover();
    Ok(Start { folder, journal, knows_the_lease: book.holds(&LEASE) })
}

/// A folder whose worker was killed while a `once` lease ran, as its files and its journal's id.
async fn killed() -> (Vec<Vec<u8>>, String) {
    let dir = tempfile::tempdir().unwrap();
    let Start { folder, mut journal, .. } = start(dir.path(), KnownJournal::Keep).await.unwrap();
    journal.append(&[Record::Epoch(LeaderEpoch::from_wire(1))]).unwrap();
    journal.append(&[Record::Started { lease: LEASE, effect: EffectClass::Once, at_ms: 7 }]).unwrap();
    let files = FILES.iter().map(|name| std::fs::read(dir.path().join(name)).unwrap()).collect();
    (files, folder.journal_id().to_owned())
}

fn put(dir: &Path, files: &[Vec<u8>]) {
    for (name, bytes) in FILES.iter().zip(files) {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}

#[tokio::test]
async fn w1_a_once_lease_is_known_or_the_journal_is_new_whatever_byte_is_damaged() {
    let (files, id) = killed().await;
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &files);
    let intact = start(dir.path(), KnownJournal::Keep).await.unwrap();
    assert!(intact.knows_the_lease && intact.folder.journal_id() == id);
    drop(intact);
    let mut damages = Vec::new();
    for which in [1, 2] {
        for at in 0..files[which].len() {
            let mut damaged = files.clone();
            damaged[which].truncate(at);
            damages.push((format!("{} cut at {at}", FILES[which]), damaged));
            let mut damaged = files.clone();
            damaged[which][at] ^= 0x10;
            damages.push((format!("{} changed at {at}", FILES[which]), damaged));
        }
    }
    for (damage, damaged) in damages {
        put(dir.path(), &damaged);
        let first = start(dir.path(), KnownJournal::Keep).await.unwrap();
        assert!(first.knows_the_lease || first.folder.journal_id() != id, "{damage}");
        let settled = first.folder.journal_id().to_owned();
        drop(first);
        let second = start(dir.path(), KnownJournal::Keep).await.unwrap();
        assert_eq!(second.folder.journal_id(), settled, "{damage}: the next start believes the new journal");
    }
}

#[tokio::test]
async fn w1_an_identity_damaged_at_any_byte_is_refused_or_is_the_same() {
    let (files, id) = killed().await;
    let dir = tempfile::tempdir().unwrap();
    let [mut same, mut refused] = [0, 0];
    for at in 0..files[0].len() {
        for cut in [false, true] {
            let mut damaged = files.clone();
            if cut {
                damaged[0].truncate(at);
            } else {
                damaged[0][at] ^= 1 << (at % 7);
            }
            put(dir.path(), &damaged);
            match start(dir.path(), KnownJournal::Keep).await {
                Ok(started) => {
                    assert!(started.knows_the_lease && started.folder.journal_id() == id, "at {at}, cut: {cut}");
                    assert_eq!(started.folder.node_id().as_str(), "web-01", "at {at}, cut: {cut}");
                    same += 1;
                }
                Err(e) => {
                    assert!(e.to_string().contains("--reset-journal and --node-id"), "at {at}, cut: {cut}: {e}");
                    refused += 1;
                }
            }
        }
    }
    // Only a changed blank, or the name of the checksum, does no harm.
    assert!(same < 40 && refused > 200, "{same} the same, {refused} refused");
}

#[tokio::test]
async fn w1_a_crash_after_the_new_id_does_not_replay_the_old_journal_under_it() {
    let (files, id) = killed().await;
    for again in [KnownJournal::Keep, KnownJournal::Reset] {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &files);
        let node: NodeId = "web-01".parse().unwrap();
        // All that happens before the crash.
        let crashed = Folder::open(dir.path(), Some(&node), KnownJournal::Reset, &SystemRandom).unwrap();
        assert!(crashed.journal_id() != id && crashed.replaced_journal_id() == Some(&id));
        drop(crashed);
        let after = start(dir.path(), again).await.unwrap();
        assert!(!after.knows_the_lease && after.folder.journal_id() != id);
        assert_eq!(after.folder.replaced_journal_id(), None);
        let settled = after.folder.journal_id().to_owned();
        drop(after);
        assert_eq!(start(dir.path(), KnownJournal::Keep).await.unwrap().folder.journal_id(), settled);
    }
}

#[tokio::test]
async fn w1_a_journal_whose_identity_is_gone_is_not_replayed_under_another() {
    let (files, id) = killed().await;
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &files);
    std::fs::remove_file(dir.path().join("identity")).unwrap();
    let anew = start(dir.path(), KnownJournal::Keep).await.unwrap();
    assert!(!anew.knows_the_lease && anew.folder.journal_id() != id);
}

#[tokio::test]
async fn a_damaged_identity_is_refused_unless_the_node_starts_over_under_a_given_id() {
    let (mut files, _) = killed().await;
    files[0].truncate(20);
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &files);
    for (given, known) in
        [(None, KnownJournal::Reset), (None, KnownJournal::Keep), (Some("web-01"), KnownJournal::Keep)]
    {
        let given: Option<NodeId> = given.map(|id| id.parse().unwrap());
        let refused = Folder::open(dir.path(), given.as_ref(), known, &SystemRandom).unwrap_err().to_string();
        assert!(refused.contains("--reset-journal and --node-id"), "{refused}");
    }
    let over = start(dir.path(), KnownJournal::Reset).await.unwrap();
    assert!(!over.knows_the_lease);
    assert_eq!(over.folder.node_id().as_str(), "web-01");
}

#[tokio::test]
async fn e8_a_folder_says_whether_a_worker_lives_in_it_and_what_it_left() {
    let dir = tempfile::tempdir().unwrap();
    let look = async || crate::end_left_over(dir.path()).await.unwrap();
    assert_eq!(look().await, LeftOver::Gone { nothing_outstanding: true }, "no worker was ever here");
    let mut alive = start(dir.path(), KnownJournal::Keep).await.unwrap();
    assert_eq!(look().await, LeftOver::InUse);
    alive.journal.append(&[Record::Epoch(LeaderEpoch::from_wire(1))]).unwrap();
    drop(alive);
    assert_eq!(look().await, LeftOver::Gone { nothing_outstanding: true });
    let (files, _) = killed().await;
    put(dir.path(), &files);
    assert_eq!(look().await, LeftOver::Gone { nothing_outstanding: false }, "a once-only step was under way");
    std::fs::remove_file(dir.path().join("journal")).unwrap();
    assert_eq!(look().await, LeftOver::Gone { nothing_outstanding: false }, "nobody knows what was under way");
}

#[tokio::test]
async fn e8_a_refused_folder_does_not_hide_the_worker_that_lives_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let alive = start(dir.path(), KnownJournal::Keep).await.unwrap();
    let planted = dir.path().join("planted");
    std::os::unix::fs::symlink("/etc/hostname", &planted).unwrap();
    assert_eq!(crate::end_left_over(dir.path()).await.unwrap(), LeftOver::InUse);
    drop(alive);
    match crate::end_left_over(dir.path()).await.unwrap() {
        LeftOver::NotKnown { problem } => assert!(problem.contains("planted is a symbolic link"), "{problem}"),
        other => panic!("{other:?}"),
    }
    std::fs::remove_file(&planted).unwrap();
    // Its identity is lost: nobody knows what was outstanding.
    std::fs::remove_file(dir.path().join("identity")).unwrap();
    let found = crate::end_left_over(dir.path()).await.unwrap();
    assert_eq!(found, LeftOver::Gone { nothing_outstanding: false });
}
