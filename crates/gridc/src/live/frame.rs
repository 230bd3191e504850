//! Builds what the live view shows at one moment, as lines that fit a terminal: pure, so that a test reads it as text.
//!
//! ```text
//!   job, status, nodes, phase                          elapsed
//!   a bar for all steps, a bar for each of a window of steps
//!   what the job is waiting for
//!   who failed, newest last
//!   which nodes take longest
//!   how to leave
//! ```
//!
//! Every line is shorter than the terminal is wide, and there are fewer lines than it has rows: nothing wraps, nothing
//! scrolls. What does not fit is left out from the bottom up; the first line and one bar always stay.
//! Not here: drawing (`screen`).

use std::time::Duration;

use grid_types::api::{Counts, JobDoc, StepDoc};

use super::{Look, Running};
use crate::fit::{cut, cut_middle, pad, width, wrap};
use crate::paint::Tone;
use crate::text::{counts_line, failures, nodes, one_line, progress, seconds, step_name, target};

const MAX_BARS: usize = 10;
const MAX_FAILED: usize = 8;
const MAX_WHY: usize = 3;
const SILENT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub tone: Tone,
}

/// What is shown besides the look itself.
pub struct Frame<'a> {
    pub look: Look<'a>,
    /// Lines about nodes that failed, oldest first.
    pub failed: &'a [String],
    /// Since the controller answered last.
    pub silent: Duration,
    /// The last one: only what stays true.
    pub closing: bool,
}

impl Frame<'_> {
    pub fn lines(&self, size: Size) -> Vec<Line> {
        // The last column is never touched: terminals differ in what happens there. The last row is the cursor's.
        let columns = size.columns.saturating_sub(1).max(8);
        let budget = size.rows.saturating_sub(1).max(2);
        let why = if self.closing { Vec::new() } else { self.why(columns) };
        let running = if self.closing { None } else { longest(self.look.running, columns) };
        let leave = (!self.closing && budget >= 10)
            .then(|| if self.look.job.status.is_ended() { "" } else { ", the job goes on" })
            .map(|job| cut(&format!("Ctrl-C stops watching{job}"), columns))
            .map(|text| line(text, Tone::Faint));
        let fixed = 1 + why.len() + usize::from(running.is_some()) + usize::from(leave.is_some());
        let rest = budget.saturating_sub(fixed).max(1);
        let failed_wanted = if self.closing { 0 } else { self.failed.len().min(MAX_FAILED) };
        let failed_room = if failed_wanted == 0 { 0 } else { (failed_wanted + 1).min(rest / 2) };
        let bars = self.bars(columns, rest - failed_room);
        let failed = self.failures(columns, (rest - bars.len()).min(failed_room));

        let mut lines = vec![self.head(columns)];
        lines.extend(bars);
        lines.extend(why);
        lines.extend(failed);
        lines.extend(running);
        lines.extend(leave);
        lines.truncate(budget);
        lines
    }

    fn head(&self, columns: usize) -> Line {
        let job = self.look.job;
        let mut text = format!("{} {}", one_line(&job.id), job.status);
        let nodes = nodes(job);
        if job.node_count() > 0 {
            text.push_str(&format!(" on {nodes} ({})", target(&job.target)));
        }
        if let (Some(phase), false) = (phase(job), job.status.is_ended()) {
            text.push_str(&format!(", {phase}"));
        }
        if let Some(why) = &job.reason {
            text.push_str(&format!(": {}", one_line(why)));
        }
        let elapsed = seconds(self.look.elapsed);
        let text = cut(&text, columns.saturating_sub(width(&elapsed) + 2));
        let gap = columns.saturating_sub(width(&text) + width(&elapsed));
        line(format!("{text}{}{elapsed}", " ".repeat(gap)), Tone::Bold)
    }

    fn bars(&self, columns: usize, room: usize) -> Vec<Line> {
        let job = self.look.job;
        let total = (job.steps.len() > 1 && room > 2).then(|| ("all steps".to_owned(), &job.counts));
        let steps = window(job, room.saturating_sub(usize::from(total.is_some())).min(MAX_BARS));
        let rows: Vec<(String, &Counts)> =
            total.into_iter().chain(steps.iter().map(|step| (step_name(step), &step.counts))).collect();
        let most = (columns * 2 / 5).max(6);
        let names = rows.iter().map(|(name, _)| width(name).min(most)).max().unwrap_or(0);
        let done = |counts: &Counts| {
            let (done, all) = progress(counts);
            format!("{done}/{all}")
        };
        let digits = rows.iter().map(|(_, counts)| width(&done(counts))).max().unwrap_or(0);
        let bar = (columns.saturating_sub(59) / 2).clamp(8, 40);
        let drawn = rows.into_iter().map(|(name, counts)| {
            let name = pad(&cut_middle(&name, names), names);
            let text = format!("  {name} {} {:>digits$} ", gauge(counts, bar), done(counts));
            let counts = counts_that_fit(counts, columns.saturating_sub(width(&text)));
            line(cut(format!("{text}{counts}").trim_end(), columns), Tone::Plain)
        });
        drawn.collect()
    }

    fn why(&self, columns: usize) -> Vec<Line> {
        let text = if self.silent >= SILENT {
            format!("no answer from a controller for {}", seconds(self.silent))
        } else if let Some(why) = self.look.why {
            format!("waiting: {}", one_line(why))
        } else {
            return Vec::new();
        };
        let wrapped = wrap(&text, columns.saturating_sub(2), MAX_WHY).into_iter().enumerate();
        wrapped.map(|(i, text)| line(format!("{}{text}", if i == 0 { "" } else { "  " }), Tone::Waits)).collect()
    }

    fn failures(&self, columns: usize, room: usize) -> Vec<Line> {
        let Some(shown) = room.checked_sub(1) else { return Vec::new() };
        let shown = shown.min(self.failed.len()).min(MAX_FAILED);
        let all = usize::try_from(failures(&self.look.job.counts)).unwrap_or(usize::MAX).max(self.failed.len());
        let some = if shown < all { ", among them" } else { "" };
        let title = line(cut(&format!("{all} failed{some}:"), columns), Tone::Bad);
        let newest = self.failed[self.failed.len() - shown..].iter();
        std::iter::once(title).chain(newest.map(|text| line(cut(&format!("  {text}"), columns), Tone::Bad))).collect()
    }
}

