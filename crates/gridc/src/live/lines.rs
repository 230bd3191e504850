//! Plain lines, one for each change, for logs and pipes: no control codes, nothing is drawn over.

use std::collections::BTreeMap;
use std::io::Write;

use grid_types::api::{Counts, JobDoc};
use grid_types::{JobStatus, Outcome};

use super::LiveView;
use crate::text::{count, counts_line, number, one_line, progress, step_name};

pub struct Lines {
    to: Box<dyn Write + Send>,
    status: Option<JobStatus>,
    steps: BTreeMap<u32, Counts>,
}

impl Lines {
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Self { to, status: None, steps: BTreeMap::new() }
    }
}

impl LiveView for Lines {
    fn show(&mut self, job: &JobDoc) {
        if self.status != Some(job.status) && !job.status.is_ended() {
            let nodes = number(job.expected.len(), "node");
            let place = if job.status == JobStatus::Running { format!(" on {nodes}") } else { String::new() };
            self.tell(&format!("{} {}{place}", one_line(&job.id), job.status));
        }
        self.status = Some(job.status);
        for step in &job.steps {
            let (done, all) = progress(step);
            let untouched = count(&step.counts, Outcome::Pending) == all;
            if !untouched && self.steps.get(&step.step) != Some(&step.counts) {
                self.steps.insert(step.step, step.counts.clone());
                self.tell(&format!("{}: {done}/{all} done: {}", step_name(step), counts_line(&step.counts)));
            }
        }
    }

    fn tell(&mut self, line: &str) {
        // A log that is gone takes no lines; the exit code still tells.
        let _ = writeln!(self.to, "{line}");
    }

    fn close(&mut self) {
        let _ = self.to.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::Lines;
    use crate::live::LiveView;
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

    #[test]
    fn one_line_for_each_change_and_none_without() {
        let log = Shared::default();
        let mut view = Lines::new(Box::new(log.clone()));
        view.show(&job("pending", &[("pending", 3)]));
        for _ in 0..3 {
            view.show(&job("running", &[("success", 1), ("running", 2)]));
        }
        view.tell("web-02 step 0 ping/echo: failed: boom (attempt 1)");
        view.show(&job("failed", &[("success", 2), ("failed", 1)]));
        view.close();
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            "job-0c5t9v3k2m7qa pending\n\
             job-0c5t9v3k2m7qa running on 3 nodes\n\
             step 0 ping/echo: 1/3 done: 1 success, 2 running\n\
             web-02 step 0 ping/echo: failed: boom (attempt 1)\n\
             step 0 ping/echo: 3/3 done: 2 success, 1 failed\n"
        );
    }
}
