//! Streams the bytes of one output, as they are.
//!
//! There is no room for a note between bytes: what is missing at the beginning is known before the first of them (`offset`), and a gap
//! later ends the stream with an error, so that nobody takes it for the whole.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grid_store::LogFilter;
use grid_tasks::Tasks;
use grid_types::{Code, JobRef};
use tokio::sync::mpsc;

use super::roll::Extent;
use super::source::{Outputs, Piece, Shape, Source, Turn};
use super::workers::Workers;
use super::{AHEAD, LONG_WAIT, begin};
use crate::control::{BrokenOff, Output, OutputQuery, Refusal};
use crate::shared::Shared;

pub async fn output(shared: &Arc<Shared>, tasks: &Tasks, job: &JobRef, query: OutputQuery) -> Result<Output, Refusal> {
    let place = shared.reading.log_readers.enter()?;
    let OutputQuery { step, node, .. } = &query;
    let filter = LogFilter { step: Some(*step), nodes: vec![node.to_string()], attempt: query.attempt, run: query.run };
    let (_, mut rows) = begin(shared, job, Extent { filter, follow: false }).await?;
    let none = || Refusal::new(Code::NotFound, format!("{job} has no output of step {step} on {node}"));
    // One that runs is the newest.
    let row = rows.pop_back().ok_or_else(none)?;
    let outputs = Workers::new(Arc::clone(shared));
    let stored = outputs.stored(&row).await.map_err(|why| Refusal::new(Code::Internal, why))?;
    let attempt = row.lease.attempt;
    let mut source = Source::new(row, Shape::Raw).following(query.follow).from(0, query.offset);
    // What is there is looked at before the answer begins, which says where it begins.
    let first = if query.follow { Turn::default() } else { first_turn(&mut source, &outputs).await };
    let offset = first.pieces.iter().find_map(|piece| match piece {
        Piece::Bytes { offset, .. } => Some(*offset),
        Piece::Note { .. } => None,
    });
    let (pieces, unfinished, reader) = stream();
    let leader = Arc::clone(shared);
    let led = async move { if query.follow { leader.led().await } else { std::future::pending().await } };
    let offset = offset.unwrap_or(query.offset);
    tasks.start_request("output-bytes", async move {
        let _place = place;
        tokio::select! {
            () = pump(source, outputs, first, offset, pieces) => unfinished.finish(),
            () = led => unfinished.break_off("this controller does not lead any more; ask again, from the next byte"),
        }
    });
    let total_bytes = stored.filter(|stored| stored.outcome_known).map(|stored| stored.total_bytes);
    Ok(Output { attempt, total_bytes, offset, pieces: reader })
}

/// A stream that has begun. Its channel alone would end a stream whose task panicked as if it were whole.
struct Unfinished(Option<mpsc::OwnedPermit<Result<Bytes, BrokenOff>>>);

type Pieces = mpsc::Sender<Result<Bytes, BrokenOff>>;

/// The two ends of a stream, with room for the reason why it breaks off.
fn stream() -> (Pieces, Unfinished, mpsc::Receiver<Result<Bytes, BrokenOff>>) {
    let (pieces, reader) = mpsc::channel(AHEAD + 1);
    let unfinished = Unfinished(pieces.clone().try_reserve_owned().ok());
    (pieces, unfinished, reader)
}

impl Unfinished {
    /// Everything was sent.
    fn finish(mut self) {
        self.0 = None;
    }

    fn break_off(mut self, why: &str) {
        self.send(why);
    }

    fn send(&mut self, why: &str) {
        if let Some(place) = self.0.take() {
            let _ = place.send(Err(BrokenOff(why.to_owned())));
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.send("the controller failed while it read the output; see its log, and ask again");
    }
}

async fn first_turn(source: &mut Source, outputs: &Workers) -> Turn {
    loop {
        let turn = source.turn(outputs, Duration::ZERO).await;
        if turn.over || turn.pieces.iter().any(|piece| matches!(piece, Piece::Bytes { .. })) {
            return turn;
        }
    }
}

async fn pump(mut source: Source, outputs: impl Outputs, first: Turn, mut at: u64, pieces: Pieces) {
    let mut turn = first;
    loop {
        for piece in turn.pieces {
            let sent = match piece {
                Piece::Bytes { offset, data, .. } if offset == at => {
                    at += data.len() as u64;
                    pieces.send(Ok(Bytes::from(data))).await
                }
                Piece::Note { word: "away" | "back" | "tail", .. } => Ok(()),
                Piece::Bytes { .. } => {
                    let _ = pieces.send(Err(BrokenOff("bytes in the middle are missing".to_owned()))).await;
                    return;
                }
                Piece::Note { text, .. } => {
                    let _ = pieces.send(Err(BrokenOff(text))).await;
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        }
        if turn.over {
            return;
        }
        turn = tokio::select! {
            turn = source.turn(&outputs, LONG_WAIT) => turn,
            () = pieces.closed() => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::stream;

    #[tokio::test]
    async fn a_stream_whose_task_panics_breaks_off() {
        let tasks = grid_tasks::Tasks::default();
        let (pieces, unfinished, mut reader) = stream();
        tasks.start_request("output-bytes", async move {
            // As many as the channel takes: there is room for the reason beside them.
            for _ in 0..super::AHEAD {
                pieces.send(Ok(Bytes::from_static(b"some"))).await.unwrap();
            }
            let _unfinished = unfinished;
            panic!("planted");
        });
        for _ in 0..super::AHEAD {
            assert!(reader.recv().await.unwrap().is_ok());
        }
        let why = reader.recv().await.unwrap().unwrap_err().to_string();
        assert!(why.contains("the controller failed"), "{why}");
        assert!(reader.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_is_whole_ends_without_an_error() {
        let (pieces, unfinished, mut reader) = stream();
        pieces.send(Ok(Bytes::from_static(b"all"))).await.unwrap();
        drop(pieces);
        unfinished.finish();
        assert_eq!(reader.recv().await.unwrap().unwrap(), "all");
        assert!(reader.recv().await.is_none());
    }
}
