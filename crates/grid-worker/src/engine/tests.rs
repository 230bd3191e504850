//! Whole workers without a runtime, a file, a socket or a clock.

mod connecting;
mod ending;
mod leases;

use grid_fabric::LinkError;
use grid_proto::v1;
use grid_types::decl::EffectClass;
use grid_types::node::NodeFacts;
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, SessionId, StepIndex};

use super::{Ending, Engine, Identity, Input, Output, Registration};
use crate::engine::book::{Book, LeaseEvent, Now};
use crate::engine::record::{Ended, Record, Status};

fn lease(job: u64) -> LeaseKey {
    LeaseKey { job: JobId(job), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) }
}

/// An engine, and the world around it as far as it has got.
struct Rig {
    engine: Engine,
    now: Now,
    epoch: u64,
    session: u64,
    journal: Vec<Record>,
    /// Records that are on disk.
    synced: usize,
    sync_asked: Option<u64>,
    started: Vec<LeaseKey>,
    stopped: Vec<LeaseKey>,
    registrations: Vec<Registration>,
    sent: Vec<v1::FromWorker>,
    ending: Option<Ending>,
    /// Everything else that was asked for.
    asked: Vec<Output>,
}

impl Rig {
    /// Told to run, nothing else.
    fn new() -> Self {
        Self::on(Vec::new())
    }

    /// A process that finds this journal.
    fn on(journal: Vec<Record>) -> Self {
        let mut book = Book::new(2);
        journal.iter().cloned().for_each(|record| book.replay(record));
        book.recover();
        let identity = Identity {
            node_id: "web-01".parse().unwrap(),
            journal_id: vec![1; 16],
            boot: 1,
            nonce: [2; 16],
            cluster_id: String::new(),
            facts: NodeFacts::default(),
            heartbeat: None,
        };
        let engine = Engine::new(identity, book, 1, Box::new(|_| b"from the file".to_vec()));
        let mut rig = Self {
            engine,
            now: Now { mono_ms: 1_000, wall_ms: 1_790_000_000_000 },
            epoch: 1,
            session: 0,
            synced: journal.len(),
            journal,
            sync_asked: None,
            started: Vec::new(),
            stopped: Vec::new(),
            registrations: Vec::new(),
            sent: Vec::new(),
            ending: None,
            asked: Vec::new(),
        };
        rig.handle(Input::Woken);
        rig
    }

    /// With an open session.
    fn connected() -> Self {
        let mut rig = Self::new();
        rig.connect();
        rig
    }

    fn connect(&mut self) {
        self.register();
        let session = SessionId(self.session);
        self.handle(Input::Opened { session });
    }

