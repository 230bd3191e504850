//! A spinner with the job's status and a bar per step.
//!
//! At most [`MAX_BARS`] bars are drawn: a window over the steps that moves with the job, because a terminal has no
//! room for a thousand.

use std::time::Duration;

use grid_types::api::{JobDoc, StepDoc};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::LiveView;
use crate::text::{counts_line, number, one_line, progress, step_name};

const MAX_BARS: usize = 10;
const TICK: Duration = Duration::from_millis(120);

pub struct Bars {
    multi: MultiProgress,
    head: ProgressBar,
    bars: Vec<ProgressBar>,
    closed: bool,
}

impl Bars {
    pub fn new() -> Self {
        Self::on(ProgressDrawTarget::stderr())
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let multi = MultiProgress::with_draw_target(target);
        let head = multi.add(ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg} {elapsed}")));
        head.enable_steady_tick(TICK);
        Self { multi, head, bars: Vec::new(), closed: false }
    }
}

impl LiveView for Bars {
    fn show(&mut self, job: &JobDoc) {
        self.head.set_message(headline(job));
        let steps = window(job);
        while self.bars.len() < steps.len() {
            let style = style("  {prefix} [{bar:24.green}] {pos}/{len} {wide_msg}").progress_chars("=> ");
            self.bars.push(self.multi.add(ProgressBar::new(0).with_style(style)));
        }
        let width = steps.iter().map(|s| step_name(s).chars().count()).max().unwrap_or(0);
        for (bar, step) in self.bars.iter().zip(steps) {
            let (done, all) = progress(step);
            bar.set_length(all);
            bar.set_position(done);
            bar.set_prefix(format!("{:<width$}", step_name(step)));
            bar.set_message(counts_line(&step.counts));
        }
    }

    fn tell(&mut self, line: &str) {
        // A terminal that is gone takes no lines; the exit code still tells.
        let _ = self.multi.println(line);
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.head.finish_and_clear();
            for bar in &self.bars {
                bar.abandon();
            }
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.close();
    }
}

fn headline(job: &JobDoc) -> String {
    let steps = job.steps.len();
    let place = if job.status.is_ended() || steps < 2 {
        String::new()
    } else {
        format!(", step {} of 0–{}", job.step, steps - 1)
    };
    let why = job.reason.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    format!("{} {} on {}{place}{why}", one_line(&job.id), job.status, number(job.expected.len(), "node"))
}

/// The steps that are drawn: the one before the current phase, and what follows.
fn window(job: &JobDoc) -> &[StepDoc] {
    let last_start = job.steps.len().saturating_sub(MAX_BARS);
    let start = (job.step as usize).saturating_sub(1).min(last_start);
    &job.steps[start..(start + MAX_BARS).min(job.steps.len())]
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants of this file; a bad one would only lose its looks.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::{Bars, MAX_BARS, window};
    use crate::live::LiveView;
    use crate::samples::job;
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    #[test]
    fn the_window_follows_the_job() {
        let mut doc = job("running", &[("success", 3)]);
        let step = doc.steps[0].clone();
        doc.steps = (0..300)
            .map(|n| {
                let mut s = step.clone();
                s.step = n;
                s
            })
            .collect();
        for (at, first) in [(0, 0), (1, 0), (40, 39), (299, 290)] {
            doc.step = at;
            assert_eq!((window(&doc)[0].step, window(&doc).len()), (first, MAX_BARS), "{at}");
        }
    }

    #[test]
    fn bars_show_steps_counts_and_failures() {
        let term = InMemoryTerm::new(20, 100);
        let mut view = Bars::on(ProgressDrawTarget::term_like(Box::new(term.clone())));
        view.show(&job("running", &[("success", 2), ("running", 1)]));
        view.tell("web-02 step 0 ping/echo: failed: boom (attempt 1)");
        view.show(&job("failed", &[("success", 2), ("failed", 1)]));
        view.close();
        let screen = term.contents();
        assert!(screen.contains("web-02 step 0 ping/echo: failed: boom (attempt 1)"), "{screen}");
        assert!(screen.contains("step 0 ping/echo [========================] 3/3 2 success, 1 failed"), "{screen}");
    }
}
