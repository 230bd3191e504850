//! Starts a worker from its configuration: locks the folder, reads the journal, ends what an earlier process left, runs.
//!
//! W1: a journal that is damaged is given up like one that is lost, with a warning: under a new `journal_id` the leader
//! counts outstanding `once` leases as unknown, and none runs twice. What can still be read of it serves only to end what
//! it started.

#[cfg(test)]
mod fixtures;
mod left_over;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use grid_fabric::{Broker, Dialer, GrpcDialer};
use grid_tasks::Tasks;
use grid_types::NodeId;
use tokio::sync::{mpsc, watch};

use crate::config::{Ready, WorkerConfig};
use crate::data_dir::WorkFolders;
use crate::data_dir::folder::{Folder, KnownJournal};
use crate::data_dir::journal::{Journal, JournalError};
use crate::data_dir::output::Outputs;
use crate::engine::book::Book;
use crate::engine::record::Record;
use crate::engine::{Engine, Identity};
use crate::error::WorkerError;
use crate::machine::{HttpDirectory, host};
use crate::run::backends::Backends;
use crate::run::environment::Environment;
use crate::run::executor::Executor;
use crate::run::lease::{Surroundings, blocking_places, read_mark};
use crate::seams::{Directory, Host, Processes, Seams};
use crate::session::connect::{ByBroker, Connector, Way};
use crate::session::facts;
use crate::session::logs::LogAnswers;
use crate::session::wires::Wires;
use crate::shutdown::Shutdown;
use crate::worker::Worker;
use crate::worker::inbox::Inbox;
pub use left_over::{LeftOver, end_left_over};

/// Events of leases that wait for the loop.
const EVENTS: usize = 1024;
/// SIGKILL takes effect in no time, unless a process hangs in the kernel.
const LEFT_OVER_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of a worker waits for the removal of working folders.
const REMOVAL_LIMIT: Duration = Duration::from_secs(1);
const LEFT_OVER_PAUSE: Duration = Duration::from_millis(5);

/// Runs a worker on this machine until it is asked to stop. `ready` is called once, when it is registered.
pub async fn run(
    config: WorkerConfig,
    shutdown: Shutdown,
    ready: impl FnOnce(Ready) + Send + 'static,
) -> Result<(), WorkerError> {
    let seams = Seams { host: host(), dialer: GrpcDialer, directory: HttpDirectory };
    run_with(config, seams, shutdown, ready).await
}

/// The same through a broker, which knows where the leader is.
pub async fn run_by(
    config: WorkerConfig,
    broker: impl Broker,
    shutdown: Shutdown,
    ready: impl FnOnce(Ready) + Send + 'static,
) -> Result<(), WorkerError> {
    run_on(config, host(), |node| ByBroker { broker, node }, shutdown, ready).await
}

/// Runs a worker through the given seams.
pub async fn run_with<D: Dialer, R: Directory>(
    config: WorkerConfig,
    seams: Seams<D, R>,
    shutdown: Shutdown,
    ready: impl FnOnce(Ready) + Send + 'static,
) -> Result<(), WorkerError> {
    let Seams { host, dialer, directory } = seams;
    let servers = config.servers.clone();
    if servers.is_empty() {
        return Err(WorkerError::Config("name at least one controller: --server http://HOST:PORT".to_owned()));
    }
    let way = |_| Connector { dialer, directory, servers, learned: std::sync::Mutex::default() };
    run_on(config, host, way, shutdown, ready).await
}

