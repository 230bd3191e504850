//! Delivers events to subscribers: the newest ones from memory, everything older from SQLite.
//!
//! ```text
//!   machine (stored a batch) ──bell──► feed: reads the new rows once ──► ring of the newest ──► subscriber, subscriber …
//!                                                       SQLite ──pages──────────────────────────┘ (who is further behind)
//! ```
//!
//! A subscriber is a position, not a queue: however slowly it reads, it holds [`AHEAD`] events and a page, and goes on
//! behind the last one it took. So none is lost or doubled, and a number from before a restart is as good as any other.
//! Bounds: [`SUBSCRIBERS`] at once, [`RING`] events in memory, pages of [`PAGE`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grid_store::{EventFilter, EventRow, Reader};
use grid_tasks::Tasks;
use grid_types::Code;
use grid_types::api::EventDoc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::control::Refusal;
use crate::documents;

const SUBSCRIBERS: usize = 256;
const RING: usize = 1_024;
const PAGE: usize = 256;
const AHEAD: usize = 64;
/// After a read that failed; the store says why, and the process ends if it is for good.
const PAUSE: Duration = Duration::from_secs(1);

pub struct EventFeed {
    reader: Reader,
    ring: Mutex<Ring>,
    /// The number of the newest event in the ring.
    newest: watch::Sender<u64>,
    /// Somebody came to listen.
    came: Notify,
    places: Arc<Semaphore>,
    tasks: Tasks,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<EventRow>,
    /// Every event after this one is in the ring.
    after: u64,
}

impl EventFeed {
    /// `bell` rings whenever events may have been stored.
    pub fn start(reader: Reader, bell: watch::Receiver<u64>, tasks: &Tasks) -> Arc<Self> {
        let feed = Arc::new(Self {
            reader,
            ring: Mutex::default(),
            newest: watch::Sender::new(0),
            came: Notify::new(),
            places: Arc::new(Semaphore::new(SUBSCRIBERS)),
            tasks: tasks.clone(),
        });
        tasks.start("events", fill(Arc::clone(&feed), bell));
        feed
    }

    /// Events behind `after`; without it, those from now on.
    pub async fn subscribe(
        self: &Arc<Self>,
        filter: EventFilter,
        after: Option<u64>,
    ) -> Result<mpsc::Receiver<EventDoc>, Refusal> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = format!("this controller already has {SUBSCRIBERS} listeners; ask another, or try again");
            Refusal::new(Code::QueueFull, message)
        })?;
        let after = match after {
            Some(after) => after,
            None => {
                let failed = |why: String| Refusal::new(Code::Internal, format!("cannot read events: {why}"));
                self.read(Reader::newest_event).await.map_err(failed)?
            }
        };
        self.came.notify_one();
        let (events, listener) = mpsc::channel(AHEAD);
        self.tasks.start_request("event-listener", serve(Arc::clone(self), filter, after, events, place));
        Ok(listener)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, grid_store::StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let reader = self.reader.clone();
        let read = tokio::task::spawn_blocking(move || query(&reader)).await;
        read.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    /// From memory: those that match, and how far was looked. `None`: `after` is too far back.
    fn recent(&self, filter: &EventFilter, after: u64) -> Option<(Vec<EventRow>, u64)> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if after < ring.after {
            return None;
        }
        let from = ring.events.partition_point(|event| event.id <= after);
        let looked: Vec<_> = ring.events.iter().skip(from).take(PAGE).collect();
        let reached = looked.last().map_or(after, |event| event.id);
        Some((looked.into_iter().filter(|event| filter.matches(event)).cloned().collect(), reached))
    }

    fn has_listeners(&self) -> bool {
        self.places.available_permits() < SUBSCRIBERS
    }

    /// A listener that is behind `newest` reads from SQLite up to it.
    fn begin_after(&self, newest: u64) {
        *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = Ring { events: VecDeque::new(), after: newest };
        self.newest.send_replace(newest);
    }

    fn push(&self, events: Vec<EventRow>) {
        let Some(newest) = events.last().map(|event| event.id) else { return };
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.events.extend(events);
        while ring.events.len() > RING {
            ring.after = ring.events.pop_front().map_or(ring.after, |event| event.id);
        }
        drop(ring);
        self.newest.send_replace(newest);
    }
}

