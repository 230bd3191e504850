//! One output against a worker whose answers are written down here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grid_store::{LogRow, StoredOutput};
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

use super::{Outputs, PIECE_BYTES, Piece, Shape, Source, Turn};
use crate::reading::{NotPulled, Pull, Pulled};

const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };

#[derive(Default)]
struct Inner {
    answers: VecDeque<Result<Pulled, NotPulled>>,
    asked: Vec<Pull>,
    stored: Option<StoredOutput>,
    out: bool,
    online: bool,
    agent: bool,
}

#[derive(Clone, Default)]
struct Script(Arc<Mutex<Inner>>);

impl Script {
    fn running(answers: impl IntoIterator<Item = Result<Pulled, NotPulled>>) -> Self {
        let script = Self::default();
        *script.0.lock().unwrap() =
            Inner { answers: answers.into_iter().collect(), out: true, online: true, ..Inner::default() };
        script
    }

    fn settled(tail: &[u8], total_bytes: u64) -> Self {
        let script = Self::default();
        let stored =
            StoredOutput { lease: LEASE, tail: tail.to_vec(), total_bytes, started_wall_ms: 0, outcome_known: true };
        script.0.lock().unwrap().stored = Some(stored);
        script
    }

    fn asked(&self) -> Vec<(u64, u64)> {
        self.0.lock().unwrap().asked.iter().map(|pull| (pull.offset, pull.seen)).collect()
    }
}

impl Outputs for Script {
    async fn pull(&self, _: &LogRow, pull: Pull) -> Result<Pulled, NotPulled> {
        let mut inner = self.0.lock().unwrap();
        inner.asked.push(pull);
        inner.answers.pop_front().unwrap_or(Err(NotPulled::Away))
    }

    async fn stored(&self, _: &LogRow) -> Result<Option<StoredOutput>, String> {
        Ok(self.0.lock().unwrap().stored.clone())
    }

    fn is_out(&self, _: &LogRow) -> bool {
        self.0.lock().unwrap().out
    }

    fn keeps_outputs(&self, _: &LogRow) -> bool {
        !self.0.lock().unwrap().agent
    }

    fn is_online(&self, _: &LogRow) -> bool {
        self.0.lock().unwrap().online
    }
}

fn pulled(offset: u64, data: &[u8], open: bool, run: u64) -> Result<Pulled, NotPulled> {
    Ok(Pulled { offset, data: data.to_vec(), open, run })
}

fn source(follow: bool) -> Source {
    Source::new(LogRow { lease: LEASE, node: NodeOrd(1), name: "web-01".to_owned() }, Shape::Lines).following(follow)
}

fn shown(turn: &Turn) -> Vec<String> {
    let text = |piece: &Piece| match piece {
        Piece::Bytes { offset, data, partial } => {
            format!("{offset}:{}{}", String::from_utf8_lossy(data), if *partial { "~" } else { "" })
        }
        Piece::Note { word, .. } => format!("({word})"),
    };
    turn.pieces.iter().map(text).collect()
}

async fn turn(source: &mut Source, script: &Script) -> (Vec<String>, bool) {
    let turn = source.turn(script, Duration::from_secs(1)).await;
    (shown(&turn), turn.over)
}

fn none() -> Vec<String> {
    Vec::new()
}

#[tokio::test(start_paused = true)]
async fn half_a_line_waits_for_its_other_half_but_not_for_ever() {
    let script = Script::running([
        pulled(0, b"one\ntw", true, 7),
        pulled(4, b"two\nthr", true, 7),
        pulled(8, b"thr", true, 7),
        pulled(11, b"ee\n", false, 7),
    ]);
    let mut source = source(true);
    assert_eq!(turn(&mut source, &script).await, (vec!["0:one\n".to_owned()], false));
    assert_eq!(turn(&mut source, &script).await, (vec!["4:two\n".to_owned()], false));
    assert_eq!(turn(&mut source, &script).await, (vec!["8:thr~".to_owned()], false), "nothing came any more");
    script.0.lock().unwrap().out = false;
    assert_eq!(turn(&mut source, &script).await, (vec!["11:ee\n".to_owned()], true));
    assert_eq!(script.asked(), [(0, 0), (4, 6), (8, 11), (11, 11)]);
}

