//! Reads one output: from the worker while it is there, from what is stored otherwise.
//!
//! ```text
//!   settled and short ──────────────► what is stored, over (of an agent: in any case)
//!   else: ask the worker ─ bytes ───► shown, ask for the next
//!            │            └ no more ► over (if the lease is still out: it may run again, ask again)
//!            └ away, or gone ───────► settled: the end that is stored, with a note, over
//!                                     not settled: a note, ask again
//! ```
//!
//! A turn shows at most [`PIECE_BYTES`] and remembers only numbers: what is not shown yet is asked for again, so that ten
//! thousand outputs with half a line each cost nothing.

use std::time::Duration;

use grid_store::{LogRow, StoredOutput};
use grid_types::LeaseKey;
use tokio::time::Instant;

use super::cut::{OpenLine, whole_lines};
use crate::reading::{NotPulled, Pull, Pulled};

pub const PIECE_BYTES: u32 = 64 * 1024;
/// How long a worker that should be there may be away before the end of an output is taken from what is stored: after a
/// restart of the controller its workers need a moment to come back.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for who stays anyway. A node that is declared unhealthy is not waited for.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(60);
/// The clock of files may lag behind the one of results by this much.
const CLOCK_SLACK_MS: u64 = 100;
/// From the end of an attempt until its result can be read, at most.
const STORED_WITHIN: Duration = Duration::from_secs(5);
/// Before a worker that had nothing is asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long half a line may wait for its other half.
const LINE_WAIT: Duration = Duration::from_millis(500);

/// Where outputs come from. A seam for tests.
pub trait Outputs: Clone + Send + Sync + 'static {
    fn pull(&self, row: &LogRow, pull: Pull) -> impl Future<Output = Result<Pulled, NotPulled>> + Send;
    /// None: the attempt has not ended.
    fn stored(&self, row: &LogRow) -> impl Future<Output = Result<Option<StoredOutput>, String>> + Send;
    /// Whether the lease is out, as far as this leader knows.
    fn is_out(&self, row: &LogRow) -> bool;
    /// Whether the node keeps whole outputs: a plain HTTP agent does not, all there will be is in its result (W10).
    fn keeps_outputs(&self, row: &LogRow) -> bool;
    /// Whether the node should be there.
    fn is_online(&self, row: &LogRow) -> bool;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Whole lines; half a line only if it has to be.
    Lines,
    Raw,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Bytes { offset: u64, data: Vec<u8>, partial: bool },
    Note { word: &'static str, text: String },
}

#[derive(Debug)]
pub struct Source {
    pub row: LogRow,
    pub run: u64,
    shape: Shape,
    follow: bool,
    offset: u64,
    /// The worker has shown bytes up to here.
    seen: u64,
    /// Not 0: nothing was shown yet, and only the last so many lines are wanted.
    tail_lines: u32,
    away_since: Option<Instant>,
    noted_away: bool,
    /// What is stored is not all of it, or not there yet.
    asks_worker: bool,
}

/// What one turn brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Turn {
    pub pieces: Vec<Piece>,
    pub over: bool,
}

impl Source {
    /// What there is of it now.
    pub fn new(row: LogRow, shape: Shape) -> Self {
        Self {
            row,
            run: 0,
            shape,
            follow: false,
            offset: 0,
            seen: 0,
            tail_lines: 0,
            away_since: None,
            noted_away: false,
            asks_worker: false,
        }
    }

    /// Until the attempt has ended, if `follow`.
    pub fn following(self, follow: bool) -> Self {
        Self { follow, ..self }
    }

    /// Goes on where an earlier reader was.
    pub fn from(self, run: u64, offset: u64) -> Self {
        Self { run, offset, seen: offset, ..self }
    }

    pub fn tail(self, lines: u32) -> Self {
        Self { tail_lines: lines, ..self }
    }

    pub fn lease(&self) -> LeaseKey {
        self.row.lease
    }

