//! Draws the frame on a terminal, over the one before.
//!
//! A frame is one write: up over the old one, each line with its rest erased, everything below erased. Nothing is
//! erased first, so nothing flickers, and what did not change is not written at all.
//!
//! The cursor is never hidden and no mode of the terminal is changed: whatever ends this process leaves the terminal as
//! it was. After a resize the old lines may have been folded by the terminal; how many rows they take now is counted
//! by the new width.

use std::time::{Duration, Instant};

use grid_types::api::JobDoc;

use super::frame::{Frame, Line, Size};
use super::{LiveView, Look, MAX_LISTED, Running, is_quiet};
use crate::fit::width;
use crate::out::{self, Sink};
use crate::safe::Safe;

/// Terminals that know it show the whole frame at once; others ignore it.
const BEGIN: &str = "\u{1b}[?2026h";
const END: &str = "\u{1b}[?2026l";

pub struct Screen {
    to: Sink,
    size: Box<dyn Fn() -> Size + Send>,
    colour: bool,
    updated_at: Instant,
    last: Option<Kept>,
    failed: Vec<String>,
    drawn: Vec<Line>,
    drawn_for: Size,
    closed: bool,
}

/// The last look.
struct Kept {
    job: JobDoc,
    running: Vec<Running>,
    why: Option<String>,
    elapsed: Duration,
}

impl Screen {
    pub fn on_stderr(colour: bool) -> Self {
        Self::new(Sink::stderr(), Box::new(stderr_size), colour)
    }

    fn new(to: Sink, size: Box<dyn Fn() -> Size + Send>, colour: bool) -> Self {
        let now = Instant::now();
        let drawn_for = size();
        Self {
            to,
            size,
            colour,
            updated_at: now,
            last: None,
            failed: Vec::new(),
            drawn: Vec::new(),
            drawn_for,
            closed: false,
        }
    }

    fn lines(&self, size: Size) -> Vec<Line> {
        let Some(last) = &self.last else { return Vec::new() };
        let since = if last.job.status.is_ended() { Duration::ZERO } else { self.updated_at.elapsed() };
        let elapsed = last.elapsed + since;
        let frame = Frame {
            look: Look { job: &last.job, running: &last.running, why: last.why.as_deref(), elapsed },
            failed: &self.failed,
            silent: if is_quiet(&last.job) { Duration::ZERO } else { self.updated_at.elapsed() },
            closing: self.closed,
        };
        frame.lines(size)
    }

    fn draw(&mut self) {
        let size = (self.size)();
        let lines = self.lines(size);
        if lines == self.drawn && size == self.drawn_for {
            return;
        }
        let mut text = Safe::code(BEGIN);
        text.push(&Safe::up(rows_of(&self.drawn, size.columns)));
        for line in &lines {
            text.push(&self.painted(line));
            text.push(&Safe::code("\u{1b}[K\r\n"));
        }
        text.push(&Safe::code("\u{1b}[J"));
        text.push(&Safe::code(END));
        self.to.put(&text);
        (self.drawn, self.drawn_for) = (lines, size);
    }

    fn painted(&self, line: &Line) -> Safe {
        line.tone.paint(&line.text, self.colour)
    }
}

/// How many rows of the terminal what was drawn takes now.
fn rows_of(drawn: &[Line], columns: usize) -> usize {
    drawn.iter().map(|line| width(&line.text).div_ceil(columns.max(1)).max(1)).sum()
}

fn stderr_size() -> Size {
    let (columns, rows) = out::stderr_size().unwrap_or((80, 24));
    // A serial line may say 0 for what it does not know.
    Size { columns: if columns == 0 { 80 } else { columns }, rows: if rows == 0 { 24 } else { rows } }
}

impl LiveView for Screen {
    fn show(&mut self, look: &Look<'_>) {
        self.updated_at = Instant::now();
        let why = look.why.map(str::to_owned);
        self.last = Some(Kept { job: look.job.clone(), running: look.running.to_vec(), why, elapsed: look.elapsed });
        self.draw();
    }

