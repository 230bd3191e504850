//! Tests the book with a simulated disk and leader.

mod answers;
mod begin;
mod crashes;
mod offers;
mod recall;
mod restart;

use grid_proto::v1;
use grid_types::decl::EffectClass;
use grid_types::{Attempt, JobEpoch, JobId, LeaderEpoch, LeaseKey, SessionId, StepIndex};

use super::{Book, Heartbeat, Now, Received};
use crate::engine::record::{Ended, Record, Status};

const SESSION: u64 = 7;

fn lease(job: u64, step: u32) -> LeaseKey {
    LeaseKey { job: JobId(job), job_epoch: JobEpoch(1), step: StepIndex(step), attempt: Attempt(1) }
}

fn offer_of(lease: LeaseKey, effect: EffectClass) -> v1::Offer {
    let effect = v1::EffectClass::of(effect).into();
    v1::Offer { lease: Some(lease.into()), session: SESSION, effect, ..Default::default() }
}

fn ended(status: Status) -> Ended {
    Ended {
        status,
        error: String::new(),
        duration_ms: 5,
        started_at_ms: 1,
        output_bytes: 0,
        output_truncated: false,
        detail: None,
    }
}

/// A book, the journal under it, and what was started and stopped.
struct Bench {
    book: Book,
    now: Now,
    epoch: u64,
    journal: Vec<Record>,
    started: Vec<LeaseKey>,
    stopped: Vec<LeaseKey>,
    discarded: Vec<LeaseKey>,
    kept: Vec<LeaseKey>,
    /// Somebody waits for the disk.
    sync_asked: bool,
    /// The leader allows every start at once (W3).
    grants: bool,
}

impl Bench {
    fn new(slots: u32) -> Self {
        let now = Now { mono_ms: 1_000, wall_ms: 1_000_000 };
        let mut bench = Self {
            book: Book::new(slots),
            now,
            epoch: 1,
            journal: Vec::new(),
            started: Vec::new(),
            stopped: Vec::new(),
            discarded: Vec::new(),
            kept: Vec::new(),
            sync_asked: false,
            grants: true,
        };
        bench.begin();
        bench
    }

    fn begin_without_look(&mut self) {
        assert!(self.book.begin_session(SessionId(SESSION), LeaderEpoch::from_wire(self.epoch)));
        self.settle();
    }

    fn begin(&mut self) {
        self.begin_without_look();
        let first = self.say();
        assert!(
            first.outstanding.is_some() && first.heartbeat.is_some(),
            "W5: the first message lists what is outstanding"
        );
    }

    /// Takes the effects without any sync.
    fn settle(&mut self) {
        let effects = self.book.take_effects();
        self.journal.extend(effects.records);
        self.sync_asked |= effects.sync;
        self.started.extend(effects.start.iter().map(|work| work.lease));
        self.stopped.extend(effects.stop);
        self.discarded.extend(effects.discard);
        self.kept.extend(effects.keep);
    }

    fn sync(&mut self) {
        self.settle();
        self.sync_asked = false;
        self.book.synced(self.book.written());
        self.settle();
        if self.grants {
            for lease in self.asking() {
                self.answer_begin(lease, v1::BeginKind::Granted, self.now.mono_ms);
            }
        }
    }

    /// Leases that wait for the leader's permission to start.
    fn asking(&self) -> Vec<LeaseKey> {
        let asking = self.book.leases.iter().filter(|(_, entry)| matches!(entry.phase, super::Phase::Asking(_)));
        asking.map(|(lease, _)| *lease).collect()
    }

    fn answer_begin(&mut self, lease: LeaseKey, kind: v1::BeginKind, asked_ms: u64) {
        let begun = vec![v1::BeginAnswer { lease: Some(lease.into()), kind: kind.into(), asked_ms }];
        self.hear(v1::ToWorker { begun, ..Default::default() });
    }

    /// What the next message asks for, with the time of the question.
    fn begins(&mut self) -> Vec<(LeaseKey, u64)> {
        self.say().begins.iter().map(|begin| (begin.lease.unwrap().into(), begin.asked_ms)).collect()
    }

    fn hear(&mut self, message: v1::ToWorker) -> Received {
        let heard = self.book.receive(&v1::ToWorker { leader_epoch: self.epoch, ..message }, self.now);
        self.settle();
        heard
    }

    fn offer(&mut self, lease: LeaseKey, effect: EffectClass) {
        let offers = vec![offer_of(lease, effect)];
        assert_eq!(self.hear(v1::ToWorker { offers, ..Default::default() }), Received::Go);
    }

    fn revoke(&mut self, lease: LeaseKey) {
        self.hear(v1::ToWorker { revokes: vec![lease.into()], ..Default::default() });
    }

    fn forget(&mut self, job: u64) {
        self.forget_up_to(job, 1);
    }

    fn forget_up_to(&mut self, job_id: u64, job_epoch: u32) {
        self.hear(v1::ToWorker { forgets: vec![v1::Forget { job_id, job_epoch }], ..Default::default() });
    }

    fn answer(&mut self, lease: LeaseKey, kind: v1::AnswerKind) {
        let answers = vec![v1::Answer { lease: Some(lease.into()), kind: kind.into() }];
        self.hear(v1::ToWorker { answers, ..Default::default() });
    }

    fn end(&mut self, lease: LeaseKey, status: Status) {
        self.book.ended(lease, ended(status), b"tail".to_vec(), self.now);
        self.settle();
    }

    fn end_saying(&mut self, lease: LeaseKey, output: &[u8]) {
        let ended = Ended { output_bytes: output.len() as u64, ..ended(Status::Success) };
        self.book.ended(lease, ended, output.to_vec(), self.now);
        self.settle();
    }

    fn say(&mut self) -> v1::FromWorker {
        self.book.outgoing(self.now, Heartbeat::Without, |_| b"from the file".to_vec())
    }

    /// Results in the next message, by lease and status.
    fn results(&mut self) -> Vec<(LeaseKey, v1::LeaseStatus)> {
        let results = self.say().results;
        results.iter().map(|result| (result.lease.unwrap().into(), result.status())).collect()
    }

    fn revokes_done(&mut self) -> Vec<(LeaseKey, v1::LeaseStatus)> {
        let done = self.say().revokes_done;
        done.iter().map(|done| (done.lease.unwrap().into(), done.ended())).collect()
    }

    /// A new process with the same journal, and a new session.
    fn restart(mut self) -> Self {
        self.settle();
        let mut book = Book::new(8);
        for record in self.journal.clone() {
            book.replay(record);
        }
        book.recover();
        let mut bench = Self { book, started: Vec::new(), stopped: Vec::new(), ..self };
        bench.sync();
        bench.book.synced(bench.book.written());
        bench
    }

    fn wait(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms;
    }
}