    /// Shows what comes next, or waits for it up to `wait`.
    pub async fn turn(&mut self, outputs: &impl Outputs, wait: Duration) -> Turn {
        // Before the worker is asked: a lease that it runs again meanwhile is then never taken for one that is over.
        let is_out = outputs.is_out(&self.row);
        if !outputs.keeps_outputs(&self.row) {
            return self.of_agent(outputs, is_out).await;
        }
        if !is_out && !self.asks_worker {
            match outputs.stored(&self.row).await {
                Ok(Some(stored)) if stored.is_whole() => return self.finish(&stored, ""),
                Ok(_) => self.asks_worker = true,
                Err(why) => return self.lost(&why),
            }
        }
        let wait = match (self.follow && is_out, self.seen > self.offset) {
            (false, _) => Duration::ZERO,
            (true, false) => wait,
            (true, true) => wait.min(LINE_WAIT),
        };
        let pull = Pull {
            lease: self.row.lease,
            offset: self.offset,
            seen: self.seen,
            limit: PIECE_BYTES,
            wait,
            tail_lines: self.tail_lines,
        };
        match outputs.pull(&self.row, pull).await {
            Ok(pulled) => self.take(pulled, is_out).await,
            Err(NotPulled::Busy) => nothing().await,
            Err(why) => self.without_worker(outputs, &why).await,
        }
    }

    async fn of_agent(&mut self, outputs: &impl Outputs, is_out: bool) -> Turn {
        match outputs.stored(&self.row).await {
            Ok(Some(stored)) => self.finish(&stored, "an agent sends no more"),
            Ok(None) if is_out && self.follow => nothing().await,
            Ok(None) => {
                // What is applied is stored a moment later.
                let since = *self.away_since.get_or_insert_with(Instant::now);
                let mut turn = nothing().await;
                turn.over = is_out || since.elapsed() >= STORED_WITHIN;
                turn
            }
            Err(why) => self.lost(&why),
        }
    }

    async fn take(&mut self, pulled: Pulled, is_out: bool) -> Turn {
        let mut turn = Turn::default();
        self.away_since = None;
        if std::mem::take(&mut self.noted_away) {
            turn.note("back", format!("{} is back", self.row.name));
        }
        let is_another = self.run != 0 && pulled.run != 0 && pulled.run != self.run;
        let is_shorter = pulled.data.is_empty() && self.tail_lines == 0 && pulled.offset < self.seen;
        if is_another || is_shorter {
            turn.note("again", format!("{} runs this step again; its output starts over", self.row.name));
            (self.run, self.offset, self.seen) = (pulled.run, 0, 0);
            return turn;
        }
        if pulled.run != 0 {
            self.run = pulled.run;
        }
        if self.tail_lines > 0 {
            self.offset = pulled.offset;
            // Nothing there yet: all that comes will be new.
            self.tail_lines = 0;
        }
        let end = pulled.offset + pulled.data.len() as u64;
        let is_full = pulled.data.len() >= PIECE_BYTES as usize;
        let has_grown = end > self.seen;
        let more_follows = is_full || (pulled.open && self.follow);
        let take_rest = match self.shape {
            Shape::Raw => true,
            Shape::Lines => !more_follows || (!has_grown && !pulled.data.is_empty()),
        };
        let open_line = match (take_rest, self.shape) {
            (false, _) => OpenLine::Keep,
            (true, Shape::Lines) if more_follows => OpenLine::Show,
            (true, Shape::Lines | Shape::Raw) => OpenLine::ShowAll,
        };
        let mut count = whole_lines(&pulled.data, open_line);
        if count == 0 && is_full {
            count = whole_lines(&pulled.data, OpenLine::Show);
        }
        self.seen = end;
        let rest = pulled.data.len() - count;
        turn.bytes(self.offset, pulled.data, count);
        self.offset = end - rest as u64;
        if !is_full && !more_follows {
            turn.over = !self.follow || !is_out;
            if !turn.over {
                tokio::time::sleep(PAUSE).await;
            }
        }
        turn
    }

