//! Simulates a machine with a worker: the real engine, and what it needs of a disk, a clock and processes.

use std::collections::BTreeMap;

use grid_types::node::{Capacity, NodeFacts};
use grid_types::{LeaseKey, SessionId};
use grid_worker::engine::book::{Book, Now};
use grid_worker::engine::record::Record;
use grid_worker::engine::{Engine, Identity};

const SLOTS: u32 = 3;

/// How a worker's process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Killed: what it wrote stays.
    Process,
    /// With the machine: what was written after the last sync may be lost.
    Machine,
}

pub struct Machine {
    pub name: String,
    pub engine: Engine,
    /// Everything that was appended, and how much of it is on disk.
    pub journal: Vec<Record>,
    pub durable: usize,
    /// Rises with every start of the worker.
    pub process: u64,
    pub is_up: bool,
    /// It handles nothing before this.
    pub frozen_until_ms: u64,
    pub session: Option<SessionId>,
    pub running: BTreeMap<LeaseKey, Running>,
    /// Only the newest wake-up counts.
    pub wake: u64,
    pub cluster_id: String,
    /// Each machine counts from another time.
    clock_offset_ms: u64,
}

/// A lease that the engine has started.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    /// Its process exists.
    pub is_forked: bool,
    pub is_stopped: bool,
}

impl Machine {
    pub fn new(number: usize) -> Self {
        let name = format!("w{}", number + 1);
        let engine = engine(&name, 1, "", Book::new(SLOTS));
        Self {
            name,
            engine,
            journal: Vec::new(),
            durable: 0,
            process: 1,
            is_up: true,
            frozen_until_ms: 0,
            session: None,
            running: BTreeMap::new(),
            wake: 0,
            cluster_id: String::new(),
            clock_offset_ms: 1_000_000 * (number as u64 + 1),
        }
    }

    pub fn now(&self, now_ms: u64) -> Now {
        Now { mono_ms: now_ms + self.clock_offset_ms, wall_ms: now_ms }
    }

    /// When the engine wants to be woken, in simulated time.
    pub fn wake_at_ms(&self, now_ms: u64) -> Option<u64> {
        let at_ms = self.engine.wake_at_mono_ms(self.now(now_ms))?;
        Some(at_ms.saturating_sub(self.clock_offset_ms))
    }

    /// The process is gone. `kept`: how many records of the journal are left.
    pub fn end(&mut self, kept: usize) {
        self.journal.truncate(kept);
        self.durable = self.durable.min(kept);
        self.is_up = false;
        self.process += 1;
        self.session = None;
        self.running.clear();
        self.frozen_until_ms = 0;
    }

    /// A new process reads the journal, as `grid_worker::start` does.
    pub fn start(&mut self) {
        let mut book = Book::new(SLOTS);
        for record in &self.journal {
            book.replay(record.clone());
        }
        book.recover();
        self.engine = engine(&self.name, self.process, &self.cluster_id, book);
        self.is_up = true;
    }
}

fn engine(name: &str, process: u64, cluster_id: &str, book: Book) -> Engine {
    let actions = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let mut journal_id = name.as_bytes().to_vec();
    journal_id.resize(16, 0);
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&process.to_be_bytes());
    nonce[8..8 + name.len()].copy_from_slice(name.as_bytes());
    let identity = Identity {
        node_id: name.parse().unwrap_or_else(|_| unreachable!("a name")),
        journal_id,
        boot: process,
        nonce,
        cluster_id: cluster_id.to_owned(),
        facts: NodeFacts {
            backends: [("ping".to_owned(), actions(&["echo"])), ("test".to_owned(), actions(&["record", "succeed"]))]
                .into(),
            capacity: Capacity { slots: SLOTS, ..Capacity::default() },
            ..NodeFacts::default()
        },
        heartbeat: None,
    };
    Engine::new(identity, book, process, Box::new(|_| Vec::new()))
}
