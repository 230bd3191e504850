//! Sends one call to the controllers until one of them can answer it.
//!
//! A round asks every server once and follows NOT_LEADER; rounds repeat, with jittered waits, until `patience` is over. A call
//! ends at once with an answer, with a refusal that waiting does not change, or with the loss of the answer to a request that
//! must not happen twice.
//! Bounds: [`MAX_HOPS`] redirects per server and round, [`MAX_ANSWER_BYTES`] per answer, one timeout per attempt.
//!
//! With several servers one attempt gets only a share of the patience: a controller whose process is stopped still accepts
//! connections, and must not use up the time in which another one could answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grid_types::Code;
use grid_types::api::{ErrorDoc, HEADER_KEY, NotLeaderDoc};
use reqwest::Method;

use crate::clock::Clock;
use crate::error::{Error, Refusal};
use crate::key::IdempotencyKey;
use crate::server::ServerUrl;
use crate::token::Token;

const MAX_HOPS: u32 = 4;
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(1);
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(2);
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// A request, for any of the servers.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub method: Method,
    pub path: &'a [&'a str],
    pub query: Vec<(&'static str, String)>,
    pub key: Option<&'a IdempotencyKey>,
    pub body: Option<Vec<u8>>,
    /// Doing it twice is worse than an unknown outcome: once it may have been carried out, it is not sent again.
    pub at_most_once: bool,
    pub accept: &'static str,
    /// The caller reads the answer as it arrives: only its beginning has a timeout.
    pub streamed: bool,
    /// How long its beginning may take, if that is longer than the usual timeout.
    pub slow: Option<Duration>,
}

impl<'a> Call<'a> {
    pub fn get(path: &'a [&'a str], query: Vec<(&'static str, String)>) -> Self {
        let accept = "application/json";
        Self {
            method: Method::GET,
            path,
            query,
            key: None,
            body: None,
            at_most_once: false,
            accept,
            streamed: false,
            slow: None,
        }
    }

