//! Merges whatever waits into one entry and proposes it: the one way into the log (L1).
//!
//! openraft flushes once per write, so the number of entries is the number of fsyncs. While two entries are on their
//! way, everything else gathers; an idle controller proposes at once and waits for nobody.
//! The queue is bounded: a full one makes API and fabric wait, which is the back-pressure that clients and workers feel.
//! E7: while leadership is handed over, first only what settles work that is already out is proposed ([`drains`]), then
//! nothing. E4: an entry whose fate is open for [`PATIENCE`] is answered OUTCOME_UNKNOWN; it may still take effect.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grid_core::{Command, Rejection, encode_command, encode_entry};
use grid_raft::{ProposeError, Raft};
use grid_tasks::Tasks;
use grid_types::limits::{MAX_ENTRY_BYTES, MAX_ENTRY_COMMANDS};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};

use super::machine::Replies;
use crate::reply::{NoReply, Replied, TOGETHER};
use crate::term::Term;

const QUEUE: usize = 16 * 1024;
const IN_FLIGHT: usize = 2;
/// Without a majority an entry waits for ever; nobody should wait with it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Commands that wait or are on their way, in all.
const MEMORY_KIB: usize = 64 * 1024;
type Then = Box<dyn FnOnce(Vec<Replied>) + Send>;

/// Commands of one source: one entry has all of them.
struct Waiting {
    bytes: Vec<u8>,
    commands: usize,
    /// E7: whether a leader that hands over still proposes them.
    drains: bool,
    /// Called with a reply for each of them, in their order.
    then: Then,
    /// Its share of the memory that may wait; given back when it is answered.
    _share: Option<OwnedSemaphorePermit>,
}

#[derive(Clone)]
pub struct Proposer {
    queue: mpsc::Sender<Waiting>,
    memory: Arc<Semaphore>,
    places: Arc<Semaphore>,
    mode: Arc<watch::Sender<Mode>>,
}

/// What is proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Everything,
    /// Only what drains; the rest is refused with NOT_LEADER.
    Draining,
    /// What comes waits.
    Nothing,
}

/// E7: while it lives, not everything is proposed.
pub struct Draining {
    mode: Arc<watch::Sender<Mode>>,
    places: Arc<Semaphore>,
}

impl Draining {
    /// Proposes nothing more; returns when the fate of what is in the log is known.
    pub async fn close(&self) {
        self.mode.send_replace(Mode::Nothing);
        let all = u32::try_from(IN_FLIGHT).unwrap_or(u32::MAX);
        // Closed never.
        drop(self.places.acquire_many(all).await);
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.mode.send_replace(Mode::Everything);
    }
}

/// E7: results, confirmations of revokes, cancels, and the start of `once` leases that are already out (W3). They settle
/// or go on with what is out, and a worker or an operator waits for them; everything else would only give the next
/// leader more to catch up with. A start that is refused would wait for the whole hand-over, and its lease with it.
fn drains(command: &Command) -> bool {
    match command {
        Command::RecordResult(_) | Command::ConfirmRevoke(_) | Command::CancelJob(_) | Command::BeginLease(_) => true,
        Command::Fenced(fenced) => drains(&fenced.command),
        _ => false,
    }
}

impl Proposer {
    pub fn start(raft: Raft<Replies>, term: watch::Receiver<Option<Term>>, tasks: &Tasks) -> Self {
        let (queue, inbox) = mpsc::channel(QUEUE);
        let places = Arc::new(Semaphore::new(IN_FLIGHT));
        let mode = Arc::new(watch::Sender::new(Mode::Everything));
        tasks.start("proposer", run(inbox, raft, term, Arc::clone(&places), mode.subscribe()));
        Self { queue, memory: Arc::new(Semaphore::new(MEMORY_KIB)), places, mode }
    }

    /// From here on only what drains is proposed (E7).
    pub fn drain(&self) -> Draining {
        self.mode.send_replace(Mode::Draining);
        Draining { mode: Arc::clone(&self.mode), places: Arc::clone(&self.places) }
    }

    /// Proposes a command and waits for what became of it.
    pub async fn propose(&self, command: &Command) -> Replied {
        let (answer, answered) = oneshot::channel();
        self.propose_then(command, move |reply| drop(answer.send(reply))).await;
        answered.await.unwrap_or_else(|_| Err(NoReply::OutcomeUnknown("the controller is shutting down".to_owned())))
    }

    /// Proposes up to [`TOGETHER`] commands as one and waits for what became of each.
    pub async fn propose_and_wait(&self, commands: &[Command]) -> Vec<Replied> {
        let (answer, answered) = oneshot::channel();
        self.propose_together(commands, move |replies| drop(answer.send(replies))).await;
        let lost = || NoReply::OutcomeUnknown("the controller is shutting down".to_owned());
        answered.await.unwrap_or_else(|_| vec![Err(lost()); commands.len()])
    }

