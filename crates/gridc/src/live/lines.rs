//! Prints progress as plain lines for logs and pipes: no control codes, nothing is drawn over.
//!
//! The beginning and the end of every step is a line, and so is every failure that is listed; progress between them is
//! printed ever less often ([`FIRST`] to [`LAST`]): a log of a day's job should be read, not scrolled.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use grid_types::api::{Counts, JobDoc, StepDoc};
use grid_types::{JobStatus, Outcome, Span};

use super::{LiveView, Look, MAX_LISTED};
use crate::out::Sink;
use crate::safe::Safe;
use crate::text::{count, counts_line, nodes, one_line, progress, step_name};

const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(30);

pub struct Lines {
    to: Sink,
    status: Option<JobStatus>,
    steps: BTreeMap<u32, Counts>,
    pace: Pace,
    waits: Option<String>,
    failed: usize,
}

/// When progress may be printed again.
struct Pace {
    after: Instant,
    pause: Duration,
}

/// What is new about a step.
enum News {
    Progress,
    BeginOrEnd,
}

impl Lines {
    pub fn new(to: Sink) -> Self {
        Self { to, status: None, steps: BTreeMap::new(), pace: Pace::begin(), waits: None, failed: 0 }
    }

    fn tell(&mut self, line: &str) {
        self.to.put(&Safe::line(line));
    }

    fn steps(&mut self, job: &JobDoc) {
        let may = self.pace.after <= Instant::now();
        let mut has_progress = false;
        for step in &job.steps {
            match self.news(step) {
                None => continue,
                Some(News::Progress) if !may => continue,
                Some(News::Progress) => has_progress = true,
                Some(News::BeginOrEnd) => self.pace = Pace::begin(),
            }
            self.steps.insert(step.step, step.counts.clone());
            let (done, all) = progress(&step.counts);
            self.tell(&format!("{}: {done}/{all} done: {}", step_name(step), counts_line(&step.counts)));
        }
        if has_progress {
            self.pace.slow_down();
        }
    }

    fn news(&self, step: &StepDoc) -> Option<News> {
        let (done, all) = progress(&step.counts);
        let before = self.steps.get(&step.step);
        if count(&step.counts, Outcome::Pending) == all || before == Some(&step.counts) {
            return None;
        }
        Some(if before.is_some() && done < all { News::Progress } else { News::BeginOrEnd })
    }
}

impl Pace {
    fn begin() -> Self {
        Self { after: Instant::now() + FIRST, pause: FIRST }
    }

    fn slow_down(&mut self) {
        self.pause = (self.pause * 2).min(LAST);
        self.after = Instant::now() + self.pause;
    }
}

impl LiveView for Lines {
    fn show(&mut self, look: &Look<'_>) {
        let job = look.job;
        if self.status != Some(job.status) && !job.status.is_ended() {
            let nodes = nodes(job);
            let place = if job.status == JobStatus::Running { format!(" on {nodes}") } else { String::new() };
            self.tell(&format!("{} {}{place}", one_line(&job.id), job.status));
        }
        self.status = Some(job.status);
        self.steps(job);
        let waits = look.why.map(timeless);
        if let Some(why) = look.why.filter(|_| self.waits != waits) {
            self.tell(&format!("waiting: {}", one_line(why)));
        }
        self.waits = waits;
    }

    fn failed(&mut self, line: &str) {
        self.tell(line);
        self.failed += 1;
        if self.failed == MAX_LISTED {
            self.tell("further failures are only counted; `gridc job get` has all of them");
        }
    }

    fn silence(&mut self, line: &str) {
        self.tell(line);
    }

    fn tick(&mut self) {}

    fn close(&mut self) {}
}

/// Reasons that differ only in a duration ("unhealthy for 41s") are one: a log wants a line a change, not a line a second.
fn timeless(why: &str) -> String {
    why.split(' ').filter(|word| word.parse::<Span>().is_err()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::{Lines, timeless};
    use crate::live::{LiveView, Look};
    use crate::out::Sink;
    use crate::samples::job;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn look(view: &mut Lines, status: &str, counts: &[(&str, u64)], why: Option<&str>) {
        view.show(&Look { job: &job(status, counts), running: &[], why, elapsed: std::time::Duration::ZERO });
    }

    #[test]
    fn one_line_for_each_change_and_none_without() {
        let log = Shared::default();
        let mut view = Lines::new(Sink::to(log.clone()));
        look(&mut view, "pending", &[("pending", 3)], None);
        for _ in 0..3 {
            look(&mut view, "running", &[("success", 1), ("running", 2)], None);
        }
        view.failed("web-02 step 0 ping/echo: failed: boom (attempt 1)");
        look(&mut view, "failed", &[("success", 2), ("failed", 1)], None);
        view.close();
        assert_eq!(
            log.text(),
            "job-0c5t9v3k2m7qa pending\n\
             job-0c5t9v3k2m7qa running on 3 nodes\n\
             step 0 ping/echo: 1/3 done: 1 success, 2 running\n\
             web-02 step 0 ping/echo: failed: boom (attempt 1)\n\
             step 0 ping/echo: 3/3 done: 2 success, 1 failed\n"
        );
    }

    #[test]
    fn progress_is_told_at_a_bounded_rate_and_the_end_always() {
        let log = Shared::default();
        let mut view = Lines::new(Sink::to(log.clone()));
        for done in 0..=2_000 {
            look(&mut view, "running", &[("success", done), ("running", 2_000 - done)], None);
        }
        let text = log.text();
        // Each further line needs twice the time of the one before it.
        assert!(text.lines().count() < 15, "{text}");
        assert!(text.ends_with("step 0 ping/echo: 2000/2000 done: 2000 success\n"), "{text}");
    }

    #[test]
    fn a_reason_is_news_once_however_long_it_lasts() {
        let log = Shared::default();
        let mut view = Lines::new(Sink::to(log.clone()));
        let waits = [("success", 1), ("pending", 2)];
        look(&mut view, "running", &waits, None);
        for why in ["for web-07, unhealthy for 41s", "for web-07, unhealthy for 42s", "for web-07, dead for 1m"] {
            look(&mut view, "running", &waits, Some(why));
        }
        let told: Vec<_> = log.text().lines().filter_map(|l| l.strip_prefix("waiting: ")).map(str::to_owned).collect();
        assert_eq!(told, ["for web-07, unhealthy for 41s", "for web-07, dead for 1m"]);
        assert_eq!(timeless("a for 3s (and 1 more)"), "a for (and 1 more)");
    }
}
