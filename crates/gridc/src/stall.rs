//! When a job that is watched stands still, and whether the reason is news.
//!
//! It stands still if it runs, nothing of it is on a node, and nothing has changed for [`QUIET`]: shorter pauses are the
//! work of a scheduler, not something a person has to know.
//! Reasons that differ only in a duration ("unhealthy for 41s") are one: a log wants a line a change, not a line a second.

use std::time::{Duration, Instant};

use grid_types::api::JobDoc;
use grid_types::{JobStatus, Outcome, Span};

use crate::text::count;

const QUIET: Duration = Duration::from_secs(2);

pub struct Stall {
    since: Instant,
    told: Option<String>,
}

impl Stall {
    /// From now on it is quiet.
    pub fn begin() -> Self {
        Self { since: Instant::now(), told: None }
    }

    pub fn is_still(&self, doc: &JobDoc) -> bool {
        let waits = doc.status == JobStatus::Running && count(&doc.counts, Outcome::Running) == 0;
        waits && self.since.elapsed() > QUIET
    }

    /// True once for each reason.
    pub fn is_news(&mut self, why: &str) -> bool {
        let timeless = why.split(' ').filter(|word| word.parse::<Span>().is_err()).collect::<Vec<_>>().join(" ");
        let news = self.told.as_ref() != Some(&timeless);
        self.told = Some(timeless);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::{QUIET, Stall};
    use crate::samples::job;

    #[test]
    fn a_reason_is_news_once_however_long_it_lasts() {
        let mut stall = Stall::begin();
        let said = [
            "step 0 waits for web-07, unhealthy for 41s",
            "step 0 waits for web-07, unhealthy for 42s",
            "step 0 waits for web-07, dead for 1m",
            "step 0 waits for web-07, dead for 1m (and 1 more)",
            "step 1 waits for web-07, dead for 1m (and 1 more)",
            "step 1 waits for web-07, dead for 2m (and 1 more)",
        ];
        assert_eq!(said.map(|why| stall.is_news(why)), [true, false, true, true, true, false]);
    }

    #[test]
    fn only_a_running_job_of_which_nothing_runs_stands_still() {
        let mut stall = Stall::begin();
        let waits = job("running", &[("success", 1), ("pending", 2)]);
        assert!(!stall.is_still(&waits), "it has only just become quiet");
        stall.since -= QUIET * 2;
        assert!(stall.is_still(&waits));
        assert!(!stall.is_still(&job("running", &[("running", 1), ("pending", 2)])));
        assert!(!stall.is_still(&job("pending", &[("pending", 3)])));
        assert!(!stall.is_still(&job("failed", &[("failed", 3)])));
    }
}
