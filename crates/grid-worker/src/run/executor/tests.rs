//! Leases with backends made of closures and real processes: how they end, are stopped, time out and are abandoned.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use grid_proto::v1;
use grid_types::clock::{Clock, SystemClock};
use grid_types::decl::{EffectClass, Params};
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};
use tokio::sync::mpsc;

use super::Executor;
use crate::data_dir::WorkFolders;
use crate::data_dir::output::Outputs;
use crate::engine::book::{LeaseEvent, Work};
use crate::engine::record::{Ended, Group, Status};
use crate::machine::SystemProcesses;
use crate::run::backends::{Backend, Backends, Run};
use crate::run::lease::{EffectGate, LeaseContext, Surroundings, blocking_places};
use crate::seams::{Processes, Signal};

const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };

/// A clock that has gone for a minute.
struct MinuteLater(SystemClock);

impl Clock for MinuteLater {
    fn mono_ms(&self) -> u64 {
        self.0.mono_ms() + 60_000
    }

    fn wall_ms(&self) -> u64 {
        self.0.wall_ms()
    }
}

/// A backend made of a closure.
struct Does<F>(F);

impl<F, R> Backend for Does<F>
where
    F: Fn(Arc<LeaseContext>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), String>> + Send + 'static,
{
    fn run(&self, context: Arc<LeaseContext>, _: String, _: Params) -> Run {
        Box::pin((self.0)(context))
    }
}

struct Rig {
    executor: Executor,
    events: mpsc::Receiver<LeaseEvent>,
    outputs: Arc<Outputs>,
    dir: tempfile::TempDir,
}

impl Rig {
    fn start(backend: impl Backend, timeout_ms: u64) -> Self {
        Self::start_as(EffectClass::Idempotent, backend, timeout_ms)
    }

    fn start_as(effect: EffectClass, backend: impl Backend, timeout_ms: u64) -> Self {
        Self::start_by(None, effect, backend, timeout_ms)
    }

    fn start_by(start_by_mono_ms: Option<u64>, effect: EffectClass, backend: impl Backend, timeout_ms: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let work = WorkFolders::new(dir.path());
        Self::start_in(dir, work, start_by_mono_ms, effect, backend, timeout_ms)
    }

    fn start_in(
        dir: tempfile::TempDir,
        work: WorkFolders,
        start_by_mono_ms: Option<u64>,
        effect: EffectClass,
        backend: impl Backend,
        timeout_ms: u64,
    ) -> Self {
        let outputs = Arc::new(Outputs::new(dir.path()));
        let surroundings = Surroundings {
            node_id: "web-01".parse().unwrap(),
            folder_mark: folder_mark(dir.path()),
            environment: crate::run::environment::Environment::new(&[]).unwrap(),
            work,
            processes: Arc::new(SystemProcesses::new()),
            outputs: Arc::clone(&outputs),
            clock: Arc::new(MinuteLater(SystemClock::new())),
            blocking_calls: blocking_places(),
        };
        let backends = Backends::single(Box::new(backend));
        let (sender, events) = mpsc::channel(8);
        let mut executor = Executor::new(Arc::new(surroundings), backends, sender, grid_tasks::Tasks::default());
        let (backend, action) = ("ping".to_owned(), "echo".to_owned());
        let (lease, effect) = (Some(LEASE.into()), v1::EffectClass::of(effect).into());
        let offer = v1::Offer { lease, backend, action, effect, timeout_ms, ..Default::default() };
        executor.start(Work { lease: LEASE, offer, started_at_ms: 1, start_by_mono_ms });
        Self { executor, events, outputs, dir }
    }

    async fn event(&mut self) -> LeaseEvent {
        tokio::time::timeout(Duration::from_secs(30), self.events.recv()).await.expect("nothing happens").unwrap()
    }

    async fn forked(&mut self) -> Group {
        match self.event().await {
            LeaseEvent::Forked { group, .. } => group,
            other => panic!("{other:?}"),
        }
    }

    async fn ended(&mut self) -> (Ended, Vec<u8>) {
        match self.event().await {
            LeaseEvent::Ended { ended, tail, .. } => (ended, tail),
            other => panic!("{other:?}"),
        }
    }
}

fn folder_mark(dir: &Path) -> String {
    dir.file_name().unwrap().to_str().unwrap().to_owned()
}

fn shell(script: &'static str) -> impl Backend {
    Does(move |context: Arc<LeaseContext>| async move {
        context.run("/bin/sh", vec!["-c".to_owned(), script.to_owned()]).await
    })
}

#[tokio::test]
async fn w3_what_was_allowed_to_start_too_long_ago_does_not() {
    let runs = || Does(|_| async { Ok(()) });
    let mut rig = Rig::start_by(Some(u64::MAX), EffectClass::Once, runs(), 60_000);
    assert_eq!(rig.ended().await.0.status, Status::Success);
    let mut rig = Rig::start_by(Some(59_999), EffectClass::Once, runs(), 60_000);
    let LeaseEvent::Late { work } = rig.event().await else { panic!("it started") };
    assert_eq!(work.lease, LEASE);
}

