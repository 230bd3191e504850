//! Folders that workers of earlier versions left: their journals still answer (W2, W3).
//!
//! `fixtures/v<LEVEL>/worker` has records of every kind. See `crates/grid-core/tests/fixtures.rs` for when it is written; a
//! worker knows no feature level, so the folder's name is that of the controllers it was made with.

use std::fs;
use std::path::{Path, PathBuf};

use grid_types::decl::EffectClass;
use grid_types::{Attempt, JobEpoch, JobId, LeaderEpoch, LeaseKey, NodeId, StepIndex};

use super::open_journal;
use crate::data_dir::folder::{Folder, KnownJournal};
use crate::engine::book::{Book, Now};
use crate::engine::record::{Ended, Group, Record, Status};
use crate::machine::{SystemRandom, host};

const FILES: [&str; 3] = ["identity", "journal", "journal.len"];
/// Those of which there is a fixture.
const VERSIONS: [u32; 2] = [1, 2];

fn folder(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/v{version}/worker"))
}

fn lease(job: u64) -> LeaseKey {
    LeaseKey { job: JobId(job), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) }
}

#[tokio::test]
async fn w3_the_journals_of_every_version_still_answer() {
    if std::env::var_os("GRID_FIXTURES").is_some_and(|word| word == "write") {
        write(&folder(VERSIONS[VERSIONS.len() - 1])).await;
    }
    for version in VERSIONS {
        if version == VERSIONS[VERSIONS.len() - 1] && !folder(version).exists() {
            eprintln!("skipped: run `cargo xtask fixtures` to write {}", folder(version).display());
            return;
        }
        let copy = tempfile::tempdir().unwrap();
        for name in FILES {
            fs::copy(folder(version).join(name), copy.path().join(name)).unwrap();
        }
        let (node, mut book) = opened(copy.path()).await;
        assert_eq!(node.node_id().as_str(), "n1", "version {version}");
        assert_eq!(node.replaced_journal_id(), None, "it is the same journal");
        assert_eq!(book.epoch(), LeaderEpoch::from_wire(7));
        let outstanding: Vec<u64> = (1..=6).filter(|job| book.holds(&lease(*job))).collect();
        // A once-only step that was interrupted, a result that nobody has answered, a revoke to confirm.
        assert_eq!(outstanding, [1, 3, 5]);
        // Job 6 was forgotten, and these versions dropped its leases.
        book.ask_about(&[6]);
        let journal =
            book.outgoing(Now::default(), crate::engine::book::Heartbeat::Without, |_| Vec::new()).journal.unwrap();
        assert_eq!((journal.jobs[0].forgotten_epoch, journal.jobs[0].leases.len()), (1, 0));
    }
}

async fn opened(dir: &Path) -> (Folder, Book) {
    let node: NodeId = "n1".parse().unwrap();
    let mut folder = Folder::open(dir, Some(&node), KnownJournal::Keep, &SystemRandom).unwrap();
    let mut book = Book::new(8);
    open_journal(&mut folder, &mut book, &host(), |_| {}).await.unwrap();
    book.recover();
    (folder, book)
}

/// Nothing that is there is touched.
async fn write(folder: &Path) {
    if folder.exists() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let node: NodeId = "n1".parse().unwrap();
    let mut made = Folder::open(home.path(), Some(&node), KnownJournal::Keep, &SystemRandom).unwrap();
    made.set_cluster_id("fixture").unwrap();
    let mut journal = open_journal(&mut made, &mut Book::new(8), &host(), |_| {}).await.unwrap();
    let started = |job, effect| Record::Started { lease: lease(job), effect, at_ms: 1_790_000_000_000 };
    let failed = || Ended::without_run(Status::Failed, "exit code 3", 7);
    let ended = |job| Record::Ended { lease: lease(job), ended: failed(), output: Vec::new() };
    let group = Group { pgid: 4_000_000, start_ticks: 1, machine_boot: 1 };
    let records = [
        Record::Epoch(LeaderEpoch::from_wire(7)),
        started(1, EffectClass::Once),
        Record::Forked { lease: lease(1), group },
        started(2, EffectClass::Idempotent),
        started(3, EffectClass::Once),
        ended(3),
        started(4, EffectClass::Once),
        ended(4),
        Record::Settled { lease: lease(4), at_ms: 1_790_000_000_100 },
        Record::Revoked { lease: lease(5) },
        started(6, EffectClass::Pure),
        ended(6),
        Record::Forgotten { job: JobId(6), epoch: JobEpoch(1), at_ms: 1_790_000_000_200, leases_kept: true },
    ];
    journal.append(&records).unwrap();
    drop(journal);
    fs::create_dir_all(folder).unwrap();
    for name in FILES {
        fs::copy(home.path().join(name), folder.join(name)).unwrap();
    }
}
