use std::sync::mpsc;
use std::time::Duration;

use grid_types::decl::EffectClass;
use grid_types::{Attempt, JobEpoch, JobId, LeaderEpoch, LeaseKey, StepIndex};

use super::{Corrupt, Ended, FileDisk, Journal, JournalError, Record, Status};

fn lease(job: u64) -> LeaseKey {
    LeaseKey { job: JobId(job), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) }
}

fn records() -> Vec<Record> {
    vec![
        Record::Epoch(LeaderEpoch { generation: 0, n: 3 }),
        Record::Started { lease: lease(1), effect: EffectClass::Once, at_ms: 7 },
        Record::Ended {
            lease: lease(1),
            ended: Ended {
                status: Status::Failed,
                error: "no such file".to_owned(),
                duration_ms: 12,
                started_at_ms: 7,
                output_bytes: 0,
            },
        },
        Record::Settled { lease: lease(1), at_ms: 9 },
        Record::Forgotten { job: JobId(1), epoch: JobEpoch(1), at_ms: 10 },
    ]
}

struct Rig {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        Self { _dir: dir, path }
    }

    fn open(&self) -> Result<(Journal<FileDisk>, Vec<Record>), JournalError> {
        Journal::open(FileDisk::new(self.path.clone()), |_| {})
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

#[test]
fn w3_what_was_appended_is_read_again() {
    let rig = Rig::new();
    let (mut journal, none) = rig.open().unwrap();
    assert_eq!(none, []);
    journal.append(&records()[..2]).unwrap();
    journal.append(&records()[2..]).unwrap();
    drop(journal);
    assert_eq!(rig.open().unwrap().1, records());
}

#[test]
fn w3_a_journal_torn_at_any_byte_keeps_every_whole_record_and_goes_on() {
    let rig = Rig::new();
    let (mut journal, _) = rig.open().unwrap();
    let mut ends = vec![rig.bytes().len()];
    for record in records() {
        journal.append(&[record]).unwrap();
        ends.push(rig.bytes().len());
    }
    let whole = rig.bytes();
    for cut in ends[0]..=whole.len() {
        std::fs::write(&rig.path, &whole[..cut]).unwrap();
        let (mut journal, read) = rig.open().unwrap();
        let kept = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(read, records()[..kept], "cut at {cut}");
        journal.append(&records()[4..]).unwrap();
        let (_, read) = rig.open().unwrap();
        assert_eq!(read.len(), kept + 1, "cut at {cut}, then appended");
        // A power cut may leave the length but not the bytes.
        let zeros = [&whole[..cut], &vec![0; whole.len() - cut]].concat();
        let kept = ends.iter().filter(|end| zeros[..**end] == whole[..**end]).count() - 1;
        std::fs::write(&rig.path, zeros).unwrap();
        assert_eq!(rig.open().unwrap().1, records()[..kept], "zeros from {cut}");
    }
}

#[test]
fn w3_damage_in_the_middle_is_refused_with_the_way_out() {
    let rig = Rig::new();
    let (mut journal, _) = rig.open().unwrap();
    let start = rig.bytes().len();
    journal.append(&records()).unwrap();
    let whole = rig.bytes();
    let last = {
        let rig = Rig::new();
        let (mut journal, _) = rig.open().unwrap();
        journal.append(&records()[4..]).unwrap();
        rig.bytes().len() - start
    };
    for at in start..whole.len() - last {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&rig.path, &damaged).unwrap();
        let error = rig.open().map(drop).unwrap_err();
        assert!(matches!(error, JournalError::Corrupt(Corrupt::Middle(_))), "byte {at}: {error}");
        assert!(error.to_string().contains("--reset-journal"), "{error}");
    }
    std::fs::write(&rig.path, b"something else entirely").unwrap();
    assert!(matches!(rig.open().map(drop), Err(JournalError::Corrupt(Corrupt::Header))));
}

#[test]
fn compaction_keeps_what_it_is_given_and_appends_go_to_the_new_file() {
    let rig = Rig::new();
    let (mut journal, _) = rig.open().unwrap();
    for _ in 0..100 {
        journal.append(&records()).unwrap();
    }
    let before = rig.bytes().len();
    journal.compact(records().into_iter().take(1)).unwrap();
    assert!(rig.bytes().len() < before / 10);
    journal.append(&records()[1..2]).unwrap();
    drop(journal);
    assert_eq!(rig.open().unwrap().1, records()[..2]);
}

#[test]
fn the_journal_asks_for_compaction_when_it_has_doubled() {
    let rig = Rig::new();
    let (mut journal, _) = rig.open().unwrap();
    let many: Vec<_> = std::iter::repeat_n(records()[2].clone(), 200_000).collect();
    assert!(!journal.wants_compaction());
    journal.append(&many).unwrap();
    assert!(journal.wants_compaction());
    journal.compact(many.into_iter()).unwrap();
    assert!(!journal.wants_compaction(), "what is all needed is not written again at once");
}

#[test]
fn w3_a_sync_is_reported_with_its_number() {
    let rig = Rig::new();
    let (sender, synced) = mpsc::channel();
    let disk = FileDisk::new(rig.path.clone());
    let (mut journal, _) = Journal::open(disk, move |done| sender.send(done.unwrap()).unwrap()).unwrap();
    for number in 1..=50 {
        journal.append(&records()[..1]).unwrap();
        journal.sync(number).unwrap();
    }
    let mut last = 0;
    while last < 50 {
        let number = synced.recv_timeout(Duration::from_secs(30)).expect("no sync is reported");
        assert!(number > last, "{number} after {last}");
        last = number;
    }
}
