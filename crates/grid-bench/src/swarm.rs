//! Runs thousands of worker sessions in a few processes: one side of every benchmark.
//!
//! ```text
//!   benchmark ──stdin: "counts"──► swarm process ──stdout: "swarm counts {…}"──►
//!                                   └─ N peers, a connection each, on one thread
//! ```
//!
//! One thread per process: on a small machine the sessions of a swarm compete with what is measured, and a runtime that
//! moves them between threads costs more than it gains.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{Semaphore, mpsc};

use crate::args::SwarmArgs;
use crate::nats;
use crate::process::Process;
use crate::swarm_counts::{Counters, Counts};
use crate::swarm_peer::{Directory, Peer};

/// Sessions of one process: well within the files that a process may open.
const PER_PROCESS: u32 = 5_000;
/// What a process opens besides its sessions.
const OTHER_FILES: u64 = 256;
/// Registrations under way in one process.
const AT_ONCE: usize = 128;

/// The processes of a swarm, as the benchmark sees them.
pub struct Swarm {
    processes: Vec<Process>,
}

impl Swarm {
    /// `to`: how the sessions find their controller, as arguments. Returns when every session is open.
    pub async fn start(name: &str, to: &[&str], sessions: u32, log_dir: &std::path::Path) -> anyhow::Result<Self> {
        enough_files(sessions)?;
        // A large swarm has two: one core must not limit the sessions more than those of the baseline.
        let count = sessions.div_ceil(PER_PROCESS).max(if sessions >= 1_000 { 2 } else { 1 });
        let mut processes = Vec::new();
        let mut first = 0;
        for number in 0..count {
            let share = (sessions - first) / (count - number);
            let mut args = vec!["bench".to_owned(), "swarm".to_owned()];
            args.extend(to.iter().map(ToString::to_string));
            args.extend(["--first".to_owned(), first.to_string(), "--sessions".to_owned(), share.to_string()]);
            processes.push(Process::start(&format!("{name}-{number}"), &args, log_dir)?);
            first += share;
        }
        for process in &mut processes {
            process.says("swarm ready").await?;
        }
        Ok(Self { processes })
    }

    pub async fn counts(&mut self) -> anyhow::Result<Counts> {
        let mut sum = Counts::default();
        for process in &mut self.processes {
            process.tell("counts").await?;
            let line = process.says("swarm counts ").await?;
            let counts: Counts = serde_json::from_str(line.trim_start_matches("swarm counts "))?;
            sum.sessions += counts.sessions;
            sum.runs += counts.runs;
            sum.committed += counts.committed;
            sum.superseded += counts.superseded;
            sum.offered_again += counts.offered_again;
        }
        Ok(sum)
    }
}

/// The controller, or the baseline in its place, needs a file for every session; it inherits the limit of this process.
fn enough_files(sessions: u32) -> anyhow::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let needed = u64::from(sessions) + OTHER_FILES;
    anyhow::ensure!(
        limit.is_none_or(|limit| limit >= needed),
        "{sessions} sessions need {needed} open files in one process, and this machine allows {}; raise the hard limit \
         (ulimit -Hn), or ask for fewer --workers",
        limit.unwrap_or_default()
    );
    Ok(())
}

/// Runs one process of a swarm until its stdin ends.
pub async fn run(args: SwarmArgs) -> anyhow::Result<ExitCode> {
    let counters = Arc::new(Counters::default());
    let shared = Arc::clone(&counters);
    let (opened, mut openings) = mpsc::unbounded_channel();
    let sessions = args.sessions;
    let directory = Arc::new(Directory::new(&args)?);
    let thread = std::thread::Builder::new().name("swarm".to_owned());
    // It ends with the process, when its stdin ends.
    let sessions_thread = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        if let Err(error) = runtime.block_on(live(&args, shared, directory, opened)) {
            crate::say::err(format_args!("the sessions have ended: {error:#}"));
        }
    })?;
    for _ in 0..sessions {
        openings.recv().await.ok_or_else(|| anyhow!("the sessions ended"))?;
    }
    crate::say::out(format_args!("swarm ready"));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.context("cannot hear the benchmark")? {
        if sessions_thread.is_finished() {
            bail!("the sessions have ended");
        }
        if line == "counts" {
            crate::say::out(format_args!("swarm counts {}", serde_json::to_string(&counters.read())?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the sessions of this process; each reports once that it is open.
async fn live(
    args: &SwarmArgs,
    counters: Arc<Counters>,
    directory: Arc<Directory>,
    opened: mpsc::UnboundedSender<()>,
) -> anyhow::Result<()> {
    if let (Some(kind), Some(url)) = (args.baseline, &args.nats) {
        let ready = move || {
            let _ = opened.send(());
        };
        return nats::workers(kind, url, args, ready).await;
    }
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut peers = tokio::task::JoinSet::new();
    for number in args.first..args.first + args.sessions {
        let peer = Peer::new(number, Arc::clone(&counters), Arc::clone(&directory), Arc::clone(&turns));
        peers.spawn(peer.live(opened.clone()));
    }
    while peers.join_next().await.is_some() {}
    Ok(())
}