#[tokio::test]
async fn a_backend_that_panics_fails_its_lease() {
    let mut rig = Rig::start(Does(|_| async { panic!("on purpose") }), 60_000);
    let (ended, _) = rig.ended().await;
    assert_eq!((ended.status, ended.error.contains("panicked")), (Status::Failed, true));
}

#[tokio::test]
async fn the_exit_of_a_program_decides() {
    for (script, error) in [("exit 3", "sh: exit 3"), ("kill -9 $$", "sh: killed by signal 9")] {
        let mut rig = Rig::start(shell(script), 60_000);
        rig.forked().await;
        assert_eq!(rig.ended().await.0.error, error);
    }
    let missing = Does(|context: Arc<LeaseContext>| async move { context.run("/no/such", Vec::new()).await });
    let mut rig = Rig::start(missing, 60_000);
    assert!(rig.ended().await.0.error.starts_with("cannot start /no/such"));
}

/// A large tree, or a mount that hangs.
#[tokio::test]
async fn w3_w9_an_outcome_does_not_wait_for_the_removal_of_its_working_folder() {
    let (go, gate) = blocking::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let dir = tempfile::tempdir().unwrap();
    let removes = move |folder: &Path| {
        // Notified, or the test is over.
        let _ = gate.lock().unwrap().recv();
        grid_folder::remove_tree(folder)
    };
    let work = WorkFolders::with(dir.path(), removes);
    let mut rig = Rig::start_in(dir, work, None, EffectClass::Once, shell("echo x >file"), 60_000);
    rig.forked().await;
    assert_eq!(rig.ended().await.0.status, Status::Success);
    let folders = || std::fs::read_dir(rig.dir.path().join("work")).unwrap().count();
    assert_eq!(folders(), 1);
    drop(go);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while folders() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "not removed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_a_program_leaves_in_its_group_ends_with_the_lease() {
    let mut rig = Rig::start(shell("sleep 600 & echo started"), 60_000);
    let group = rig.forked().await;
    let (ended, tail) = rig.ended().await;
    assert_eq!((ended.status, tail.as_slice()), (Status::Success, &b"started\n"[..]));
    assert!(!SystemProcesses::new().is_alive(group, None));
}

