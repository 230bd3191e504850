//! Reads query parameters: known ones are checked, all others refused, every fault in one answer.
//!
//! Not here: the parameters of a list (each handler asks for its own).

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use grid_types::Faults;
use grid_types::job::{Target, TargetError};

use crate::http::refused::Refused;

/// The longest target in a query, in characters; job files and bodies take longer ones.
const MAX_QUERY_TARGET: usize = 4096;

/// Rows of a page unless the client asks for another number.
pub const DEFAULT_LIMIT: u32 = 100;
/// Most rows of a page, and all that an alias list shows.
pub const MAX_LIMIT: u32 = 1_000;

/// The parameters that were given. Ask for each known one, then `finish`.
#[derive(Debug)]
pub struct Params {
    given: Vec<(String, String)>,
    known: Vec<&'static str>,
    faults: Faults,
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut faults = Faults::default();
        let given = match Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) {
            Ok(Query(given)) => given,
            Err(e) => {
                faults.add("", format!("the query cannot be read: {e}"));
                Vec::new()
            }
        };
        Ok(Self { given, known: Vec::new(), faults })
    }
}

impl Params {
    /// `limit`, from 1 to 1,000.
    pub fn limit(&mut self, default: u32) -> u32 {
        let read = |text: &str| text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n));
        self.read("limit", &format!("must be a whole number from 1 to {MAX_LIMIT}"), read).unwrap_or(default)
    }

    /// `run`, the number of a run of a job, from 1.
    pub fn run(&mut self) -> Option<u32> {
        let read = |text: &str| text.parse().ok().filter(|run| *run > 0);
        self.read("run", "must be the number of a run, from 1", read)
    }

    /// A parameter with a syntax of its own, whose parser names the fault.
    pub fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.take(name)?;
        text.parse().map_err(|e: T::Err| self.faults.add(name, e.to_string())).ok()
    }

    /// `target`, a set of nodes.
    pub fn target(&mut self) -> Option<Target> {
        let text = self.take("target")?;
        // Four times three bytes for a character still fit into the longest request line.
        if text.chars().count() > MAX_QUERY_TARGET {
            self.faults.add("target", format!("has at most {MAX_QUERY_TARGET} characters in a query"));
            return None;
        }
        text.parse().map_err(|TargetError { at, problem }| self.faults.add_at("target", problem, at)).ok()
    }

    /// A parameter that is one of a few words.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let read = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        self.read(name, &format!("must be one of {}", known.join(", ")), read)
    }

    pub fn read<T>(&mut self, name: &'static str, problem: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.take(name)?;
        let value = read(&text);
        if value.is_none() {
            self.faults.add(name, problem);
        }
        value
    }

    /// Refuses what nobody asked for.
    pub fn finish(mut self) -> Result<(), Refused> {
        let known = if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") };
        for (name, _) in &self.given {
            let shown: String = name.chars().take(60).collect();
            self.faults.add(shown, format!("unknown query parameter; known here: {known}"));
        }
        self.faults.finish(()).map_err(Refused::bad_request)
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let (mut found, rest): (Vec<_>, Vec<_>) = self.given.drain(..).partition(|(given, _)| given == name);
        self.given = rest;
        if found.len() > 1 {
            self.faults.add(name, "is given more than once");
            return None;
        }
        found.pop().map(|(_, value)| value)
    }
}
