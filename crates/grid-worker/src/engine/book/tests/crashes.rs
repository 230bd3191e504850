//! Random leaders, ends and crashes over a disk that may lose whatever was not synced.
//!
//! Checked outside the book: a `once` lease starts at most once, nothing starts after its revoke was confirmed, two leases
//! of a job never run together, and what was said is never unsaid. With a folder that is put back to an earlier time
//! (W1) only the first of these is left to ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::{SESSION, ended, lease, offer_of};
use crate::engine::book::{Book, Now};
use crate::engine::record::{Record, Status};
use grid_proto::v1;
use grid_types::decl::EffectClass::{Idempotent, Once};
use grid_types::{LeaderEpoch, LeaseKey, SessionId};

struct World {
    seed: u64,
    book: Book,
    now: Now,
    /// All records, and how many of them are certainly on disk.
    journal: Vec<Record>,
    on_disk: usize,
    running: BTreeSet<LeaseKey>,
    starts: BTreeMap<LeaseKey, u32>,
    confirmed: BTreeSet<LeaseKey>,
    reported: BTreeMap<LeaseKey, i32>,
    /// W3, as the leader has it: which process began a lease.
    begun: BTreeMap<LeaseKey, u32>,
    /// W1: begun, and missing in the list of a registration. Never offered again.
    lost: BTreeSet<LeaseKey>,
    process: u32,
    /// Permissions on their way.
    granted: Vec<v1::BeginAnswer>,
    /// The folder may be put back to any earlier time.
    rolls_back: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            book: Book::new(3),
            now: Now { mono_ms: 1, wall_ms: 1 },
            journal: Vec::new(),
            on_disk: 0,
            running: BTreeSet::new(),
            starts: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            reported: BTreeMap::new(),
            begun: BTreeMap::new(),
            lost: BTreeSet::new(),
            process: 0,
            granted: Vec::new(),
            rolls_back: false,
        };
        world.begin();
        world
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn some_lease(&mut self) -> LeaseKey {
        let (job, step) = (self.random(4) + 1, self.random(3));
        lease(job, u32::try_from(step).unwrap())
    }

    fn begin(&mut self) {
        let outstanding: BTreeSet<LeaseKey> = self.book.outstanding().collect();
        self.lost.extend(self.begun.keys().filter(|lease| !outstanding.contains(lease)));
        self.granted.clear();
        assert!(self.book.begin_session(SessionId(SESSION), LeaderEpoch::from_wire(1)));
        self.act();
    }

    fn act(&mut self) {
        let effects = self.book.take_effects();
        self.journal.extend(effects.records);
        for work in effects.start {
            let lease = work.lease;
            assert!(work.start_by_mono_ms.is_none_or(|by| by >= self.now.mono_ms), "W3: {lease} starts too late");
            assert!(
                self.rolls_back || !self.confirmed.contains(&lease),
                "{lease} starts after its revoke was confirmed"
            );
            assert!(self.running.iter().all(|other| other.job != lease.job), "W7: two leases of {}", lease.job);
            assert!(self.running.insert(lease));
            let starts = self.starts.entry(lease).or_default();
            *starts += 1;
            assert!(*starts == 1 || lease.step.0 != 0, "W3: the once lease {lease} started twice");
        }
        for lease in effects.stop {
            if self.running.remove(&lease) {
                self.book.ended(lease, ended(Status::Cancelled), Vec::new(), self.now);
                self.act();
            }
        }
    }

    fn sync(&mut self) {
        self.on_disk = self.journal.len();
        self.book.synced(self.book.written());
        self.act();
    }

    /// The process dies, and with it everything it ran; a power cut also takes a part of what was not synced.
    fn crash(&mut self) {
        let unsynced = u64::try_from(self.journal.len() - self.on_disk).unwrap();
        let kept = usize::try_from(self.random(unsynced + 1)).unwrap();
        self.journal.truncate(self.on_disk + kept);
        if self.rolls_back && self.random(2) == 0 {
            let records = u64::try_from(self.journal.len() + 1).unwrap();
            let kept = usize::try_from(self.random(records)).unwrap();
            self.journal.truncate(kept);
            self.on_disk = self.on_disk.min(kept);
        }
        self.process += 1;
        self.running.clear();
        self.book = Book::new(3);
        for record in self.journal.clone() {
            self.book.replay(record);
        }
        self.book.recover();
        self.act();
        self.begin();
    }

    fn hear(&mut self, message: v1::ToWorker) {
        self.book.receive(&v1::ToWorker { leader_epoch: 1, ..message }, self.now);
        self.act();
    }

    /// The leader commits what is reported; some of it is lost on the way.
    fn say(&mut self) {
        let said = self.book.outgoing(self.now, crate::engine::book::Heartbeat::Without, |_| Vec::new());
        if self.random(4) == 0 {
            return;
        }
        let mut answers = Vec::new();
        for result in said.results {
            let key: LeaseKey = result.lease.unwrap().into();
            if key.step.0 == 0 && !self.rolls_back {
                let before = *self.reported.entry(key).or_insert(result.status);
                assert_eq!(before, result.status, "the outcome of the once lease {key} changed");
            }
            answers.push(v1::Answer { lease: result.lease, kind: v1::AnswerKind::Committed.into() });
        }
        for done in said.revokes_done {
            let key: LeaseKey = done.lease.unwrap().into();
            assert!(!self.running.contains(&key), "{key} runs and its revoke is confirmed");
            self.confirmed.insert(key);
            answers.push(v1::Answer { lease: done.lease, kind: v1::AnswerKind::Committed.into() });
        }
        for begin in said.begins {
            let key: LeaseKey = begin.lease.unwrap().into();
            let is_first = *self.begun.entry(key).or_insert(self.process) == self.process;
            let granted = is_first && !self.lost.contains(&key);
            let kind = if granted { v1::BeginKind::Granted } else { v1::BeginKind::Refused };
            self.granted.push(v1::BeginAnswer { lease: begin.lease, kind: kind.into(), asked_ms: begin.asked_ms });
        }
        self.hear(v1::ToWorker { answers, ..Default::default() });
    }

    /// Permissions arrive late, in any order, or twice.
    fn grant(&mut self) {
        let Some(last) = u64::try_from(self.granted.len()).ok().filter(|count| *count > 0) else { return };
        let at = usize::try_from(self.random(last)).unwrap();
        let answer = if self.random(3) == 0 { self.granted[at] } else { self.granted.swap_remove(at) };
        self.hear(v1::ToWorker { begun: vec![answer], ..Default::default() });
    }

    fn step(&mut self) {
        self.now.mono_ms += self.random(3_000);
        match self.random(14) {
            0..=3 => {
                let key = self.some_lease();
                if self.lost.contains(&key) {
                    return;
                }
                let effect = if key.step.0 == 0 { Once } else { Idempotent };
                self.hear(v1::ToWorker { offers: vec![offer_of(key, effect)], ..Default::default() });
            }
            4..=5 => {
                if let Some(key) = self.running.pop_first() {
                    let status = if self.random(2) == 0 { Status::Success } else { Status::Failed };
                    self.book.ended(key, ended(status), Vec::new(), self.now);
                    self.act();
                }
            }
            6 => {
                let key = self.some_lease();
                self.hear(v1::ToWorker { revokes: vec![key.into()], ..Default::default() });
            }
            7..=8 => self.sync(),
            9..=10 => self.say(),
            11..=12 => self.grant(),
            _ => self.crash(),
        }
    }
}

#[test]
fn w3_no_crash_makes_a_once_lease_run_twice() {
    for seed in 0..3_000 {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
        }
    }
}

#[test]
fn w1_no_folder_that_is_put_back_makes_a_once_lease_run_twice() {
    let mut starts = 0;
    for seed in 0..3_000 {
        let mut world = World::new(seed);
        world.rolls_back = true;
        for _ in 0..120 {
            world.step();
        }
        starts += world.starts.keys().filter(|lease| lease.step.0 == 0).count();
    }
    assert!(starts > 1_000, "once leases do run: {starts}");
}
