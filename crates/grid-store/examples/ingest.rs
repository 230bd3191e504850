//! How fast results are stored: 500 an entry over interleaved jobs, through `apply` and `persist`.
//!
//! `cargo run --release -p grid-store --example ingest -- [NODES] [JOBS] [same|distinct] [FOLDER]`
//! Only `persist` is timed; the processor time is that of the process, checkpoints included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grid_core::{
    BeginTerm, Command, Effect, Entry, EntryHead, Quotas, RecordResult, RegisterNode, RequestHash, State, SubmitJob,
    apply, pending_effects,
};
use grid_store::{Position, ResultFilter, Store};
use grid_types::decl::EffectClass;
use grid_types::job::{Condition, JobSpec, Phase, Target, Task};
use grid_types::node::{Capacity, NodeFacts};
use grid_types::{JobId, JobRef, LeaseKey, NodeOrd, Outcome};

const RESULTS_PER_ENTRY: usize = 500;

struct Bench {
    state: State,
    store: Store,
    index: u64,
    took: Vec<Duration>,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let nodes: u32 = args.next().map_or(2_000, |text| text.parse().expect("NODES is a number"));
    let jobs: u32 = args.next().map_or(64, |text| text.parse().expect("JOBS is a number"));
    let distinct = args.next().is_some_and(|word| word == "distinct");
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder).expect("a temporary folder");
    let (store, _) = Store::open(&folder.path().join("grid.db")).expect("a new store");
    let mut bench = Bench { state: State::default(), store, index: 0, took: Vec::new() };
    let leases = bench.prepare(nodes, jobs);
    println!("{} leases out", leases.len());
    bench.took.clear();
    let cpu = cpu_ms();
    // The rest is for the time of the copy.
    let (leases, rest) = leases.split_at(leases.len() * 3 / 4);
    for (entry, chunk) in leases.chunks(RESULTS_PER_ENTRY).enumerate() {
        bench.results(chunk, entry, distinct);
    }
    let cpu = cpu_ms() - cpu;
    bench.took.sort();
    let total: Duration = bench.took.iter().sum();
    let at = |percent: usize| bench.took[(bench.took.len() - 1) * percent / 100];
    println!(
        "{} results, {} a second in persist, {:.1} µs of processor a result (apply included), \
         a persist of {RESULTS_PER_ENTRY}: p50 {:?} p99 {:?} max {:?}",
        leases.len(),
        leases.len() as u128 * 1_000_000 / total.as_micros().max(1),
        cpu * 1_000.0 / leases.len() as f64,
        at(50),
        at(99),
        at(100),
    );
    bench.copy_beside(&folder.path().join("copy"), rest, distinct);
    let reader = bench.store.reader();
    let job = JobRef { namespace: "default".parse().expect("a name"), id: job_id(1) };
    let began = Instant::now();
    let row = reader.job(&job).expect("a read").expect("a job");
    println!("a job over {} nodes: {:?}, {}", row.expected_count, began.elapsed(), row.status);
    let began = Instant::now();
    let page = reader.results(&job, 1_000, None, ResultFilter::default()).expect("a read").expect("a job");
    println!("a page of {} rows: {:?}", page.items.len(), began.elapsed());
}

