//! The bytes of one output, as they are.
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
    let (pieces, reader) = mpsc::channel(AHEAD);
    let leader = Arc::clone(shared);
    let led = async move { if query.follow { leader.led().await } else { std::future::pending().await } };
    let offset = offset.unwrap_or(query.offset);
    tasks.start_request("output-bytes", async move {
        let _place = place;
        let broken_off = tokio::select! {
            () = pump(source, outputs, first, offset, pieces.clone()) => return,
            () = led => BrokenOff("this controller does not lead any more; ask again, from the next byte".to_owned()),
        };
        let _ = pieces.send(Err(broken_off)).await;
    });
    let total_bytes = stored.filter(|stored| stored.outcome_known).map(|stored| stored.total_bytes);
    Ok(Output { attempt, total_bytes, offset, pieces: reader })
}

async fn first_turn(source: &mut Source, outputs: &Workers) -> Turn {
    loop {
        let turn = source.turn(outputs, Duration::ZERO).await;
        if turn.over || turn.pieces.iter().any(|piece| matches!(piece, Piece::Bytes { .. })) {
            return turn;
        }
    }
}

async fn pump(
    mut source: Source,
    outputs: impl Outputs,
    first: Turn,
    mut at: u64,
    pieces: mpsc::Sender<Result<Bytes, BrokenOff>>,
) {
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