#[tokio::test(start_paused = true)]
async fn a_line_longer_than_a_piece_is_shown_in_pieces() {
    let long = vec![b'x'; PIECE_BYTES as usize];
    let script = Script::running([pulled(0, &long, true, 7), pulled(u64::from(PIECE_BYTES), b"y\n", true, 7)]);
    let mut source = source(true);
    let first = source.turn(&script, Duration::ZERO).await;
    assert!(matches!(&first.pieces[..], [Piece::Bytes { data, partial: true, .. }] if *data == long));
    assert_eq!(turn(&mut source, &script).await.0, [format!("{PIECE_BYTES}:y\n")]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_goes_away_is_told_once_and_goes_on_where_it_was() {
    let script = Script::running([
        pulled(0, b"one\n", true, 7),
        Err(NotPulled::Away),
        Err(NotPulled::Away),
        pulled(4, b"two\n", true, 7),
    ]);
    let mut source = source(true);
    script.0.lock().unwrap().online = false;
    turn(&mut source, &script).await;
    assert_eq!(turn(&mut source, &script).await, (vec!["(away)".to_owned()], false));
    assert_eq!(turn(&mut source, &script).await, (none(), false));
    assert_eq!(turn(&mut source, &script).await, (vec!["(back)".to_owned(), "4:two\n".to_owned()], false));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_only_follows_a_new_leader_is_not_told_as_away() {
    let script = Script::running([
        Err(NotPulled::Away),
        pulled(0, b"one\n", true, 7),
        Err(NotPulled::Away),
        Err(NotPulled::Away),
    ]);
    script.0.lock().unwrap().online = true;
    let mut source = source(true);
    assert_eq!(turn(&mut source, &script).await, (none(), false));
    assert_eq!(turn(&mut source, &script).await, (vec!["0:one\n".to_owned()], false));
    assert_eq!(turn(&mut source, &script).await, (none(), false), "the time begins anew");
    tokio::time::advance(super::PATIENCE).await;
    assert_eq!(turn(&mut source, &script).await, (vec!["(away)".to_owned()], false), "it should be back by now");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_runs_again_is_shown_from_its_beginning() {
    let script = Script::running([
        pulled(0, b"one\n", true, 7),
        pulled(4, b"", false, 7),
        pulled(4, b"", true, 8),
        pulled(0, b"one\ntwo\n", false, 8),
    ]);
    let mut source = source(true);
    turn(&mut source, &script).await;
    assert_eq!(turn(&mut source, &script).await, (none(), false), "not open, but still out: it may run again");
    assert_eq!(turn(&mut source, &script).await, (vec!["(again)".to_owned()], false));
    script.0.lock().unwrap().out = false;
    assert_eq!(turn(&mut source, &script).await, (vec!["0:one\ntwo\n".to_owned()], true));
    assert_eq!(source.run, 8);
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_whole_needs_no_worker() {
    let script = Script::settled(b"all of it", 9);
    assert_eq!(turn(&mut source(false), &script).await, (vec!["0:all of it~".to_owned()], true));
    assert_eq!(turn(&mut source(false).from(7, 4), &script).await, (vec!["4:of it~".to_owned()], true));
    assert_eq!(turn(&mut source(false).from(7, 9), &script).await, (none(), true));
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_of_a_later_run_is_not_taken_for_the_rest_of_an_earlier_one() {
    let script = Script::settled(b"all of it", 9);
    script.0.lock().unwrap().stored.as_mut().unwrap().started_wall_ms = 5_000;
    let (same, earlier) = (5_000 * 1_000_000 + 7, 1_000 * 1_000_000);
    assert_eq!(turn(&mut source(true).from(same, 4), &script).await.0, ["4:of it~"]);
    assert_eq!(turn(&mut source(true).from(earlier, 4), &script).await.0, ["(again)", "0:all of it~"]);
}

#[tokio::test(start_paused = true)]
async fn without_its_worker_a_long_output_is_its_stored_end_with_a_note() {
    let script = Script::settled(b"end\n", 100);
    let want = (vec!["(tail)".to_owned(), "96:end\n".to_owned()], true);
    assert_eq!(turn(&mut source(false), &script).await, want, "its node is offline: no use waiting");
    script.0.lock().unwrap().answers.push_back(Err(NotPulled::Gone("pruned".to_owned())));
    assert_eq!(turn(&mut source(false), &script).await, want);
    assert_eq!(
        turn(&mut source(false).from(7, 98), &script).await,
        (vec!["98:d\n".to_owned()], true),
        "no gap, no note"
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_should_be_there_gets_a_moment_to_come_back() {
    let script = Script::settled(b"end\n", 100);
    script.0.lock().unwrap().online = true;
    let mut source = source(false);
    let mut turns = 0;
    let last = loop {
        let turn = turn(&mut source, &script).await;
        if turn.1 {
            break turn;
        }
        turns += 1;
    };
    assert!(turns > 5, "{turns}");
    assert_eq!(last.0, ["(tail)", "96:end\n"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_lines_come_from_the_worker_or_from_what_is_stored() {
    let script = Script::running([pulled(40, b"last\n", true, 7), pulled(45, b"new\n", true, 7)]);
    let mut running = source(true).tail(1);
    assert_eq!(turn(&mut running, &script).await.0, ["40:last\n"]);
    assert_eq!(turn(&mut running, &script).await.0, ["45:new\n"]);
    let stored = Script::settled(b"a\nb\nc\n", 6);
    assert_eq!(turn(&mut source(false).tail(2), &stored).await.0, ["2:b\nc\n"]);
    assert_eq!(turn(&mut source(false).tail(9), &stored).await.0, ["0:a\nb\nc\n"]);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_nobody_knows_is_asked_of_the_worker_and_else_said_so() {
    let script = Script::settled(b"", 0);
    script.0.lock().unwrap().stored.as_mut().unwrap().outcome_known = false;
    script.0.lock().unwrap().answers.push_back(pulled(0, b"it said\n", false, 7));
    assert_eq!(turn(&mut source(false), &script).await, (vec!["0:it said\n".to_owned()], true));
    assert_eq!(turn(&mut source(false), &script).await, (vec!["(lost)".to_owned()], true));
}

#[tokio::test(start_paused = true)]
async fn w10_an_agent_is_never_asked_and_never_away() {
    let script = Script::running([]);
    script.0.lock().unwrap().agent = true;
    let mut source = source(true);
    assert_eq!(turn(&mut source, &script).await, (none(), false), "it runs");
    script.0.lock().unwrap().out = false;
    assert_eq!(turn(&mut source, &script).await, (none(), false), "its result is applied, not stored yet");
    let stored = Script::settled(b"hi\n", 3).0.lock().unwrap().stored.take();
    script.0.lock().unwrap().stored = stored;
    assert_eq!(turn(&mut source, &script).await, (vec!["0:hi\n".to_owned()], true));
    assert_eq!(script.asked(), []);
}
