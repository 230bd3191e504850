//! Receives the outputs of a job as they are printed, over any number of connections.
//!
//! Each record names its output and the range of bytes in it. A stream that broke off before its `end` is opened again at the
//! last position of every output, and repeated bytes are dropped: nothing is lost or shown twice.

use std::collections::HashMap;
use std::time::Instant;

use grid_types::api::{LogCursor, LogDoc, LogText, LogsBody};
use grid_types::{JobId, StepIndex};

use crate::call::{Call, Journey, unexpected};
use crate::client::{Client, push};
use crate::error::Error;
use crate::lines::{Lines, Reopening};

/// A body has at most 1 MiB; the reader drops the repeated bytes of the remaining outputs.
const MAX_CURSORS: usize = 5_000;

/// Selects outputs of a job; an empty field matches any.
#[derive(Debug, Clone, Default)]
pub struct LogsQuery {
    /// Wait until the job has ended.
    pub follow: bool,
    /// Only this step.
    pub step: Option<StepIndex>,
    /// Only these nodes; empty: all.
    pub nodes: Vec<String>,
    /// The attempt; the newest if it is left out.
    pub attempt: Option<u32>,
    /// Only this many last lines of each output.
    pub tail: Option<u32>,
    /// The run; the newest if it is left out.
    pub run: Option<u32>,
}

impl Client {
    /// The lines of a job's outputs.
    ///
    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn logs(&self, namespace: &str, job: JobId, query: LogsQuery) -> Result<LogStream<'_>, Error> {
        let namespace = namespace.to_owned();
        let (seen, reopening) = (HashMap::new(), Reopening::default());
        let mut stream = LogStream {
            client: self,
            namespace,
            job,
            query,
            seen,
            lines: None,
            reopening,
            connected_at: Instant::now(),
        };
        stream.lines = Some(stream.open().await?);
        stream.connected_at = Instant::now();
        Ok(stream)
    }

    /// The bytes of one output from `offset` on, over one connection.
    ///
    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn raw_output(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: &str,
        query: RawQuery,
    ) -> Result<RawOutput, Error> {
        let (job, step) = (job.to_string(), step.to_string());
        let path = ["api", "v1", "namespaces", namespace, "jobs", &job, "output", &step, node];
        let mut pairs = Vec::new();
        push(&mut pairs, "follow", query.follow.then_some("true"));
        push(&mut pairs, "attempt", query.attempt);
        push(&mut pairs, "run", query.run);
        push(&mut pairs, "offset", Some(query.offset).filter(|offset| *offset > 0));
        let call = Call::get(&path, pairs).streamed("*/*");
        let answer = self.transport.carry(&call, &mut Journey::default()).await?;
        let stream = answer.stream.ok_or_else(|| unexpected(&answer.server, "no stream".to_owned()))?;
        let header = |name: &str| stream.headers().get(name).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(RawOutput {
            offset: header("x-grid-output-offset").unwrap_or(query.offset),
            attempt: header("x-grid-output-attempt").and_then(|n| u32::try_from(n).ok()),
            stream,
        })
    }
}

/// A part of one output.
#[derive(Debug, Clone, Copy, Default)]
pub struct RawQuery {
    /// Wait until the output is complete.
    pub follow: bool,
    /// The first byte.
    pub offset: u64,
    /// The attempt; the newest if it is left out.
    pub attempt: Option<u32>,
    /// The run; the newest if it is left out.
    pub run: Option<u32>,
}

/// See [`Client::raw_output`].
pub struct RawOutput {
    /// Position of the first byte: more than requested if the bytes before it are no longer there.
    pub offset: u64,
    /// The attempt that printed the output.
    pub attempt: Option<u32>,
    stream: reqwest::Response,
}

impl RawOutput {
    /// The next piece; `None` after the last one.
    ///
    /// # Errors
    /// When the stream broke off before its end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let chunk = self.stream.chunk().await.map_err(|e| crate::call::root_cause(&e))?;
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }
}

/// Step, node, epoch, attempt.
type Place = (u32, String, u32, u32);

/// See [`Client::logs`].
pub struct LogStream<'a> {
    client: &'a Client,
    namespace: String,
    job: JobId,
    query: LogsQuery,
    /// Run and offset of each output.
    seen: HashMap<Place, (u64, u64)>,
    lines: Option<Lines>,
    reopening: Reopening,
    connected_at: Instant,
}

impl LogStream<'_> {
    /// The next record; `None` after the end.
    ///
    /// # Errors
    /// When no controller could be reached any more, or one refuses. The next call continues from the same position.
    pub async fn next(&mut self) -> Result<Option<LogDoc>, Error> {
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
            match serde_json::from_slice(&line) {
                Ok(LogDoc::Output(text)) => {
                    self.reopening.received();
                    if let Some(fresh) = self.fresh(text) {
                        return Ok(Some(LogDoc::Output(fresh)));
                    }
                }
                Ok(record) => {
                    self.reopening.received();
                    return Ok(Some(record));
                }
                // An empty line is a keep-alive.
                Err(_) => {}
            }
        }
    }

    /// When a controller last began to send the stream.
    #[must_use]
    pub fn connected_at(&self) -> Instant {
        self.connected_at
    }

    /// The part that was not shown yet.
    fn fresh(&mut self, mut text: LogText) -> Option<LogText> {
        let place = (text.step, text.node.clone(), text.epoch, text.attempt);
        let known = self.seen.entry(place).or_insert((text.run, text.offset));
        let same = known.0 == text.run || known.0 == 0 || text.run == 0;
        if same && text.next <= known.1 {
            return None;
        }
        if same && text.offset < known.1 {
            // Cut at the position only if bytes and characters have the same length; otherwise a part is shown again.
            let skip = usize::try_from(known.1 - text.offset).unwrap_or(usize::MAX);
            let exact = text.text.len() as u64 == text.next - text.offset;
            if let Some(rest) = text.text.get(skip..).filter(|_| exact).map(str::to_owned) {
                (text.text, text.offset) = (rest, known.1);
            }
        }
        *known = (if text.run == 0 { known.0 } else { text.run }, text.next);
        Some(text)
    }

    async fn open(&self) -> Result<Lines, Error> {
        let mut pairs = Vec::new();
        push(&mut pairs, "follow", self.query.follow.then_some("true"));
        push(&mut pairs, "step", self.query.step);
        push(&mut pairs, "node", (!self.query.nodes.is_empty()).then(|| self.query.nodes.join(",")));
        push(&mut pairs, "attempt", self.query.attempt);
        push(&mut pairs, "tail", self.query.tail);
        push(&mut pairs, "run", self.query.run);
        let job = self.job.to_string();
        let path = ["api", "v1", "namespaces", &self.namespace, "jobs", &job, "logs"];
        let from = self.seen.iter().take(MAX_CURSORS).map(|((step, node, epoch, attempt), (run, next))| LogCursor {
            step: *step,
            node: node.clone(),
            epoch: *epoch,
            attempt: *attempt,
            run: *run,
            next: *next,
        });
        let body = LogsBody { from: from.collect() };
        let call = if body.from.is_empty() {
            Call::get(&path, pairs)
        } else {
            let body = serde_json::to_vec(&body).map_err(|e| Error::Setup(e.to_string()))?;
            Call { query: pairs, ..Call::post(&path, body) }
        };
        let call = call.streamed("application/x-ndjson");
        let answer = self.client.transport.carry(&call, &mut Journey::default()).await?;
        let stream = answer.stream.ok_or_else(|| unexpected(&answer.server, "no stream".to_owned()))?;
        Ok(Lines::new(stream))
    }
}
