//! Readers of outputs: a whole job line by line (`logs`), or the bytes of one output (`output`).
//!
//! ```text
//!   roll (which outputs) ──► queue ──► at most WINDOW turns under way ──► records ──► reader
//!                              ▲            one piece each                   │
//!                              └──────────── back of the queue ◄─────────────┘ taken
//! ```
//!
//! Fair: a followed output has one piece under way, and goes to the back of the queue when it is taken. What a node prints
//! stays in order: its next output waits for the one before. A reader that only wants what there is gets one output after
//! the other instead, since that can be read.
//! Bounds: 32 at once (`reading`); of each at most [`WINDOW`] pieces of 64 KiB are under way (4 MiB), and while the reader does
//! not take them nobody asks a worker for more. A reader that goes away drops them all.

mod cut;
mod raw;
mod roll;
mod source;
mod workers;

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use grid_store::LogRow;
use grid_tasks::Tasks;
use grid_types::api::{LogCursor, LogDoc, LogNote, LogText};
use grid_types::{Code, JobRef, NodeOrd};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::control::{LogQuery, Refusal, no_job};
use crate::log::Progress;
use crate::shared::Shared;
use roll::{Extent, Roll};
use source::{Piece, Shape, Source, Turn};
use workers::Workers;

pub use raw::output;

const WINDOW: usize = 64;
const AHEAD: usize = 2;
/// How often a followed job is looked at for new outputs, at most: only if something was applied since.
const LOOK: Duration = Duration::from_millis(200);
/// How long a worker may wait for more of an output: long if there are places for others, short if they are scarce.
const LONG_WAIT: Duration = Duration::from_secs(10);
const SHORT_WAIT: Duration = Duration::from_millis(200);

/// The output of a job, record by record.
pub async fn logs(
    shared: &Arc<Shared>,
    tasks: &Tasks,
    job: &JobRef,
    query: LogQuery,
) -> Result<mpsc::Receiver<LogDoc>, Refusal> {
    let place = shared.reading.log_readers.enter()?;
    let (roll, rows) = begin(shared, job, Extent { filter: query.filter.clone(), follow: query.follow }).await?;
    let (records, reader) = mpsc::channel(AHEAD);
    let stream = Stream {
        outputs: Workers::new(Arc::clone(shared)),
        roll,
        queue: VecDeque::new(),
        later: HashMap::new(),
        known: query.from.iter().map(|cursor| (place_of(cursor), (cursor.run, cursor.next))).collect(),
        follow: query.follow,
        tail_lines: query.tail.unwrap_or(0),
        records,
    };
    let (shared, job) = (Arc::clone(shared), job.id);
    tasks.start_request("output-lines", async move {
        let _place = place;
        if let Err(why) = stream.run(&shared, rows).await {
            tracing::warn!(%job, "outputs cannot be shown any more: {why}");
        }
    });
    Ok(reader)
}

async fn begin(shared: &Shared, job: &JobRef, extent: Extent) -> Result<(Roll, VecDeque<LogRow>), Refusal> {
    let failed = |why: String| Refusal::new(Code::Internal, format!("cannot read the outputs: {why}"));
    let begun = Roll::begin(shared, job, extent).await.map_err(failed)?;
    begun.ok_or_else(|| no_job(job.id))
}

/// Step, node, epoch, attempt.
type PlaceKey = (u32, String, u32, u32);

fn place_of(cursor: &LogCursor) -> PlaceKey {
    (cursor.step, cursor.node.clone(), cursor.epoch, cursor.attempt)
}

struct Stream {
    outputs: Workers,
    roll: Roll,
    queue: VecDeque<Source>,
    /// By node, the outputs after the one that is shown; every node with an output in the queue or under way has an entry.
    later: HashMap<NodeOrd, VecDeque<Source>>,
    /// Where the reader was before: run and offset.
    known: HashMap<PlaceKey, (u64, u64)>,
    follow: bool,
    tail_lines: u32,
    records: mpsc::Sender<LogDoc>,
}