    fn failed(&mut self, line: &str) {
        if self.failed.len() == MAX_LISTED {
            self.failed.remove(0);
        }
        self.failed.push(line.to_owned());
    }

    // The frame says since when, and how to leave.
    fn silence(&mut self, _line: &str) {}

    fn tick(&mut self) {
        self.draw();
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.draw();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::{Screen, Size, rows_of};
    use crate::live::frame::Line;
    use crate::live::{LiveView, Look};
    use crate::out::Sink;
    use crate::paint::Tone;
    use crate::safe::Safe;
    use crate::samples::job;

    #[derive(Clone, Default)]
    struct Terminal {
        bytes: Arc<Mutex<Vec<u8>>>,
        size: Arc<Mutex<(usize, usize)>>,
    }

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.bytes.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Terminal {
        fn screen(&self) -> Screen {
            *self.size.lock().unwrap() = (80, 24);
            let size = Arc::clone(&self.size);
            let size = move || {
                let (columns, rows) = *size.lock().unwrap();
                Size { columns, rows }
            };
            Screen::new(Sink::to(self.clone()), Box::new(size), false)
        }

        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.bytes.lock().unwrap())).unwrap()
        }
    }

    fn look(screen: &mut Screen, status: &str, counts: &[(&str, u64)]) {
        screen.show(&Look { job: &job(status, counts), running: &[], why: None, elapsed: std::time::Duration::ZERO });
    }

    #[test]
    fn what_has_not_changed_is_not_drawn_again() {
        let terminal = Terminal::default();
        let mut screen = terminal.screen();
        look(&mut screen, "running", &[("success", 2), ("running", 1)]);
        assert!(terminal.take().contains("2/3 2 success, 1 running"));
        // The clock of the frame may move once while this runs, and not more often.
        let drawn = (0..50).filter(|_| {
            look(&mut screen, "running", &[("success", 2), ("running", 1)]);
            !terminal.take().is_empty()
        });
        assert!(drawn.count() <= 2);
        look(&mut screen, "running", &[("success", 3)]);
        assert!(terminal.take().contains("3/3 3 success"));
    }

    #[test]
    fn a_frame_goes_back_over_the_rows_that_the_old_one_takes_now() {
        let line = |n: usize| Line { text: "x".repeat(n), tone: Tone::Plain };
        assert_eq!(rows_of(&[], 80), 0);
        assert_eq!(rows_of(&[line(79), line(0), line(10)], 80), 3);
        assert_eq!(rows_of(&[line(79), line(0), line(10)], 40), 4, "folded by a narrower terminal");
        assert_eq!((Safe::up(0).as_str(), Safe::up(4).as_str()), ("\r", "\r\u{1b}[4A"));
    }

    #[test]
    fn a_resize_is_seen_without_news_of_the_job() {
        let terminal = Terminal::default();
        let mut screen = terminal.screen();
        look(&mut screen, "running", &[("running", 3)]);
        terminal.take();
        *terminal.size.lock().unwrap() = (40, 10);
        screen.tick();
        let text = terminal.take();
        let longest = text.lines().map(|l| l.split('\u{1b}').next().unwrap_or_default().chars().count()).max();
        assert!(longest.is_some_and(|n| n > 0 && n < 40), "{text:?}");
    }

    #[test]
    fn closing_leaves_what_stays_true_and_no_mode_behind() {
        let terminal = Terminal::default();
        let mut screen = terminal.screen();
        look(&mut screen, "running", &[("running", 3)]);
        screen.close();
        screen.close();
        let text = terminal.take();
        let last = text.rsplit("\u{1b}[?2026h").next().unwrap();
        assert!(!last.contains("Ctrl-C") && last.ends_with("\u{1b}[J\u{1b}[?2026l"), "{last:?}");
        assert!(!text.contains("\u{1b}[?25l") && !text.contains("\u{1b}[?1049"), "cursor and screen are left alone");
    }
}