    /// Proposes a command; returns when it is queued, and calls `then` once with what became of it.
    pub async fn propose_then(&self, command: &Command, then: impl FnOnce(Replied) + Send + 'static) {
        let only = move |mut replies: Vec<_>| {
            if let Some(reply) = replies.pop() {
                then(reply);
            }
        };
        self.propose_together(std::slice::from_ref(command), only).await;
    }

    /// Proposes up to [`TOGETHER`] commands as one; `then` is called once, with a reply for each in their order.
    ///
    /// One place in the queue for all: were each to wait for its own, the reports of one worker would come to lie in
    /// as many entries as there are reports, and their answers in as many messages.
    pub async fn propose_together(&self, commands: &[Command], then: impl FnOnce(Vec<Replied>) + Send + 'static) {
        debug_assert!(commands.len() <= TOGETHER, "L1");
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend(encode_command(command));
        }
        let kib = u32::try_from(bytes.len() / 1024 + 1).unwrap_or(u32::MAX);
        // Closed never; a command larger than everything cannot come through the API's and the fabric's limits.
        let share = Arc::clone(&self.memory).acquire_many_owned(kib).await.ok();
        let drains = commands.iter().all(drains);
        let waiting = Waiting { bytes, commands: commands.len(), drains, then: Box::new(then), _share: share };
        if let Err(mpsc::error::SendError(waiting)) = self.queue.send(waiting).await {
            waiting.refuse(&NoReply::NotLeader);
        }
    }
}

impl Waiting {
    fn refuse(self, no_reply: &NoReply) {
        (self.then)(vec![Err(no_reply.clone()); self.commands]);
    }
}

async fn run(
    mut inbox: mpsc::Receiver<Waiting>,
    raft: Raft<Replies>,
    term: watch::Receiver<Option<Term>>,
    places: Arc<Semaphore>,
    mut mode: watch::Receiver<Mode>,
) {
    let mut left_over = None;
    let mut in_flight = InFlight::default();
    loop {
        let first = match left_over.take() {
            Some(waiting) => waiting,
            None => tokio::select! {
                waiting = inbox.recv() => match waiting {
                    Some(waiting) => waiting,
                    None => return,
                },
                () = in_flight.one_ended() => continue,
            },
        };
        if mode.wait_for(|mode| *mode != Mode::Nothing).await.is_err() {
            return;
        }
        // What arrives while both places are taken joins this entry.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        if *mode.borrow() == Mode::Nothing {
            // E7: it was closed while this waited for a place. `close` waits for every request that holds a place.
            left_over = Some(first);
            continue;
        }
        let (mut batch, next) = gather(first, &mut inbox);
        left_over = next;
        if *mode.borrow() != Mode::Everything {
            let (passes, refused): (Vec<_>, Vec<_>) = batch.into_iter().partition(|waiting| waiting.drains);
            refused.into_iter().for_each(|waiting| waiting.refuse(&NoReply::NotLeader));
            batch = passes;
            if batch.is_empty() {
                continue;
            }
        }
        let Some(current) = term.borrow().clone() else {
            batch.into_iter().for_each(|waiting| waiting.refuse(&NoReply::NotLeader));
            continue;
        };
        let raft = raft.clone();
        let payload = encode_entry(current.head(count(&batch)), batch.iter().map(|waiting| &waiting.bytes));
        in_flight.reap();
        in_flight.0.spawn(async move {
            let answered = tokio::time::timeout(PATIENCE, raft.propose(Bytes::from(payload))).await;
            drop(place);
            let late = || ProposeError::OutcomeUnknown { reason: "no majority has confirmed it in time".to_owned() };
            answer(batch, answered.unwrap_or_else(|_| Err(late())));
        });
    }
}

/// The entries on their way: as many as there are places.
#[derive(Default)]
struct InFlight(JoinSet<()>);

impl InFlight {
    /// Never resolves if there are none.
    async fn one_ended(&mut self) {
        match self.0.join_next().await {
            Some(ended) => pass_panic(ended),
            None => std::future::pending().await,
        }
    }

    fn reap(&mut self) {
        while let Some(ended) = self.0.try_join_next() {
            pass_panic(ended);
        }
    }
}

/// The callers of an entry whose task panicked would wait for ever, so the proposer, and with it the process, ends too.
fn pass_panic(ended: Result<(), JoinError>) {
    if let Err(lost) = ended
        && lost.is_panic()
    {
        std::panic::resume_unwind(lost.into_panic());
    }
}

fn count(batch: &[Waiting]) -> usize {
    batch.iter().map(|waiting| waiting.commands).sum()
}

/// L1: so many commands or 2 MiB; what does not fit any more begins the next entry.
fn gather(first: Waiting, inbox: &mut mpsc::Receiver<Waiting>) -> (Vec<Waiting>, Option<Waiting>) {
    let (mut size, mut commands) = (first.bytes.len(), first.commands);
    let mut batch = vec![first];
    while commands < MAX_ENTRY_COMMANDS {
        let Ok(waiting) = inbox.try_recv() else { break };
        size += waiting.bytes.len();
        commands += waiting.commands;
        if size > MAX_ENTRY_BYTES || commands > MAX_ENTRY_COMMANDS {
            return (batch, Some(waiting));
        }
        batch.push(waiting);
    }
    (batch, None)
}