impl Stream {
    async fn run(mut self, shared: &Shared, rows: VecDeque<LogRow>) -> Result<(), String> {
        let window = if self.follow { WINDOW } else { 1 };
        self.add(rows);
        let mut turns: JoinSet<(Source, Turn)> = JoinSet::new();
        let mut led = pin!(shared.led());
        let mut next_look = Look { seen: None, at: Instant::now() };
        loop {
            while turns.len() < window
                && let Some(mut source) = self.queue.pop_front()
            {
                let wait = if turns.len() + self.queue.len() < WINDOW / 2 { LONG_WAIT } else { SHORT_WAIT };
                let outputs = self.outputs.clone();
                turns.spawn(async move {
                    let turn = source.turn(&outputs, wait).await;
                    (source, turn)
                });
            }
            if turns.is_empty() {
                if self.roll.is_over() {
                    let status = self.roll.status(shared).await?;
                    // A reader that left before the end does not need it.
                    let _ = self.records.send(LogDoc::End { status }).await;
                    return Ok(());
                }
                if !self.follow {
                    let rows = self.roll.look(shared).await?;
                    self.add(rows);
                    continue;
                }
            }
            tokio::select! {
                Some(done) = turns.join_next() => {
                    let (source, turn) = done.map_err(|e| e.to_string())?;
                    if !self.show(source, turn).await {
                        return Ok(());
                    }
                }
                () = next_look.is_due(&shared.log.progress), if self.follow && self.queue.len() < WINDOW => {
                    // Before the look, so that what is applied during it leads to another one.
                    let seen = shared.log.progress.both();
                    let rows = self.roll.look(shared).await?;
                    self.add(rows);
                    next_look = Look { seen: Some(seen).filter(|_| !self.roll.has_more()), at: Instant::now() + LOOK };
                }
                () = self.records.closed() => return Ok(()),
                // Without the record of the end the reader goes on, at the leader to whom the workers speak now.
                () = &mut led => return Ok(()),
            }
        }
    }

    fn add(&mut self, rows: VecDeque<LogRow>) {
        for row in rows {
            let lease = row.lease;
            let key = (lease.step.0, row.name.clone(), lease.job_epoch.0, lease.attempt.0);
            let source = Source::new(row, Shape::Lines).following(self.follow);
            let source = match self.known.remove(&key) {
                Some((run, next)) => source.from(run, next),
                None => source.tail(self.tail_lines),
            };
            match self.later.get_mut(&source.row.node).filter(|_| self.follow) {
                Some(later) => later.push_back(source),
                None => {
                    self.later.insert(source.row.node, VecDeque::new());
                    self.queue.push_back(source);
                }
            }
        }
    }

    fn next_of(&mut self, node: NodeOrd) {
        match self.later.get_mut(&node).and_then(VecDeque::pop_front) {
            Some(source) => self.queue.push_back(source),
            None => drop(self.later.remove(&node)),
        }
    }

    /// False: nobody reads any more.
    async fn show(&mut self, source: Source, turn: Turn) -> bool {
        for piece in turn.pieces {
            if self.records.send(record(&source, piece)).await.is_err() {
                return false;
            }
        }
        match (turn.over, self.follow) {
            (true, _) => self.next_of(source.row.node),
            (false, true) => self.queue.push_back(source),
            (false, false) => self.queue.push_front(source),
        }
        true
    }
}

/// When a followed job is looked at again.
struct Look {
    /// Batches that the last look has seen; `None`: there is more than one look could take.
    seen: Option<u64>,
    /// Not before.
    at: Instant,
}

impl Look {
    async fn is_due(&self, progress: &Progress) {
        tokio::time::sleep_until(self.at).await;
        if let Some(seen) = self.seen {
            progress.wait(seen + 1).await;
        }
    }
}

fn record(source: &Source, piece: Piece) -> LogDoc {
    let (lease, node) = (source.lease(), source.row.name.clone());
    match piece {
        Piece::Bytes { offset, data, partial } => LogDoc::Output(LogText {
            step: lease.step.0,
            node,
            epoch: lease.job_epoch.0,
            attempt: lease.attempt.0,
            run: source.run,
            offset,
            next: offset + data.len() as u64,
            text: String::from_utf8_lossy(&data).into_owned(),
            partial,
        }),
        Piece::Note { word, text } => LogDoc::Note(LogNote { step: lease.step.0, node, word: word.to_owned(), text }),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{LOOK, Look};
    use crate::log::Progress;

    #[tokio::test(start_paused = true)]
    async fn a_followed_job_is_looked_at_again_only_after_something_was_applied() {
        let progress = Progress::default();
        let begun = Instant::now();
        let look = Look { seen: Some(progress.both()), at: begun + LOOK };
        let mut due = pin!(look.is_due(&progress));
        assert!(timeout(Duration::from_secs(3_600), due.as_mut()).await.is_err(), "nothing was applied");
        progress.begin();
        assert!(timeout(Duration::from_secs(3_600), due.as_mut()).await.is_err(), "it is not stored yet");
        progress.stored();
        due.await;

        let early = Instant::now();
        let look = Look { seen: Some(0), at: early + LOOK };
        look.is_due(&progress).await;
        assert!(early.elapsed() >= LOOK, "however often something is applied");
        let unfinished = Look { seen: None, at: early };
        timeout(LOOK, unfinished.is_due(&progress)).await.expect("the last look left something");
    }
}
