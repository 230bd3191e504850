//! Counts what the listeners of this process refuse, by port and kind, for `/status` and the log.
//!
//! ```text
//!   refuse(port, kind, what) --> count += 1 --last line older than SAY_EVERY--> one warning, with the count since the last one
//! ```
//!
//! A flood costs one addition a refusal and one line in 30 s (`SAY_EVERY`) of each kind, whatever it says.
//! One table for the process, as its ports are: a refusal is counted where it happens, without a handle that every layer would
//! have to pass on. Nothing grows: ports and kinds are fixed.
//! Not here: requests that a well-behaved client gets wrong (a 404, a 422, NOT_LEADER); those have answers of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The same kind on the same port is logged once in this time.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// Where it was refused, named like the option that sets the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    Api,
    Raft,
    Grpc,
    Nats,
}

impl Port {
    pub const ALL: [Self; 4] = [Self::Api, Self::Raft, Self::Grpc, Self::Nats];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Raft => "raft",
            Self::Grpc => "grpc",
            Self::Nats => "nats",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident => $word:literal,)*) => {
        /// Why it was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// As `/status` names it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }
        }
    };
}

kinds! {
    /// All connections of the listener are taken.
    TooManyConnections => "too_many_connections",
    /// All streams are taken.
    TooManyStreams => "too_many_streams",
    /// A connection that asked for nothing in time.
    Silent => "silent",
    /// A message above the limit of its method.
    TooLarge => "too_large",
    /// A message that cannot be read, or lacks a part.
    Malformed => "malformed",
    /// A field above its bound.
    OutOfBounds => "out_of_bounds",
    /// E3: of another cluster.
    OtherCluster => "other_cluster",
    /// E3: meant for another member.
    OtherTarget => "other_target",
    /// E3: a member's id with a folder that is not the member's.
    OtherFolder => "other_folder",
    /// The sender is not a member.
    NotAMember => "not_a_member",
    /// A ballot that its sender cannot have.
    ForgedBallot => "forged_ballot",
    /// A term too far above the member's own.
    TermTooHigh => "term_too_high",
    /// A log position too far above the member's own.
    IndexTooHigh => "index_too_high",
    /// E2: a generation too far above the cluster's own.
    GenerationTooHigh => "generation_too_high",
    /// A call of a session that is not known, or without its secret.
    BadSecret => "bad_secret",
    /// A second stream of a session closed the first.
    StreamReplaced => "stream_replaced",
    /// A worker names a lease that nobody can have granted to it.
    InventedLease => "invented_lease",
    /// A request for a host that this controller does not answer for.
    WrongHost => "wrong_host",
    /// A request that a web page of another origin made.
    OtherOrigin => "other_origin",
    /// A new node beyond `--max-nodes`, or beyond what the facts of all nodes may take.
    TooManyNodes => "too_many_nodes",
    /// A message on a subject that does not name its sender's node, or names another.
    OtherNode => "other_node",
    /// A message of a session that is not open here.
    UnknownSession => "unknown_session",
    /// More messages or requests of one worker than it may have waiting.
    Flood => "flood",
    /// Messages were lost because they arrived faster than they were read.
    SlowConsumer => "slow_consumer",
    /// The nats-server forbids a subject.
    NotPermitted => "not_permitted",
    /// The nats-server reports an error.
    BrokerError => "broker_error",
}

struct Counter {
    total: AtomicU64,
    said: Mutex<Said>,
}

impl Counter {
    const fn new() -> Self {
        Self { total: AtomicU64::new(0), said: Mutex::new(Said { at: None, total: 0 }) }
    }
}

/// What the last line said.
struct Said {
    at: Option<Instant>,
    total: u64,
}

struct Table([[Counter; Kind::ALL.len()]; Port::ALL.len()]);

static TABLE: Table = Table::new();

/// Counts a refusal. It is logged with `what` unless one of its kind was logged lately; foreign text in `what` goes through
/// [`Foreign`](crate::Foreign).
pub fn refuse(port: Port, kind: Kind, what: fmt::Arguments<'_>) {
    if let Some(since) = TABLE.count(port, kind, Instant::now()) {
        tracing::warn!(port = port.word(), kind = kind.word(), since_last_line = since, "refused: {what}");
    }
}

/// The same for several of one message; none: nothing.
pub fn refuse_many(port: Port, kind: Kind, count: u64, what: fmt::Arguments<'_>) {
    if count > 0 {
        TABLE.add(port, kind, count - 1);
        refuse(port, kind, what);
    }
}

/// How often each kind was refused on each port since the process started; what never was is left out.
#[must_use]
pub fn counts() -> BTreeMap<String, BTreeMap<String, u64>> {
    TABLE.counts()
}

impl Table {
    const fn new() -> Self {
        Self([const { [const { Counter::new() }; Kind::ALL.len()] }; Port::ALL.len()])
    }

    fn add(&self, port: Port, kind: Kind, count: u64) {
        self.0[port as usize][kind as usize].total.fetch_add(count, Ordering::Relaxed);
    }

    /// If it is time for a line: how many there were since the last one, this one included.
    fn count(&self, port: Port, kind: Kind, now: Instant) -> Option<u64> {
        let counter = &self.0[port as usize][kind as usize];
        let total = counter.total.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut said = counter.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.at.is_some_and(|at| now.saturating_duration_since(at) < SAY_EVERY) {
            return None;
        }
        let since = total.saturating_sub(said.total);
        *said = Said { at: Some(now), total };
        Some(since)
    }

    fn counts(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut ports = BTreeMap::new();
        for (port, counters) in Port::ALL.into_iter().zip(&self.0) {
            let kinds: BTreeMap<String, u64> = Kind::ALL
                .iter()
                .zip(counters)
                .map(|(kind, counter)| (kind.word().to_owned(), counter.total.load(Ordering::Relaxed)))
                .filter(|(_, count)| *count > 0)
                .collect();
            if !kinds.is_empty() {
                ports.insert(port.word().to_owned(), kinds);
            }
        }
        ports
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::{Kind, Port, SAY_EVERY, Table};

    #[test]
    fn issue14_3_refusals_are_counted_and_logged_once_in_a_while() {
        let table = Table::new();
        let begin = Instant::now();
        assert_eq!(table.count(Port::Raft, Kind::NotAMember, begin), Some(1), "the first is logged at once");
        assert!((0..1_000).all(|_| table.count(Port::Raft, Kind::NotAMember, begin).is_none()));
        assert_eq!(table.count(Port::Grpc, Kind::NotAMember, begin), Some(1), "each port has lines of its own");
        assert_eq!(table.count(Port::Raft, Kind::NotAMember, begin + SAY_EVERY), Some(1_001));
        let counts = table.counts();
        assert_eq!(counts["raft"]["not_a_member"], 1_002);
        assert_eq!(counts["grpc"]["not_a_member"], 1);
        assert!(!counts.contains_key("api") && counts["raft"].len() == 1, "what never happened is left out");
    }

    #[test]
    fn every_kind_has_a_word_and_a_place_of_its_own() {
        let words: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().enumerate().all(|(at, kind)| *kind as usize == at));
        assert!(Port::ALL.iter().enumerate().all(|(at, port)| *port as usize == at));
    }
}