fn answer(batch: Vec<Waiting>, answered: Result<Replies, ProposeError>) {
    match answered {
        Ok(replies) => {
            let mut replies = replies.into_iter().map(|reply| {
                reply.map_err(|rejection| match rejection {
                    // The fence refused the entry whole.
                    Rejection::StaleLeader { .. } => NoReply::NotLeader,
                    other => NoReply::Rejected(other),
                })
            });
            for waiting in batch {
                (waiting.then)(replies.by_ref().take(waiting.commands).collect());
            }
        }
        Err(error) => {
            let no_reply = match error {
                ProposeError::NotLeader { .. } | ProposeError::Stopped(_) => NoReply::NotLeader,
                too_large @ ProposeError::TooLarge { .. } => NoReply::TooLarge(too_large.to_string()),
                unknown @ ProposeError::OutcomeUnknown { .. } => NoReply::OutcomeUnknown(unknown.to_string()),
            };
            batch.into_iter().for_each(|waiting| waiting.refuse(&no_reply));
        }
    }
}

#[cfg(test)]
impl Proposer {
    /// Returns when something was queued and taken up: it waits for a place.
    pub async fn wait_taken(&self) {
        while self.memory.available_permits() == MEMORY_KIB || self.queue.capacity() < self.queue.max_capacity() {
            tokio::task::yield_now().await;
        }
    }

    /// All places of entries on their way, for a test that holds them.
    pub async fn all_places(&self) -> OwnedSemaphorePermit {
        let all = u32::try_from(IN_FLIGHT).unwrap();
        Arc::clone(&self.places).acquire_many_owned(all).await.unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::{NoReply, Waiting, answer, count, gather};
    use grid_core::Reply;
    use grid_raft::ProposeError;
    use grid_types::JobId;
    use grid_types::limits::{MAX_ENTRY_BYTES, MAX_ENTRY_COMMANDS};
    use tokio::sync::mpsc;

    fn waiting(bytes: usize) -> Waiting {
        together(1, bytes)
    }

    fn together(commands: usize, bytes: usize) -> Waiting {
        Waiting { bytes: vec![0; bytes], commands, drains: false, then: Box::new(|_| ()), _share: None }
    }

    #[test]
    fn l1_an_entry_has_at_most_so_many_commands_and_bytes() {
        let (queue, mut inbox) = mpsc::channel(2 * MAX_ENTRY_COMMANDS);
        for _ in 0..2 * MAX_ENTRY_COMMANDS {
            assert!(queue.try_send(waiting(10)).is_ok());
        }
        let (batch, next) = gather(waiting(10), &mut inbox);
        assert_eq!((batch.len(), next.is_none()), (MAX_ENTRY_COMMANDS, true));

        let (queue, mut inbox) = mpsc::channel(10);
        for _ in 0..3 {
            assert!(queue.try_send(waiting(MAX_ENTRY_BYTES / 2)).is_ok());
        }
        let (batch, next) = gather(waiting(1), &mut inbox);
        assert_eq!(batch.len(), 2, "two halves and the first one do not fit together");
        assert!(next.is_some(), "what did not fit is kept for the next entry");
    }

    #[test]
    fn l1_what_is_proposed_together_is_never_torn() {
        let (queue, mut inbox) = mpsc::channel(100);
        for _ in 0..80 {
            assert!(queue.try_send(together(60, 10)).is_ok());
        }
        let (batch, next) = gather(together(60, 10), &mut inbox);
        assert_eq!(count(&batch), MAX_ENTRY_COMMANDS / 60 * 60, "another sixty would be too many");
        assert_eq!(next.map(|waiting| waiting.commands), Some(60));
    }

    #[test]
    fn each_command_gets_its_own_reply() {
        let (heard, replies) = std::sync::mpsc::channel();
        let hearing = |name: &'static str, commands| Waiting {
            then: Box::new({
                let heard = heard.clone();
                move |replies| replies.into_iter().for_each(|reply| heard.send((name, reply)).unwrap())
            }),
            ..together(commands, 0)
        };
        let reply = |id| Ok(Reply::Submitted { job: JobId(id), repeated: false });
        answer(vec![hearing("a", 2), hearing("b", 1)], Ok(vec![reply(1), reply(2), reply(3)]));
        let got: Vec<_> = replies.try_iter().collect();
        let wanted = [("a", 1), ("a", 2), ("b", 3)].map(|(name, id)| (name, reply(id).map_err(NoReply::Rejected)));
        assert_eq!(got, wanted);
        answer(vec![hearing("a", 2)], Err(ProposeError::OutcomeUnknown { reason: "late".to_owned() }));
        assert_eq!(replies.try_iter().count(), 2, "all of them are told");
    }
}