/// `way`: to the leader, for the node of the data folder.
async fn run_on<W: Way>(
    config: WorkerConfig,
    host: Host,
    way: impl FnOnce(NodeId) -> W,
    shutdown: Shutdown,
    ready: impl FnOnce(Ready) + Send + 'static,
) -> Result<(), WorkerError> {
    let environment = Environment::new(&config.pass_env).map_err(WorkerError::Config)?;
    let (enable, disable) = (&config.enable_backends, &config.disable_backends);
    let backends = Backends::new(enable, disable, &config.data_dir, &environment, &config.allow);
    let backends = backends.map_err(WorkerError::Config)?;
    let unlucky = |error: io::Error| WorkerError::Config(error.to_string());
    let nonce = host.random.id().map_err(unlucky)?;
    let seed = host.random.number().map_err(unlucky)?;
    let known = if config.reset_journal { KnownJournal::Reset } else { KnownJournal::Keep };
    let mut folder = Folder::open(&config.data_dir, config.node_id.as_ref(), known, &*host.random)?;
    let facts = facts::gather(&config, backends.facts());
    let mut book = Book::new(facts.capacity.slots);
    let tasks = Tasks::default();
    let (sender, synced) = watch::channel(Ok(0));
    let sender = Arc::new(sender);
    let reported = move |done: io::Result<u64>| drop(sender.send_replace(done.map_err(Arc::new)));
    let journal = open_journal(&mut folder, &mut book, &host, reported).await?;
    book.recover();

    let work = WorkFolders::new(&config.data_dir);
    work.watched_by(&tasks);
    if let Err(error) = work.clear() {
        tracing::warn!(%error, "working folders of an earlier process cannot be listed");
    }
    let outputs = Arc::new(Outputs::new(&config.data_dir));
    for (lease, started_at_ms, output) in book.outputs() {
        outputs.restore(lease, started_at_ms, output);
    }
    let surroundings = Arc::new(Surroundings {
        node_id: folder.node_id().clone(),
        folder_mark: folder.journal_id().to_owned(),
        environment,
        work,
        processes: host.processes,
        outputs: Arc::clone(&outputs),
        clock: Arc::clone(&host.clock),
        blocking_calls: blocking_places(),
    });
    let (events_in, events) = mpsc::channel(EVENTS);
    let identity = Identity {
        node_id: folder.node_id().clone(),
        journal_id: folder.journal_id_bytes(),
        boot: folder.boot(),
        nonce,
        cluster_id: folder.cluster_id().to_owned(),
        facts,
        heartbeat: config.heartbeat,
    };
    let tails = Arc::clone(&outputs);
    let worker = Worker {
        engine: Engine::new(identity, book, seed, Box::new(move |lease| tails.tail(lease))),
        wires: Wires::new(way(folder.node_id().clone()), folder.node_id().to_string()),
        folder,
        journal,
        executor: Executor::new(Arc::clone(&surroundings), backends, events_in, tasks.clone()),
        inbox: Inbox { events, synced, shutdown },
        logs: LogAnswers::new(Arc::clone(&outputs), tasks.clone()),
        outputs,
        clock: host.clock,
        ready: Some(Box::new(ready)),
        tasks: tasks.clone(),
    };
    let ended = worker.run().await;
    tasks.stopping();
    surroundings.work.removed_within(REMOVAL_LIMIT).await;
    ended
}

/// Fills the book, and returns only when no process of an earlier run is left.
pub(crate) async fn open_journal(
    folder: &mut Folder,
    book: &mut Book,
    host: &Host,
    synced: impl Fn(io::Result<u64>) + Clone + Send + 'static,
) -> Result<Journal, WorkerError> {
    give_up_replaced(folder, host).await?;
    let open = |folder: &Folder| {
        let disk = (host.disk)(folder.journal_path());
        Journal::open(disk, Arc::clone(&host.random), host.processes.machine_boot(), synced.clone())
    };
    let (journal, records) = match open(folder) {
        Err(JournalError::Damaged(damage)) => {
            tracing::warn!(
                "the journal is damaged ({damage}) and given up: outstanding once-only steps of this node count as \
                 unknown; what is left of it is in journal.old"
            );
            folder.replace_journal_id(&*host.random)?;
            give_up_replaced(folder, host).await?;
            open(folder)?
        }
        opened => opened?,
    };
    replay(book, records);
    end_processes(&host.processes, folder.journal_id(), book).await?;
    Ok(journal)
}

/// The new id is on disk already; now the old journal has to go, and before it what it knows to be running.
async fn give_up_replaced(folder: &mut Folder, host: &Host) -> Result<(), WorkerError> {
    let Some(previous) = folder.replaced_journal_id() else { return Ok(()) };
    let mut disk = (host.disk)(folder.journal_path());
    let mut given_up = Book::new(1);
    replay(&mut given_up, Journal::salvage(&mut *disk));
    end_processes(&host.processes, previous, &given_up).await?;
    disk.set_aside().map_err(JournalError::Io)?;
    Ok(folder.journal_is_replaced()?)
}

fn replay(book: &mut Book, records: Vec<Record>) {
    for record in records {
        book.replay(record);
    }
}

/// W1: ends every process that carries this folder's mark, but for what a lease that has ended left behind on purpose.
/// Those of leases that the journal does not know are ended, too: the folder may have been put back to a time before
/// they began.
async fn end_processes(processes: &Arc<dyn Processes>, journal_id: &str, book: &Book) -> Result<(), WorkerError> {
    let groups: Vec<_> = book.interrupted().into_iter().flat_map(|lease| lease.groups).collect();
    let is_left_over = |mark: &str| {
        read_mark(journal_id, mark).is_some_and(|lease| !lease.is_some_and(|lease| book.has_ended(&lease)))
    };
    let deadline = tokio::time::Instant::now() + LEFT_OVER_LIMIT;
    while processes.kill_left_over(&groups, &is_left_over) > 0 {
        if tokio::time::Instant::now() >= deadline {
            let problem = "a process of an earlier run does not die of SIGKILL; end it by hand, then start again";
            return Err(WorkerError::Config(problem.to_owned()));
        }
        tokio::time::sleep(LEFT_OVER_PAUSE).await;
    }
    Ok(())
}