impl Bench {
    /// Nodes, jobs, and every lease of every job, interleaved and out of order.
    fn prepare(&mut self, nodes: u32, jobs: u32) -> Vec<(NodeOrd, LeaseKey)> {
        let quotas = Quotas { max_concurrent: jobs, max_pending: jobs, ..Quotas::default() };
        let (leader, api_url) = ("c1".parse().expect("a name"), String::new());
        let (grpc_addr, cluster_id) = (String::new(), "bench".to_owned());
        self.apply(vec![Command::BeginTerm(BeginTerm {
            term: 1,
            leader,
            api_url,
            grpc_addr,
            quotas,
            cluster_id,
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        })]);
        let ids: Vec<u32> = (1..=nodes).collect();
        for chunk in ids.chunks(512) {
            self.apply(chunk.iter().map(|i| register(*i, jobs)).collect());
        }
        for id in 1..=u64::from(jobs) {
            let (id, namespace, spec) = (job_id(id), "default".parse().expect("a name"), one_step());
            self.apply(vec![Command::SubmitJob(SubmitJob {
                id,
                namespace,
                spec,
                key: None,
                plan: None,
                request: RequestHash::default(),
            })]);
        }
        let mut leases: Vec<_> = pending_effects(&self.state)
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Offer(offer) => Some((offer.node, offer.lease)),
                _ => None,
            })
            .collect();
        leases.sort_by_key(|(node, lease)| {
            blake3::hash(&[lease.job.0.to_le_bytes(), u64::from(node.0).to_le_bytes()].concat()).as_bytes()[..8]
                .to_vec()
        });
        leases
    }

    fn results(&mut self, chunk: &[(NodeOrd, LeaseKey)], entry: usize, distinct: bool) {
        let commands = chunk.iter().enumerate().map(|(i, lease)| self.result(*lease, entry, i, distinct)).collect();
        self.apply(commands);
    }

    /// Stores results while a copy is written, as a snapshot does.
    fn copy_beside(&mut self, path: &Path, leases: &[(NodeOrd, LeaseKey)], distinct: bool) {
        self.took.clear();
        let began = Instant::now();
        let pinned = self.store.pin().expect("pinned");
        let took_hold = began.elapsed();
        let whole = std::thread::scope(|scope| {
            let copying = scope.spawn(|| pinned.write_copy(path).map(|()| began.elapsed()));
            for (entry, chunk) in leases.chunks(RESULTS_PER_ENTRY).enumerate() {
                if copying.is_finished() {
                    break;
                }
                self.results(chunk, usize::MAX - entry, distinct);
            }
            copying.join().expect("joined").expect("a copy")
        });
        println!(
            "a copy of {} MiB: taken hold of in {took_hold:?}, written in {whole:?}; meanwhile {} entries were stored, the \
             longest in {:?}",
            path.metadata().map_or(0, |m| m.len() >> 20),
            self.took.len(),
            self.took.iter().max().copied().unwrap_or_default(),
        );
    }

    fn result(&self, (node, lease): (NodeOrd, LeaseKey), entry: usize, i: usize, distinct: bool) -> Command {
        let output = if distinct { format!("output {entry} {i}\n") } else { "pong\n".to_owned() };
        Command::RecordResult(RecordResult {
            node,
            session: self.state.nodes[&node].session,
            lease,
            outcome: Outcome::Success,
            error: None,
            output_bytes: output.len() as u64,
            output_truncated: false,
            detail: None,
            output_tail: output.into_bytes(),
            duration_ms: 12,
            started_wall_ms: 1_790_000_000_000,
        })
    }

    fn apply(&mut self, commands: Vec<Command>) {
        self.index += 1;
        let epoch = self.state.meta.leadership.epoch;
        let count = u32::try_from(commands.len()).expect("small");
        let head = EntryHead { epoch, term: 1, now_ms: self.index, wall_ms: 1_790_000_000_000, commands: count };
        let applied = apply(&mut self.state, &Entry { head, commands });
        assert!(applied.replies.iter().all(Result::is_ok), "a command was refused");
        let began = Instant::now();
        let at = Position { term: 1, index: self.index };
        self.store.persist(&self.state, &[applied.changes], at, None).expect("a write");
        self.took.push(began.elapsed());
    }
}

fn job_id(i: u64) -> JobId {
    JobId::mint(1_790_000_000_000 + i, 77, None)
}

fn register(i: u32, slots: u32) -> Command {
    Command::RegisterNode(RegisterNode {
        id: format!("node-{i}").parse().expect("a name"),
        facts: NodeFacts {
            backends: [("ping".to_owned(), ["echo".to_owned()].into())].into(),
            capacity: Capacity { slots, ..Capacity::default() },
            ..NodeFacts::default()
        },
        journal_id: i.to_le_bytes().to_vec(),
        boot: 1,
        nonce: vec![1],
        known_session_lives: false,
        agent: false,
        outstanding: Vec::new(),
        unstarted: Vec::new(),
        secret: None,
    })
}

fn one_step() -> JobSpec {
    let task = Task {
        backend: "ping".to_owned(),
        action: "echo".to_owned(),
        params: BTreeMap::new(),
        condition: Condition::Always,
        max_retries: 0,
        timeout: None,
        timeout_ms: 300_000,
        effect: EffectClass::Pure,
    };
    JobSpec::new(Target::All, vec![Phase::leaf(task)])
}

/// User and system time of this process; 0 where there is no /proc.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = behind_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    fields.iter().sum::<f64>() * 10.0
}
