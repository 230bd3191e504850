//! The journal on real files: what is read again, which damage is noticed, syncs and compaction.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use grid_types::decl::EffectClass;
use grid_types::{Attempt, Detail, JobEpoch, JobId, LeaderEpoch, LeaseKey, StepIndex};

use super::{Damage, Journal, JournalError};
use crate::engine::record::{Ended, Record, Status};
use crate::machine::{FileDisk, SystemRandom};
use crate::seams::{Disk, Survives, SyncFile};

const BOOT: u64 = 77;

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
                output_bytes: 4,
                output_truncated: true,
                detail: Some(Detail { exit_code: Some(3), signal: None, changed: Some(true) }),
            },
            output: b"said".to_vec(),
        },
        Record::Settled { lease: lease(1), at_ms: 9 },
        Record::Forgotten { job: JobId(1), epoch: JobEpoch(1), at_ms: 10, leases_kept: true },
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

    fn open(&self) -> Result<(Journal, Vec<Record>), JournalError> {
        self.open_in(BOOT)
    }

    fn open_in(&self, machine_boot: u64) -> Result<(Journal, Vec<Record>), JournalError> {
        Journal::open(Box::new(FileDisk::new(self.path.clone())), Arc::new(SystemRandom), machine_boot, |_| {})
    }

    fn damage(&self) -> Option<Damage> {
        match self.open() {
            Ok(_) => None,
            Err(JournalError::Damaged(damage)) => Some(damage),
            Err(other) => panic!("{other}"),
        }
    }

    /// Both files.
    fn put(&self, journal: &[u8], extent: &[u8]) {
        std::fs::write(&self.path, journal).unwrap();
        std::fs::write(self.path.with_extension("len"), extent).unwrap();
    }

    fn extent(&self) -> Vec<u8> {
        std::fs::read(self.path.with_extension("len")).unwrap()
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

/// A journal with all records, and both files as they were before the first and after each.
fn grown(rig: &Rig) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut journal, _) = rig.open().unwrap();
    let mut states = vec![(rig.bytes(), rig.extent())];
    for record in records() {
        journal.append(&[record]).unwrap();
        states.push((rig.bytes(), rig.extent()));
    }
    states
}

#[test]
fn w3_an_append_cut_off_at_any_byte_keeps_every_whole_record_and_goes_on() {
    let rig = Rig::new();
    let states = grown(&rig);
    let (whole, _) = states.last().unwrap();
    for (recorded, (short, extent)) in states.iter().enumerate() {
        for cut in short.len()..=whole.len() {
            rig.put(&whole[..cut], extent);
            let kept = states.iter().filter(|(bytes, _)| bytes.len() <= cut).count() - 1;
            let (mut journal, read) = rig.open().unwrap();
            assert_eq!(read, records()[..kept], "{recorded} recorded, cut at {cut}");
            journal.append(&records()[4..]).unwrap();
            let (_, read) = rig.open().unwrap();
            assert_eq!(read.len(), kept + 1, "{recorded} recorded, cut at {cut}, then appended");
        }
    }
}

#[test]
fn w1_a_journal_cut_or_changed_at_any_byte_is_noticed() {
    let rig = Rig::new();
    let (whole, extent) = grown(&rig).pop().unwrap();
    for cut in 0..whole.len() {
        rig.put(&whole[..cut], &extent);
        assert!(rig.damage().is_some(), "cut at {cut}");
        rig.put(&[&whole[..cut], &vec![0; whole.len() - cut]].concat(), &extent);
        assert!(rig.damage().is_some(), "zeros from {cut}");
    }
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x40;
        rig.put(&flipped, &extent);
        assert!(rig.damage().is_some(), "byte {at}");
    }
    rig.put(&whole, &extent);
    assert_eq!(rig.damage(), None);
}

