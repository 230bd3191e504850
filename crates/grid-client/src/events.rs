//! Receives events as they happen, over any number of connections.
//!
//! Each event has a number, and the stream continues after the last one that it delivered: no event is lost or delivered twice,
//! whichever controller answers next. That holds from the first event, because a stream that begins "now" first asks for the
//! current number.

use std::time::Instant;

use grid_types::api::{EventDoc, ListDoc};

use crate::call::{Call, Journey, unexpected};
use crate::client::{Client, push};
use crate::error::Error;
use crate::lines::{Lines, Reopening};

const PATH: [&str; 3] = ["api", "v1", "events"];

/// Selects events; an empty field matches any.
#[derive(Debug, Clone, Default)]
pub struct EventsQuery {
    /// Only events of these kinds; empty: all.
    pub kinds: Vec<String>,
    /// Only events about this job.
    pub job: Option<String>,
    /// Only events about this node.
    pub node: Option<String>,
    /// Only events of this namespace.
    pub namespace: Option<String>,
}

impl EventsQuery {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "kind", (!self.kinds.is_empty()).then(|| self.kinds.join(",")));
        push(&mut pairs, "job", self.job.as_ref());
        push(&mut pairs, "node", self.node.as_ref());
        push(&mut pairs, "namespace", self.namespace.as_ref());
        pairs
    }
}

impl Client {
    /// One page, newest first; `before` is the `next` of the previous page.
    ///
    /// # Errors
    /// When no controller could answer.
    pub async fn events(
        &self,
        query: &EventsQuery,
        limit: u32,
        before: Option<&str>,
    ) -> Result<ListDoc<EventDoc>, Error> {
        let mut pairs = query.pairs();
        push(&mut pairs, "limit", Some(limit));
        push(&mut pairs, "before", before);
        self.get(&PATH, pairs).await
    }

    /// Events after the number `after`; without it, those from now on.
    ///
    /// # Errors
    /// When no controller could answer.
    pub async fn listen(&self, query: EventsQuery, after: Option<u64>) -> Result<EventStream<'_>, Error> {
        let after = match after {
            Some(after) => after,
            None => self.events(&EventsQuery::default(), 1, None).await?.items.first().map_or(0, |event| event.id),
        };
        let mut stream = EventStream {
            client: self,
            query,
            after,
            lines: None,
            reopening: Reopening::default(),
            connected_at: Instant::now(),
        };
        stream.lines = Some(stream.open().await?);
        stream.connected_at = Instant::now();
        Ok(stream)
    }
}

/// See [`Client::listen`].
pub struct EventStream<'a> {
    client: &'a Client,
    query: EventsQuery,
    after: u64,
    lines: Option<Lines>,
    reopening: Reopening,
    connected_at: Instant,
}

impl EventStream<'_> {
    /// The next event, however long it takes.
    ///
    /// # Errors
    /// When no controller could be reached any more, or one refuses. The next call tries again, from the same place.
    pub async fn next(&mut self) -> Result<EventDoc, Error> {
        loop {
            let Some(lines) = &mut self.lines else {
                self.lines = Some(self.open().await?);
                self.connected_at = Instant::now();
                continue;
            };
            let Some(line) = lines.next().await else {
                self.reopening.pause(lines).await?;
                self.lines = None;
                continue;
            };
            // The data is complete: id and event are for readers that do not parse it.
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            let Ok(event) = serde_json::from_slice::<EventDoc>(data) else { continue };
            self.reopening.received();
            if event.id > self.after {
                self.after = event.id;
                return Ok(event);
            }
        }
    }

    /// When a controller last began to send the stream.
    #[must_use]
    pub fn connected_at(&self) -> Instant {
        self.connected_at
    }

    async fn open(&self) -> Result<Lines, Error> {
        let mut pairs = self.query.pairs();
        push(&mut pairs, "after", Some(self.after));
        let call = Call::get(&PATH, pairs).streamed("text/event-stream");
        let answer = self.client.transport.carry(&call, &mut Journey::default()).await?;
        let stream = answer.stream.ok_or_else(|| unexpected(&answer.server, "no stream".to_owned()))?;
        Ok(Lines::new(stream))
    }
}
