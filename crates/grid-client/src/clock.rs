//! Computes the current time from the controller that answered last.
//!
//! Controllers compute the ages and durations in documents. A client whose own clock is minutes off would show
//! a job of ten seconds as one of an hour. Every response has a `Date` header; between two of them the client's monotonic clock
//! continues from the last one. Without any, the client's wall clock is used.
//! It is exact to a second, like the header, and used for display only.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<(Timestamp, Instant)>>);

impl Clock {
    /// `date`: the header of a response that arrived just now; an invalid one changes nothing.
    pub fn set(&self, date: &str) {
        let Ok(at) = rfc2822::parse(date) else { return };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((at.timestamp(), Instant::now()));
    }

    pub fn now(&self) -> Timestamp {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.and_then(|(at, since)| at.checked_add(since.elapsed()).ok()).unwrap_or_else(Timestamp::now)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use jiff::Timestamp;

    #[test]
    fn the_time_is_that_of_the_last_readable_header() {
        let clock = Clock::default();
        let apart = clock.now().duration_since(Timestamp::now()).unsigned_abs();
        assert!(apart.as_secs() < 60, "without a header it is this machine's: {apart:?}");
        clock.set("Thu, 12 Feb 2026 10:30:00 GMT");
        clock.set("tomorrow");
        let at: Timestamp = "2026-02-12T10:30:00Z".parse().unwrap();
        assert!(clock.now() >= at && clock.now().duration_since(at).as_secs() < 60);
    }
}
