//! Decides everything that a worker does, and does none of it: the worker as a value.
//!
//! ```text
//!   messages of the leader ──►           ──► records for the journal, then starts, stops, messages
//!   events of leases       ──►  Engine   ──► register, open, drain, leave
//!   syncs, time, stop      ──►           ──► when to be woken
//!
//!   Pausing ──due──► Registering ──registered──► Opening ──opened──► Open ──drained, nothing outstanding──► Leaving ──► ended
//!      ▲                  │ refused, no answer      │ broken           │ broken, closed
//!      └──────────────────┴─────────────────────────┴──────────────────┘
//! ```
//!
//! [`Engine::handle`] takes what happened and changes the state, [`Engine::take_outputs`] returns what has to be done, in order: records
//! are written before anything that follows from them (W3). The caller reports back what became of it as further inputs.
//! No clock, randomness, file, socket, lock or task is in here: time comes with each input, the seed of the pauses and the reader of
//! outputs with [`Engine::new`]. The same inputs give the same outputs.
//! Leases go on running, ending and being journalled whether or not there is a session.
//! Not here: what becomes of one lease (`book`); finding the leader's address (`session::connect`); running programs (`run`).

pub mod book;
mod connecting;
mod ending;
pub mod record;
mod session;
#[cfg(test)]
mod tests;
mod values;

use grid_types::LeaseKey;

use book::{Book, Effects, Now};
use connecting::{Connecting, Random};
pub use ending::Stop;
use record::Record;
use session::Open;
pub use values::{Ending, Identity, Input, Output, Registration};

const CHORES_EVERY_MS: u64 = 600 * 1000;

/// Reads the last bytes of an output that is no longer in memory.
pub type ReadTail = Box<dyn Fn(&LeaseKey) -> Vec<u8> + Send>;

pub struct Engine {
    identity: Identity,
    book: Book,
    read_tail: ReadTail,
    random: Random,
    connection: Connection,
    connecting: Connecting,
    is_ready: bool,
    stop: Stop,
    /// Asked to stop, and nothing has run since then.
    idle_since_ms: Option<u64>,
    chores_at_ms: u64,
    outputs: Vec<Output>,
    /// Names node, session and leader epoch in the log.
    span: tracing::Span,
}

/// How far the way to a session is.
#[derive(Debug)]
enum Connection {
    /// Registers at this time.
    Pausing {
        until_ms: u64,
    },
    Registering,
    /// Registered; the stream is being opened.
    Opening(Open),
    Open(Open),
    Ended,
}

impl Engine {
    /// `book` has replayed the journal and recovered from it. `seed` spreads the pauses between attempts to register.
    #[must_use]
    pub fn new(identity: Identity, book: Book, seed: u64, read_tail: ReadTail) -> Self {
        let span = tracing::info_span!("worker", node = %identity.node_id);
        Self {
            identity,
            book,
            read_tail,
            random: Random(seed),
            connection: Connection::Pausing { until_ms: 0 },
            connecting: Connecting::default(),
            is_ready: false,
            stop: Stop::No,
            idle_since_ms: None,
            chores_at_ms: 0,
            outputs: Vec::new(),
            span,
        }
    }

    /// Takes what happened. What it asks for is in [`Self::take_outputs`].
    pub fn handle(&mut self, input: Input, now: Now) {
        let _in_session = self.span.clone().entered();
        match input {
            Input::Woken => {}
            Input::Lease(event) => self.book.happened(event, now),
            Input::Synced { up_to } => self.book.synced(up_to),
            Input::Stop(stop) => self.stop(stop, now),
            Input::Registered { reply, leader } => self.registered(&reply, leader, now),
            Input::NotRegistered(trouble) => self.not_registered(&trouble, now),
            Input::Opened { session } => self.opened(session, now),
            Input::Received { session, message } => self.received(session, message, now),
            Input::Resumed { session } => self.resumed(session, now),
            Input::UplinkFree { session } => self.speak(session, now),
            Input::Broken { session, reason } => self.broken(session, &reason, now),
            Input::Drained { session, problem } => self.drained(session, problem.as_deref()),
            Input::Left { session, problem } => self.left(session, problem.as_deref()),
        }
        self.advance(now);
    }

    /// What has to be done, in this order. Call until it is empty.
    #[must_use]
    pub fn take_outputs(&mut self) -> Vec<Output> {
        let Effects { records, sync, start, stop, discard, keep } = self.book.take_effects();
        let mut outputs = Vec::new();
        if !records.is_empty() {
            outputs.push(Output::Append(records));
        }
        if sync {
            outputs.push(Output::Sync { up_to: self.book.written() });
        }
        outputs.extend(start.into_iter().map(Output::Start));
        outputs.extend(stop.into_iter().map(Output::Stop));
        if !discard.is_empty() {
            outputs.push(Output::DiscardOutputs(discard));
        }
        if !keep.is_empty() {
            outputs.push(Output::KeepOutputs(keep));
        }
        outputs.append(&mut self.outputs);
        outputs
    }

    /// When [`Input::Woken`] has something to do, on the monotonic clock; always after `now`.
    #[must_use]
    pub fn wake_at_mono_ms(&self, now: Now) -> Option<u64> {
        let paused = match self.connection {
            Connection::Pausing { until_ms } => Some(until_ms),
            Connection::Registering | Connection::Opening(_) | Connection::Open(_) | Connection::Ended => None,
        };
        let session = match &self.connection {
            Connection::Open(open) => [Some(open.heartbeat_at_ms()), self.book.next_due_mono_ms()],
            _ => [None, None],
        };
        // A time that passed unseen (the worker wrote to its disk, or was stopped) is made up for at once: nothing else would wake
        // it. What the session has to say needs no wake-up (`wants_to_speak`), nor has patience that is over.
        let made_up = [paused, Some(self.chores_at_ms)].into_iter().flatten().map(|at_ms| at_ms.max(now.mono_ms + 1));
        let ahead = [session[0], session[1], self.out_of_patience_at_ms()].into_iter().flatten();
        ahead.filter(|at_ms| *at_ms > now.mono_ms).chain(made_up).min()
    }

    /// Whether [`Input::UplinkFree`] would send something.
    #[must_use]
    pub fn wants_to_speak(&self, now: Now) -> bool {
        match &self.connection {
            Connection::Open(open) => open.speaks() && (open.is_heartbeat_due(now) || self.book.has_outgoing(now)),
            _ => false,
        }
    }

    /// Everything that has to survive, for a journal that starts over. Holds what every output so far has asked to append.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        self.book.snapshot()
    }

    /// The number of the last record that was handed out.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.book.written()
    }

    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    fn advance(&mut self, now: Now) {
        if now.mono_ms >= self.chores_at_ms {
            self.chores_at_ms = now.mono_ms + CHORES_EVERY_MS;
            self.book.expire(now.mono_ms);
            self.outputs.push(Output::Chores);
        }
        self.end_or_drain(now);
        self.register_if_due(now);
    }

    fn end(&mut self, ending: Ending) {
        self.connection = Connection::Ended;
        self.outputs.push(Output::End(ending));
    }
}