#[test]
fn w1_a_journal_without_the_record_of_its_length_is_not_believed() {
    let rig = Rig::new();
    let (whole, extent) = grown(&rig).pop().unwrap();
    for cut in 0..extent.len() {
        rig.put(&whole, &extent[..cut]);
        assert_eq!(rig.damage(), Some(Damage::Unrecorded), "cut at {cut}");
        let mut flipped = extent.clone();
        flipped[cut] ^= 1;
        rig.put(&whole, &flipped);
        assert_eq!(rig.damage(), Some(Damage::Unrecorded), "byte {cut}");
    }
    rig.put(&whole, &extent);
    std::fs::remove_file(rig.path.with_extension("len")).unwrap();
    assert_eq!(rig.damage(), Some(Damage::Unrecorded));
    let (another, _) = grown(&Rig::new()).pop().unwrap();
    rig.put(&another, &extent);
    assert_eq!(rig.damage(), Some(Damage::Unrecorded), "an older journal put in its place");
}

#[test]
fn w1_torn_bytes_after_a_power_cut_are_damage_but_whole_records_are_not() {
    let rig = Rig::new();
    let states = grown(&rig);
    let ((whole, _), (_, stale)) = (states.last().unwrap(), &states[2]);
    rig.put(whole, stale);
    assert_eq!(rig.open_in(BOOT + 1).unwrap().1, records());
    for boot in [0, BOOT + 1] {
        rig.put(&whole[..whole.len() - 1], stale);
        let torn = rig.open_in(boot).map(drop);
        assert!(matches!(torn, Err(JournalError::Damaged(Damage::Torn { .. }))), "{torn:?}");
    }
}

#[test]
fn what_is_whole_around_the_damage_is_salvaged() {
    let rig = Rig::new();
    let states = grown(&rig);
    let (mut damaged, extent) = states.last().unwrap().clone();
    damaged[states[1].0.len() + 10] ^= 1;
    rig.put(&damaged, &extent);
    let salvaged = Journal::salvage(&mut FileDisk::new(rig.path.clone()));
    assert_eq!(salvaged, [&records()[..1], &records()[2..]].concat());
}

/// Does so many writes, then no more.
struct Dying {
    disk: FileDisk,
    left: u32,
}

impl Dying {
    fn write(&mut self) -> std::io::Result<&mut FileDisk> {
        self.left = self.left.checked_sub(1).ok_or_else(|| std::io::Error::other("dead"))?;
        Ok(&mut self.disk)
    }
}

impl Disk for Dying {
    fn read(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        self.disk.read()
    }
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.write()?.append(bytes)
    }
    fn truncate(&mut self, len_bytes: u64) -> std::io::Result<()> {
        self.write()?.truncate(len_bytes)
    }
    fn replace(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.write()?.replace(bytes)
    }
    fn sync_file(&self) -> std::io::Result<std::sync::Arc<dyn SyncFile>> {
        self.disk.sync_file()
    }
    fn read_extent(&mut self) -> std::io::Result<Vec<u8>> {
        self.disk.read_extent()
    }
    fn write_extent(&mut self, bytes: &[u8], survives: Survives) -> std::io::Result<()> {
        self.write()?.write_extent(bytes, survives)
    }
    fn set_aside(&mut self) -> std::io::Result<()> {
        self.write()?.set_aside()
    }
}

#[test]
fn w3_a_crash_at_any_write_of_a_compaction_leaves_a_journal_that_is_believed() {
    let rig = Rig::new();
    let (whole, extent) = grown(&rig).pop().unwrap();
    // The first write is that of opening.
    for left in 1..=4 {
        rig.put(&whole, &extent);
        let disk = Dying { disk: FileDisk::new(rig.path.clone()), left };
        let (mut journal, read) = Journal::open(Box::new(disk), Arc::new(SystemRandom), BOOT, |_| {}).unwrap();
        let compacted = journal.compact(read.into_iter().take(2));
        assert_eq!(compacted.is_ok(), left == 4);
        let kept = if left < 3 { 5 } else { 2 };
        assert_eq!(rig.open().unwrap().1, records()[..kept], "{left} writes");
    }
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
    let synced_to = move |done: std::io::Result<u64>| sender.send(done.unwrap()).unwrap();
    let (mut journal, _) = Journal::open(Box::new(disk), Arc::new(SystemRandom), BOOT, synced_to).unwrap();
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