/// Reads what is new, once for all subscribers; while there are none, nothing.
async fn fill(feed: Arc<EventFeed>, mut bell: watch::Receiver<u64>) {
    let mut at: Option<u64> = None;
    loop {
        while !feed.has_listeners() {
            if let Some(at) = at.take() {
                feed.begin_after(at);
            }
            tokio::select! {
                () = feed.came.notified() => {}
                rung = bell.changed() => if rung.is_err() { return },
            }
        }
        let read = match at {
            None => feed.read(Reader::newest_event).await.map(|newest| {
                feed.begin_after(newest);
                (Vec::new(), newest)
            }),
            Some(at) => feed.read(move |reader| reader.events_after(&EventFilter::default(), at, PAGE)).await,
        };
        match read {
            Ok((events, reached)) => {
                let full = events.len() == PAGE;
                feed.push(events);
                at = Some(reached);
                if full {
                    continue;
                }
            }
            Err(why) => {
                tracing::warn!("events cannot be read: {why}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        }
        if bell.changed().await.is_err() {
            return;
        }
    }
}

async fn serve(
    feed: Arc<EventFeed>,
    filter: EventFilter,
    mut at: u64,
    events: mpsc::Sender<EventDoc>,
    _place: OwnedSemaphorePermit,
) {
    let mut newest = feed.newest.subscribe();
    loop {
        newest.mark_unchanged();
        let found = match feed.recent(&filter, at) {
            Some(found) => found,
            None => {
                let filter = filter.clone();
                match feed.read(move |reader| reader.events_after(&filter, at, PAGE)).await {
                    Ok(found) => found,
                    Err(why) => {
                        tracing::warn!("events cannot be read: {why}");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                }
            }
        };
        let (page, reached) = found;
        let moved = reached > at;
        for event in page {
            if events.send(documents::event(event)).await.is_err() {
                return;
            }
        }
        at = reached.max(at);
        if !moved {
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { return },
                () = events.closed() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AHEAD, EventFeed, PAGE, RING};
    use grid_core::{BeginTerm, Changes, Command, EntryHead, Quotas, RegisterNode, State, apply, decode_entry};
    use grid_core::{encode_command, encode_entry};
    use grid_store::{EventFilter, Position, Store};
    use grid_types::node::{Capacity, NodeFacts};
    use tokio::sync::watch;

    /// A store that is given one event a call.
    struct Source {
        state: State,
        store: Store,
        index: u64,
        bell: watch::Sender<u64>,
        _folder: tempfile::TempDir,
    }

    impl Source {
        fn new() -> (Self, std::sync::Arc<EventFeed>) {
            let folder = tempfile::tempdir().unwrap();
            let (store, _) = Store::open(&folder.path().join("grid.db")).unwrap();
            let (bell, rings) = watch::channel(0);
            let feed = EventFeed::start(store.reader(), rings, &grid_tasks::Tasks::default());
            let mut source = Self { state: State::default(), store, index: 0, bell, _folder: folder };
            source.apply(&Command::BeginTerm(begin()));
            (source, feed)
        }

        fn apply(&mut self, command: &Command) {
            self.index += 1;
            let leadership = &self.state.meta.leadership;
            let term = leadership.term.max(1);
            let head = EntryHead { epoch: leadership.epoch, term, now_ms: self.index, wall_ms: 1, commands: 1 };
            let entry = decode_entry(&encode_entry(head, [&encode_command(command)])).unwrap();
            let changes: Vec<Changes> = vec![apply(&mut self.state, &entry).changes];
            let at = Position { term: 1, index: self.index };
            self.store.persist(&self.state, &changes, at, None).unwrap();
            self.bell.send_replace(self.index);
        }

        fn register(&mut self, number: usize) {
            let facts = NodeFacts { capacity: Capacity { slots: 1, ..Capacity::default() }, ..NodeFacts::default() };
            self.apply(&Command::RegisterNode(RegisterNode {
                id: format!("n-{number}").parse().unwrap(),
                facts,
                journal_id: vec![1; 16],
                boot: 1,
                nonce: vec![2; 16],
                known_session_lives: false,
                agent: false,
                outstanding: Vec::new(),
                unstarted: Vec::new(),
                secret: None,
            }));
        }
    }

    fn begin() -> BeginTerm {
        BeginTerm {
            term: 1,
            leader: "c1".parse().unwrap(),
            api_url: String::new(),
            grpc_addr: String::new(),
            quotas: Quotas::default(),
            cluster_id: String::new(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        }
    }

    async fn until(mut holds: impl FnMut() -> bool) {
        let waiting = async {
            while !holds() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it never came to hold");
    }

    #[tokio::test]
    async fn a_listener_far_behind_misses_nothing_and_hears_nothing_twice() {
        let (mut source, feed) = Source::new();
        let mut listener = feed.subscribe(EventFilter::default(), Some(0)).await.unwrap();
        assert_eq!(listener.recv().await.unwrap().kind, "TermBegun");
        // Nobody reads while more happens than memory holds.
        let many = RING + 2 * PAGE + AHEAD;
        for number in 0..many {
            source.register(number);
        }
        for number in 0..many {
            let event = listener.recv().await.unwrap();
            assert_eq!((event.id, event.subject), (number as u64 + 2, format!("n-{number}")));
        }
        source.register(many);
        assert_eq!(listener.recv().await.unwrap().subject, format!("n-{many}"), "from memory again");
    }

    #[tokio::test]
    async fn a_listener_without_a_number_hears_what_happens_next_and_only_what_it_asked_for() {
        let (mut source, feed) = Source::new();
        source.register(1);
        let filter = EventFilter { node: Some("n-3".to_owned()), ..EventFilter::default() };
        let mut listener = feed.subscribe(filter, None).await.unwrap();
        source.register(2);
        source.register(3);
        assert_eq!(listener.recv().await.unwrap().subject, "n-3");
    }

    #[tokio::test]
    async fn while_nobody_listens_nothing_is_read_and_whoever_comes_back_misses_nothing() {
        let (mut source, feed) = Source::new();
        let mut first = feed.subscribe(EventFilter::default(), Some(0)).await.unwrap();
        assert_eq!(first.recv().await.unwrap().id, 1);
        until(|| feed.ring.lock().unwrap().after == 1).await;
        source.register(1);
        assert_eq!(first.recv().await.unwrap().subject, "n-1");
        let in_memory = || feed.ring.lock().unwrap().events.len();
        assert_eq!(in_memory(), 1);
        drop(first);
        until(|| !feed.has_listeners()).await;
        source.register(2);
        until(|| in_memory() == 0).await;
        for number in 3..=PAGE {
            source.register(number);
        }
        assert_eq!(in_memory(), 0);
        let mut second = feed.subscribe(EventFilter::default(), Some(2)).await.unwrap();
        for number in 2..=PAGE {
            assert_eq!(second.recv().await.unwrap().subject, format!("n-{number}"));
        }
        source.register(PAGE + 1);
        assert_eq!(second.recv().await.unwrap().subject, format!("n-{}", PAGE + 1));
        assert!(feed.ring.lock().unwrap().after > PAGE as u64, "memory begins again with who came");
    }
}