#[tokio::test]
async fn a_daemon_outlives_a_successful_lease_but_not_a_stopped_one() {
    let daemon = "setsid sh -c 'echo away; exec sleep 600 >/dev/null 2>&1' & ";
    let processes = SystemProcesses::new();
    let mut rig = Rig::start(shell(Box::leak(format!("{daemon} sleep 0.2").into_boxed_str())), 60_000);
    let group = rig.forked().await;
    assert_eq!(rig.ended().await.1, b"away\n");
    let mark = format!("{}/{LEASE}", folder_mark(rig.dir.path()));
    assert!(processes.is_alive(group, Some(&mark)));
    while processes.is_alive(group, Some(&mark)) {
        processes.signal(group, Some(&mark), Signal::Kill);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut rig = Rig::start(shell(Box::leak(format!("{daemon} sleep 600").into_boxed_str())), 60_000);
    let group = rig.forked().await;
    let mark = format!("{}/{LEASE}", folder_mark(rig.dir.path()));
    rig.executor.stop(&LEASE);
    assert_eq!(rig.ended().await.0.status, Status::Cancelled);
    assert!(!processes.is_alive(group, Some(&mark)));
}

#[tokio::test]
async fn w9_a_stopped_program_hears_sigterm_first_and_may_say_goodbye() {
    let mut rig = Rig::start(shell("trap 'echo goodbye; exit' TERM; echo ready; sleep 600 & wait"), 60_000);
    rig.forked().await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let written =
        |outputs: &Outputs| outputs.live(&LEASE).and_then(|live| live.whole()).map(std::io::Cursor::into_inner);
    while written(&rig.outputs).as_deref() != Some(b"ready\n") {
        assert!(tokio::time::Instant::now() < deadline, "does not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    rig.executor.stop(&LEASE);
    let (ended, tail) = rig.ended().await;
    assert_eq!((ended.status, tail.as_slice()), (Status::Cancelled, &b"ready\ngoodbye\n"[..]));
}

#[tokio::test]
async fn issue15_2_a_short_output_touches_the_disk_only_if_its_lease_runs_for_a_while() {
    let says = |until_told: Arc<tokio::sync::Notify>| {
        Does(move |context: Arc<LeaseContext>| {
            let told = Arc::clone(&until_told);
            async move {
                context.write(b"said\n");
                told.notified().await;
                Ok(())
            }
        })
    };
    let go = Arc::new(tokio::sync::Notify::new());
    go.notify_one();
    let mut quick = Rig::start(says(Arc::clone(&go)), 60_000);
    assert_eq!(quick.ended().await.1, b"said\n");
    assert_eq!(std::fs::read_dir(quick.dir.path()).unwrap().count(), 0, "neither an output nor a working folder");
    let mut slow = Rig::start(says(Arc::clone(&go)), 60_000);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while slow.outputs.tail(&LEASE) != b"said\n" {
        assert!(tokio::time::Instant::now() < deadline, "a worker that is killed leaves nothing behind");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    go.notify_one();
    assert_eq!(slow.ended().await.1, b"said\n");
}

#[tokio::test]
async fn w9_a_blocking_call_is_never_cut_off() {
    let Stuck { mut rig, go, .. } = stuck(Hangs::InEffect, EffectClass::Once, 60_000).await;
    rig.executor.stop(&LEASE);
    // The lease is being stopped; it must not be over while the call runs.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(rig.events.try_recv().is_err(), "over while it still runs");
    go.send(()).unwrap();
    assert_eq!(rig.ended().await.0.status, Status::Cancelled);
}

/// Where a blocking call hangs.
#[derive(Clone, Copy)]
enum Hangs {
    BeforeEffect,
    InEffect,
}

/// A lease in a blocking call which goes on when the test says so.
struct Stuck {
    rig: Rig,
    go: blocking::Sender<()>,
    /// Whether the call took effect, once it has returned.
    effect: blocking::Receiver<bool>,
}

async fn stuck(hangs: Hangs, effect: EffectClass, timeout_ms: u64) -> Stuck {
    let (go, gate) = blocking::channel::<()>();
    let (sender, started) = blocking::channel::<()>();
    let (done, took_effect) = blocking::channel::<bool>();
    let seams = std::sync::Mutex::new(Some((gate, sender, done)));
    let backend = Does(move |context: Arc<LeaseContext>| {
        let (gate, started, done) = seams.lock().unwrap().take().expect("runs once");
        let hang = move || {
            started.send(()).unwrap();
            // Notified, or the test is over.
            let _ = gate.recv();
        };
        let call = move |gate: &EffectGate| {
            let entered = match hangs {
                Hangs::BeforeEffect => {
                    hang();
                    gate.enter()
                }
                Hangs::InEffect => gate.enter().inspect(|_| hang()),
            };
            // The test may be over.
            let _ = done.send(entered.is_ok());
            entered.map(drop)
        };
        async move { context.block(call).await? }
    });
    let rig = Rig::start_as(effect, backend, timeout_ms);
    let running = tokio::task::spawn_blocking(move || started.recv_timeout(Duration::from_secs(30)));
    running.await.unwrap().expect("does not start");
    Stuck { rig, go, effect: took_effect }
}

#[test]
fn w6_w9_a_blocking_call_that_does_not_come_back_is_abandoned() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gates = runtime.block_on(async {
        let mut stopped = stuck(Hangs::InEffect, EffectClass::Once, 60_000).await;
        stopped.rig.executor.stop(&LEASE);
        // Long enough to start in.
        let mut late = stuck(Hangs::InEffect, EffectClass::Once, 2_000).await;
        let mut again = stuck(Hangs::InEffect, EffectClass::Idempotent, 2_000).await;
        let mut cancelled = stuck(Hangs::InEffect, EffectClass::Pure, 60_000).await;
        cancelled.rig.executor.stop(&LEASE);
        let ended = stopped.rig.ended().await.0;
        assert_eq!(ended.status, Status::Unknown);
        assert!(ended.error.starts_with("it was stopped, but") && ended.error.contains("may still"), "{}", ended.error);
        for late in [&mut late, &mut again] {
            let ended = late.rig.ended().await.0;
            assert_eq!((ended.status, ended.error.starts_with("timed out after 2s, but")), (Status::Unknown, true));
        }
        assert_eq!(cancelled.rig.ended().await.0.status, Status::Cancelled);
        [stopped.go, late.go, again.go, cancelled.go]
    });
    // The end of the worker does not wait for them either.
    let (sender, over) = blocking::channel();
    std::thread::spawn(move || {
        drop(runtime);
        sender.send(()).unwrap();
    });
    over.recv_timeout(Duration::from_secs(30)).expect("the runtime waits for abandoned calls");
    drop(gates);
}

#[tokio::test]
async fn w9_a_call_that_hangs_before_its_effect_never_takes_effect_after_the_lease_is_over() {
    for effect in [EffectClass::Once, EffectClass::Idempotent] {
        let mut stopped = stuck(Hangs::BeforeEffect, effect, 60_000).await;
        stopped.rig.executor.stop(&LEASE);
        assert_eq!(stopped.rig.ended().await.0.status, Status::Cancelled, "nothing was changed, and nothing will be");
        stopped.go.send(()).unwrap();
        assert_eq!(stopped.effect.recv_timeout(Duration::from_secs(30)), Ok(false));
    }
}

#[tokio::test]
async fn a_long_error_is_cut_between_characters() {
    let backend = Does(|_| async { Err(format!("x{}", "ü".repeat(10_000))) });
    let (ended, _) = Rig::start(backend, 60_000).ended().await;
    assert_eq!(ended.error.len(), 4 * 1024 - 1);
}