    pub fn post(path: &'a [&'a str], body: Vec<u8>) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(path, Vec::new()) }
    }

    pub fn delete(path: &'a [&'a str], query: Vec<(&'static str, String)>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path, query) }
    }

    fn may_change(&self) -> bool {
        self.method != Method::GET && !self.streamed
    }

    pub fn streamed(self, accept: &'static str) -> Self {
        Self { accept, streamed: true, ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub server: ServerUrl,
    /// Empty if the call is streamed.
    pub body: Vec<u8>,
    pub stream: Option<reqwest::Response>,
}

/// What happened during a call, whether it succeeded or not.
#[derive(Debug, Default)]
pub(crate) struct Journey {
    /// The answer to a request was lost: it may have been carried out.
    pub maybe_done: bool,
    /// In the current round: what each server did, and the last refusal that waiting may change.
    tried: Vec<String>,
    refusal: Option<Refusal>,
}

pub(crate) struct Transport {
    http: reqwest::Client,
    /// The configured servers, then those learnt from controllers.
    servers: Mutex<Vec<ServerUrl>>,
    patience: Duration,
    pub token: Option<Token>,
    /// The server that answered last; it is asked first.
    preferred: Mutex<Option<ServerUrl>>,
    pub clock: Clock,
}

enum Verdict {
    Answer(Answer),
    NotLeader(Option<ServerUrl>, Refusal),
    /// Waiting may change it.
    Later(Refusal),
    Silent(String),
}

enum Read {
    Whole(u16, Vec<u8>),
    TooLong,
    Stream(reqwest::Response),
}

impl Transport {
    pub fn new(servers: Vec<ServerUrl>, patience: Duration) -> Result<Self, Error> {
        if servers.is_empty() {
            return Err(Error::NoServer);
        }
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT.min(patience.max(Duration::from_millis(100))))
            // A stream may be quiet for hours; the loss of the machine must still be detected.
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_keepalive_retries(KEEPALIVE_PROBES)
            .user_agent(concat!("grid-client/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| Error::Setup(root_cause(&e)))?;
        Ok(Self {
            http,
            servers: Mutex::new(servers),
            patience,
            token: None,
            preferred: Mutex::new(None),
            clock: Clock::default(),
        })
    }

    pub fn add_servers(&self, more: impl IntoIterator<Item = ServerUrl>) {
        let mut servers = self.servers();
        for server in more {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }

    fn servers(&self) -> MutexGuard<'_, Vec<ServerUrl>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats rounds until the call has ended.
    pub async fn carry(&self, call: &Call<'_>, journey: &mut Journey) -> Result<Answer, Error> {
        let started = Instant::now();
        loop {
            journey.tried.clear();
            journey.refusal = None;
            if let Some(answer) = self.round(call, journey, started).await? {
                return Ok(answer);
            }
            let waited = started.elapsed();
            let left = self.patience.saturating_sub(waited);
            if left.is_zero() {
                return Err(journey.give_up(waited));
            }
            tokio::time::sleep(pause(waited).min(left)).await;
        }
    }

    /// Asks every server once; `None` if none of them had an answer yet.
    async fn round(&self, call: &Call<'_>, journey: &mut Journey, started: Instant) -> Result<Option<Answer>, Error> {
        for first in self.order() {
            let mut next = Some(first);
            let mut hops = 0;
            while let Some(server) = next.take() {
                let left = self.patience.saturating_sub(started.elapsed());
                match self.attempt(call, &server, left, journey).await? {
                    Verdict::Answer(answer) => {
                        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
                        return Ok(Some(answer));
                    }
                    Verdict::NotLeader(leader, refusal) => {
                        journey.tried.push(format!("{server}: not the leader"));
                        journey.refusal = Some(refusal);
                        hops += 1;
                        next = leader.filter(|leader| hops <= MAX_HOPS && *leader != server);
                    }
                    Verdict::Later(refusal) => {
                        journey.tried.push(format!("{server}: {refusal}"));
                        journey.maybe_done |= refusal.maybe_done;
                        journey.refusal = Some(refusal);
                    }
                    Verdict::Silent(problem) => journey.tried.push(format!("{server}: {problem}")),
                }
                if call.at_most_once && journey.maybe_done {
                    return Err(journey.give_up(started.elapsed()));
                }
            }
        }
        Ok(None)
    }

    fn order(&self) -> Vec<ServerUrl> {
        let preferred = self.preferred.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let servers = self.servers();
        let others = servers.iter().filter(|s| Some(*s) != preferred.as_ref()).cloned();
        preferred.iter().cloned().chain(others).collect()
    }

    async fn attempt(
        &self,
        call: &Call<'_>,
        server: &ServerUrl,
        left: Duration,
        journey: &mut Journey,
    ) -> Result<Verdict, Error> {
        let share = self.patience / u32::try_from(self.servers().len()).unwrap_or(u32::MAX);
        let limit = call.slow.unwrap_or(share.min(left)).max(SHORTEST_ATTEMPT);
        let mut request = self.http.request(call.method.clone(), server.resource(call.path, &call.query));
        request = request.header("accept", call.accept);
        if !call.streamed {
            request = request.timeout(limit);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.secret());
        }
        if let Some(key) = call.key {
            request = request.header(HEADER_KEY, key.as_str());
        }
        if let Some(body) = &call.body {
            request = request.header("content-type", "application/json").body(body.clone());
        }
        let read = async {
            let response = request.send().await?;
            let status = response.status();
            if let Some(date) = response.headers().get("date").and_then(|date| date.to_str().ok()) {
                self.clock.set(date);
            }
            if call.streamed && status.is_success() {
                return Ok(Read::Stream(response));
            }
            let body = bounded_body(response).await?;
            Ok::<_, reqwest::Error>(body.map_or(Read::TooLong, |body| Read::Whole(status.as_u16(), body)))
        };
        let Ok(read) = tokio::time::timeout(limit + SHORTEST_ATTEMPT, read).await else {
            return Ok(Verdict::Silent("no answer in time".to_owned()));
        };
        match read {
            Ok(Read::Stream(stream)) => {
                let answer = Answer { server: server.clone(), body: Vec::new(), stream: Some(stream) };
                Ok(Verdict::Answer(answer))
            }
            Ok(Read::Whole(status, body)) => {
                let verdict = judge(server, status, body)?;
                // A load balancer that lost the answer does not know the outcome of the request.
                journey.maybe_done |= matches!(verdict, Verdict::Silent(_)) && call.may_change();
                Ok(verdict)
            }
            Ok(Read::TooLong) => Err(unexpected(server, format!("an answer of more than {MAX_ANSWER_BYTES} bytes"))),
            Err(e) => {
                journey.maybe_done |= !e.is_connect() && call.may_change();
                let timed_out = e.is_timeout() && !e.is_connect();
                Ok(Verdict::Silent(if timed_out { "no answer in time".to_owned() } else { root_cause(&e) }))
            }
        }
    }
}

impl Journey {
    /// An answer of a controller explains more than a silent one.
    fn give_up(&mut self, waited: Duration) -> Error {
        match self.refusal.take() {
            Some(refusal) => Error::Refused(Refusal { maybe_done: self.maybe_done, ..refusal }),
            None => Error::Unreachable { waited, tried: std::mem::take(&mut self.tried), maybe_done: self.maybe_done },
        }
    }
}

fn judge(server: &ServerUrl, status: u16, body: Vec<u8>) -> Result<Verdict, Error> {
    if (200..300).contains(&status) {
        return Ok(Verdict::Answer(Answer { server: server.clone(), body, stream: None }));
    }
    let Ok(doc) = serde_json::from_slice::<ErrorDoc>(&body) else {
        let problem = format!("status {status}, {}", excerpt(&body));
        // A load balancer in front of restarting controllers answers with its own text.
        return if matches!(status, 502..=504) {
            Ok(Verdict::Silent(problem))
        } else {
            Err(unexpected(server, problem))
        };
    };
    match Code::from_word(&doc.error) {
        Some(Code::NotLeader) => {
            let leader = serde_json::from_slice::<NotLeaderDoc>(&body).ok().and_then(|doc| doc.leader_url);
            let leader = leader.and_then(|url| url.parse().ok());
            Ok(Verdict::NotLeader(leader, Refusal::new(status, doc)))
        }
        Some(Code::NoQuorum | Code::OutcomeUnknown) => Ok(Verdict::Later(Refusal::new(status, doc))),
        _ => Err(Error::Refused(Refusal::new(status, doc))),
    }
}

/// `None` if the answer is longer than anything that a controller sends.
async fn bounded_body(mut response: reqwest::Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

pub(crate) fn unexpected(server: &ServerUrl, problem: String) -> Error {
    Error::Unexpected { url: server.to_string(), problem }
}

fn excerpt(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(80).collect();
    if text.is_empty() { "an empty body".to_owned() } else { format!("{text:?}") }
}

/// A quarter of the time waited, so that a new leader is found soon after its election: from 100 ms to 1 s, each between half
/// of it and the whole, so that clients do not retry in step.
fn pause(waited: Duration) -> Duration {
    let longest = (waited / 4).clamp(FIRST_WAIT, LAST_WAIT);
    // Without randomness the full wait is used.
    let share = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
    longest.mul_f64(0.5 + share / 2.0)
}

/// The innermost cause: the outer ones only repeat the URL.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FIRST_WAIT, LAST_WAIT, pause};

    #[test]
    fn waits_grow_with_the_time_waited_and_stay_bounded() {
        for waited_ms in [0, 10, 1_000, 2_000, 600_000] {
            let waited = Duration::from_millis(waited_ms);
            let next = pause(waited);
            assert!(next >= FIRST_WAIT / 2 && next <= LAST_WAIT, "{waited_ms}: {next:?}");
            assert!(next <= FIRST_WAIT.max(waited / 4), "{waited_ms}: {next:?}");
        }
    }
}