fn line(text: String, tone: Tone) -> Line {
    Line { text, tone }
}

/// `phase 2 of 3`; nothing to say about a job of one.
fn phase(job: &JobDoc) -> Option<String> {
    let phases = job.steps.last()?.phase + 1;
    let at = job.steps.iter().find(|step| step.step == job.step)?.phase + 1;
    (phases > 1).then(|| format!("phase {at} of {phases}"))
}

/// The steps that are drawn: the one before the current phase, and what follows.
fn window(job: &JobDoc, most: usize) -> &[StepDoc] {
    let most = most.max(1);
    let last_start = job.steps.len().saturating_sub(most);
    let behind = usize::from(most > 1);
    // Inside a long pipeline the first step that is not done everywhere is where the work is.
    let open = job.steps.iter().position(|step| {
        let (done, all) = progress(&step.counts);
        step.step >= job.step && done < all
    });
    let at = open.unwrap_or(job.step as usize);
    let start = at.saturating_sub(behind).min(last_start);
    &job.steps[start..(start + most).min(job.steps.len())]
}

fn gauge(counts: &Counts, columns: usize) -> String {
    let (done, all) = progress(counts);
    let filled = (done * columns as u64).checked_div(all).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let head = if filled < columns && done > 0 { ">" } else { "" };
    format!("[{}]", pad(&format!("{}{head}", "=".repeat(filled)), columns))
}

/// What is decided and what runs before what is only pending, which the bar shows as well.
fn counts_that_fit(counts: &Counts, room: usize) -> String {
    let whole = counts_line(counts);
    if width(&whole) <= room {
        return whole;
    }
    let mut fewer = counts.clone();
    for word in ["pending", "skipped", "success"] {
        let untouched = fewer.values().filter(|n| **n > 0).count() <= 1;
        if untouched {
            break;
        }
        fewer.remove(word);
        let shorter = counts_line(&fewer);
        if width(&shorter) <= room {
            return shorter;
        }
    }
    cut(&counts_line(&fewer), room)
}

/// As many as one line takes.
fn longest(running: &[Running], columns: usize) -> Option<Line> {
    let mut text = "running longest: ".to_owned();
    let mut shown = 0;
    for at in running {
        let next = format!("{}{} {}", if shown == 0 { "" } else { ", " }, one_line(&at.node), seconds(at.for_long));
        let left = running.len() - shown - 1;
        let more = if left > 0 { width(&format!(" and {left} more")) } else { 0 };
        if shown > 0 && width(&text) + width(&next) + more > columns {
            break;
        }
        text.push_str(&next);
        shown += 1;
    }
    let left = running.len() - shown;
    if left > 0 {
        text.push_str(&format!(" and {left} more"));
    }
    (shown > 0).then(|| line(cut(&text, columns), Tone::Plain))
}

#[cfg(test)]
mod tests;
