//! The load that attacks must not affect, and the checks during and after them.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use grid_testkit::spec::{job, pipeline, record};
use grid_testkit::{LIMIT, Record, Trio, ensure, procfs, wait_until};

pub const NODES: [&str; 3] = ["real-1", "real-2", "real-3"];
const MEMORY_MARGIN_KIB: u64 = 100 << 10;
const MEMORY_MARGIN_SHORT_KIB: u64 = 200 << 10;
/// Jobs before the level of memory is taken, in rounds: the long run's own jobs must not count as growth, so caches fill first.
const WARM_UP: usize = 30;
const LONG_WARM_UP_ROUNDS: usize = 20;

/// Jobs of `once` steps on the real workers, one after the other.
pub struct Load {
    lines: Record,
    accepted: Mutex<BTreeSet<String>>,
}

impl Load {
    pub fn new(trio: &Trio) -> Self {
        Self { lines: trio.record("lines"), accepted: Mutex::default() }
    }

    pub fn warm_up(&self, trio: &Trio, is_long: bool) {
        for round in 0..if is_long { LONG_WARM_UP_ROUNDS } else { 1 } {
            for i in 0..WARM_UP {
                self.submit(trio, &format!("warm-{round}-{i}"));
            }
            self.check(trio);
        }
    }

    pub fn run(&self, trio: &Trio, over: &AtomicBool) {
        for i in 0.. {
            if over.load(Ordering::Relaxed) {
                return;
            }
            self.submit(trio, &format!("load-{i}"));
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn submit(&self, trio: &Trio, key: &str) {
        let step = || record(&self.lines);
        let id = trio.submit(key, &job("group:real", [step(), pipeline([step(), step()])]));
        self.accepted.lock().expect("one submitter").insert(id);
    }

    /// Every acknowledged job completes; each step was recorded once on each node.
    pub fn check(&self, trio: &Trio) {
        let accepted = self.accepted.lock().expect("one submitter").clone();
        for id in &accepted {
            let ended = wait_until(&format!("the end of job {id}"), 3 * LIMIT, || {
                let job = trio.get(&format!("/job/{id}")).json();
                ensure(["completed", "failed", "cancelled"].iter().any(|s| job["status"] == *s), &job)?;
                Ok(job)
            });
            assert_eq!(ended["status"], "completed", "{ended}");
        }
        let lines = self.lines.lines();
        assert_eq!(self.lines.duplicates(), [], "a `once` step ran twice");
        assert_eq!(lines.len(), accepted.len() * 3 * NODES.len(), "each step of each job, once on each node");
        assert!(lines.iter().all(|line| accepted.contains(&line.job)), "a job that nobody submitted");
        println!("{} jobs completed", accepted.len());
    }
}

/// The state before the attack.
pub struct Watch {
    leader: String,
    epoch: u64,
    margin_kib: u64,
    memory_kib: Vec<(String, u64)>,
}

impl Watch {
    pub fn new(trio: &Trio, is_long: bool) -> Self {
        let leader = trio.wait_leader();
        let epoch = epoch(trio, &leader);
        let memory_kib = trio.servers.iter().map(|(id, server)| (id.clone(), memory_kib(server.pid())));
        let margin_kib = if is_long { MEMORY_MARGIN_KIB } else { MEMORY_MARGIN_SHORT_KIB };
        Self { leader, epoch, margin_kib, memory_kib: memory_kib.collect() }
    }

    /// The same leader in the same term, every process alive, memory near its level.
    pub fn check(&self, trio: &Trio) {
        assert_eq!(epoch(trio, &self.leader), self.epoch, "the leader was deposed");
        for (id, level) in &self.memory_kib {
            let now = memory_kib(trio.servers[id].pid());
            assert!(now > 0, "controller {id} has ended");
            assert!(now < level + self.margin_kib, "memory of {id}: {level} KiB before the attack, {now} KiB now");
        }
    }

    /// No panic in any log, no real worker replaced or gone, refusals counted.
    pub fn check_end(&self, trio: &mut Trio) {
        for (id, server) in &mut trio.servers {
            let log = server.process().log_text();
            assert!(!log.contains("panicked"), "{id} panicked");
            assert!(log.len() < 4 << 20, "the log of {id} has {} bytes", log.len());
        }
        for (id, worker) in &mut trio.workers {
            assert!(worker.process().is_running(), "worker {id} has ended");
            assert!(!worker.process().log_text().contains("panicked"), "{id} panicked");
        }
        let status = trio.api(&self.leader).get("/status").json();
        println!("refused by {}: {:#}", self.leader, status["refused"]);
        let refused = status["refused"].as_object().expect("refusals are counted");
        assert!(!refused.is_empty(), "{status}");
    }
}

fn epoch(trio: &Trio, leader: &str) -> u64 {
    // An attacked controller may answer late, but it must answer.
    let role = wait_until("the role of the leader", LIMIT, || Ok(trio.api(leader).try_get("/role")?.json()));
    assert_eq!(role["role"], "LEADER", "{role}");
    role["leader_epoch"].as_u64().expect("an epoch")
}

fn memory_kib(pid: u32) -> u64 {
    procfs::memory_kib(pid).unwrap_or(0)
}