    fn register(&mut self) {
        assert!(!self.registrations.is_empty(), "it has not asked to register");
        self.session += 1;
        let reply = v1::RegisterNodeReply {
            session: self.session,
            leader_epoch: self.epoch,
            cluster_id: "cluster".to_owned(),
            heartbeat_ms: 1_000,
            secret: Some(v1::Secret { value: vec![7; 16] }),
            ..Default::default()
        };
        self.registrations.clear();
        self.handle(Input::Registered { reply: Box::new(reply), leader: "leader".to_owned() });
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let outputs = self.engine.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    Output::Append(records) => self.journal.extend(records),
                    Output::Sync { up_to } => self.sync_asked = Some(up_to),
                    Output::Start(work) => self.started.push(work.lease),
                    Output::Stop(lease) => self.stopped.push(lease),
                    Output::Register(registration) => self.registrations.push(*registration),
                    Output::Open { first, .. } => self.sent.push(*first),
                    Output::Send(message) => self.sent.push(*message),
                    Output::End(ending) => self.ending = Some(ending),
                    other => self.asked.push(other),
                }
            }
        }
    }

    /// The disk has caught up.
    fn sync(&mut self) {
        if let Some(up_to) = self.sync_asked.take() {
            self.synced = self.journal.len();
            self.handle(Input::Synced { up_to });
        }
    }

    /// Time passes, with every timer on the way.
    fn wait(&mut self, ms: u64) {
        let until_ms = self.now.mono_ms + ms;
        while let Some(at_ms) = self.engine.wake_at_mono_ms(self.now).filter(|at_ms| *at_ms <= until_ms) {
            self.now.mono_ms = at_ms;
            self.handle(Input::Woken);
        }
        self.now.mono_ms = until_ms;
        self.now.wall_ms += ms;
    }

    fn hear(&mut self, message: v1::ToWorker) {
        let message = Box::new(v1::ToWorker { leader_epoch: self.epoch, ..message });
        self.handle(Input::Received { session: SessionId(self.session), message });
    }

    /// The connection was interrupted, and the session goes on.
    fn resume(&mut self) {
        self.handle(Input::Resumed { session: SessionId(self.session) });
    }

    fn offer(&mut self, lease: LeaseKey, effect: EffectClass) {
        self.offer_in(self.session, lease, effect);
    }

    fn offer_in(&mut self, session: u64, lease: LeaseKey, effect: EffectClass) {
        let effect = v1::EffectClass::of(effect).into();
        let offers = vec![v1::Offer { lease: Some(lease.into()), session, effect, ..Default::default() }];
        self.hear(v1::ToWorker { offers, ..Default::default() });
    }

    fn revoke(&mut self, lease: LeaseKey) {
        self.hear(v1::ToWorker { revokes: vec![lease.into()], ..Default::default() });
    }

    fn grant(&mut self, lease: LeaseKey) {
        let kind = v1::BeginKind::Granted.into();
        let begun = vec![v1::BeginAnswer { lease: Some(lease.into()), kind, asked_ms: self.now.mono_ms }];
        self.hear(v1::ToWorker { begun, ..Default::default() });
    }

    fn answer(&mut self, lease: LeaseKey, kind: v1::AnswerKind) {
        let answers = vec![v1::Answer { lease: Some(lease.into()), kind: kind.into() }];
        self.hear(v1::ToWorker { answers, ..Default::default() });
    }

    fn end(&mut self, lease: LeaseKey, status: Status) {
        let ended = Ended { output_bytes: 4, ..Ended::without_run(status, "", self.now.wall_ms) };
        self.handle(Input::Lease(LeaseEvent::Ended { lease, ended, tail: b"said".to_vec() }));
    }

    /// What it has to say now.
    fn say(&mut self) -> v1::FromWorker {
        while self.engine.wants_to_speak(self.now) {
            self.handle(Input::UplinkFree { session: SessionId(self.session) });
        }
        self.sent.drain(..).fold(v1::FromWorker::default(), |mut all, message| {
            all.results.extend(message.results);
            all.revokes_done.extend(message.revokes_done);
            all.begins.extend(message.begins);
            all.accepted.extend(message.accepted);
            v1::FromWorker {
                heartbeat: message.heartbeat.or(all.heartbeat),
                outstanding: message.outstanding.or(all.outstanding),
                ..all
            }
        })
    }

    fn results(&mut self) -> Vec<(LeaseKey, v1::LeaseStatus)> {
        let results = self.say().results;
        results.iter().map(|result| (result.lease.unwrap().into(), result.status())).collect()
    }

    fn revokes_done(&mut self) -> Vec<(LeaseKey, v1::LeaseStatus)> {
        let done = self.say().revokes_done;
        done.iter().map(|done| (done.lease.unwrap().into(), done.ended())).collect()
    }

    fn begins(&mut self) -> Vec<LeaseKey> {
        self.say().begins.iter().map(|begin| begin.lease.unwrap().into()).collect()
    }

    fn unreachable(&mut self) {
        self.registrations.clear();
        self.handle(Input::NotRegistered(LinkError::Unreachable("nobody".to_owned())));
    }

    /// `kill -9`, and a new process.
    fn killed(self) -> Self {
        Self { epoch: self.epoch, session: self.session, ..Self::on(self.journal) }
    }

    /// A power cut takes what was not synced, and the machine starts again.
    fn power_cut(mut self) -> Self {
        self.journal.truncate(self.synced);
        self.killed()
    }
}

/// Nothing in the engine and the book does I/O, asks a clock, takes a lock, starts a task or draws a random number.
#[test]
fn issue15_the_engine_and_the_book_are_pure() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join("engine.rs")];
    for folder in ["engine", "engine/book"] {
        files.extend(std::fs::read_dir(source.join(folder)).unwrap().map(|file| file.unwrap().path()));
    }
    let forbidden = [
        "tokio",
        "std::sync",
        "std::time",
        "std::net",
        "std::fs",
        "std::thread",
        "getrandom",
        "async ",
        "HashMap",
        "HashSet",
    ];
    for file in files.iter().filter(|file| file.is_file() && !file.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        for word in forbidden {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
        let own = text.matches("crate::").count();
        let allowed = text.matches("crate::engine::").count();
        assert_eq!(own, allowed, "{}: it uses nothing else of the worker", file.display());
    }
}