    async fn without_worker(&mut self, outputs: &impl Outputs, why: &NotPulled) -> Turn {
        let away = matches!(why, NotPulled::Away);
        let stored = match outputs.stored(&self.row).await {
            Ok(stored) => stored,
            Err(why) => return self.lost(&why),
        };
        if let Some(stored) = stored {
            let since = *self.away_since.get_or_insert_with(Instant::now);
            let patience = if self.follow { FOLLOW_PATIENCE } else { PATIENCE };
            if away && !stored.is_whole() && outputs.is_online(&self.row) && since.elapsed() < patience {
                return self.wait_for_worker(outputs).await;
            }
            return self.finish(&stored, &why.to_string());
        }
        let mut turn = Turn::default();
        if !self.follow || !outputs.is_out(&self.row) {
            // Not settled and not out: it was taken back, or never began.
            if away {
                turn.note("lost", format!("{} is away, and nothing of its output is stored", self.row.name));
            }
            turn.over = true;
            return turn;
        }
        if away {
            return self.wait_for_worker(outputs).await;
        }
        tokio::time::sleep(PAUSE).await;
        turn
    }

    /// Says so when that is the worker's doing: when the leader has changed every worker needs a moment to come back.
    async fn wait_for_worker(&mut self, outputs: &impl Outputs) -> Turn {
        let since = *self.away_since.get_or_insert_with(Instant::now);
        let mut turn = nothing().await;
        let is_its_own = !outputs.is_online(&self.row) || since.elapsed() >= PATIENCE;
        if self.follow && is_its_own && !std::mem::replace(&mut self.noted_away, true) {
            turn.note("away", format!("{} is away; its output goes on when it is back", self.row.name));
        }
        turn
    }

    /// The rest from what is stored: the last bytes of it.
    fn finish(&mut self, stored: &StoredOutput, why: &str) -> Turn {
        let mut turn = Turn { over: true, ..Turn::default() };
        // A run is known by when its output began.
        if self.run != 0 && stored.started_wall_ms > self.run / 1_000_000 + CLOCK_SLACK_MS {
            turn.note("again", format!("{} ran this step again; its output starts over", self.row.name));
            (self.run, self.offset) = (stored.started_wall_ms.saturating_mul(1_000_000), 0);
        }
        let kept = stored.tail.len() as u64;
        let begin = stored.total_bytes.saturating_sub(kept);
        if !stored.outcome_known {
            let text =
                format!("nobody knows how this ended on {0}, and what it printed is on {0}: {why}", self.row.name);
            turn.note("lost", text);
        } else if self.tail_lines > 0 {
            let from = last_lines(&stored.tail, self.tail_lines) as u64;
            self.offset = begin + from;
        } else if self.offset < begin {
            let missing = begin - self.offset;
            let text = format!(
                "only the last {kept} bytes of the output of {} are stored, {missing} before them are left out: {why}",
                self.row.name
            );
            turn.note("tail", text);
            self.offset = begin;
        }
        let skip = usize::try_from(self.offset - begin.min(self.offset)).unwrap_or(usize::MAX).min(stored.tail.len());
        let rest = stored.tail[skip..].to_vec();
        let count = rest.len();
        turn.bytes(self.offset, rest, count);
        self.offset += count as u64;
        turn
    }

    fn lost(&self, why: &str) -> Turn {
        let mut turn = Turn { over: true, ..Turn::default() };
        turn.note("lost", format!("the output of {} cannot be read: {why}", self.row.name));
        turn
    }
}

impl Turn {
    fn note(&mut self, word: &'static str, text: String) {
        self.pieces.push(Piece::Note { word, text });
    }

    fn bytes(&mut self, offset: u64, mut data: Vec<u8>, count: usize) {
        data.truncate(count);
        if let Some(last) = data.last() {
            let partial = *last != b'\n';
            self.pieces.push(Piece::Bytes { offset, data, partial });
        }
    }
}

async fn nothing() -> Turn {
    tokio::time::sleep(PAUSE).await;
    Turn::default()
}

/// Where the last so many lines begin.
fn last_lines(data: &[u8], lines: u32) -> usize {
    let body = data.strip_suffix(b"\n").unwrap_or(data);
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut ends = ends.skip(usize::try_from(lines).unwrap_or(usize::MAX).saturating_sub(1));
    ends.next().unwrap_or(0)
}

#[cfg(test)]
mod tests;
