//! Reads the file that `test record` writes: one line per execution, the evidence for every promise about how often a step ran.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::wait::{LIMIT, ensure, wait_until};

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub job: String,
    pub step: usize,
    pub node: String,
    pub attempt: u64,
}

/// A record file; it need not exist yet.
#[derive(Debug, Clone)]
pub struct Record {
    path: PathBuf,
}

impl Record {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as a parameter of `test record`.
    pub fn param(&self) -> &str {
        self.path.to_str().expect("temp paths are UTF-8")
    }

    /// Every line in the order of writing.
    ///
    /// # Panics
    /// When a line is incomplete: an append must be atomic.
    pub fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        assert!(
            text.is_empty() || text.ends_with('\n'),
            "{}: the last line is incomplete: {text:?}",
            self.path.display()
        );
        text.lines().map(parse).collect()
    }

    /// The lines of one job as (step, node, attempt), in the order of writing.
    pub fn of(&self, job: &str) -> Vec<(usize, String, u64)> {
        let lines = self.lines().into_iter().filter(|line| line.job == job);
        lines.map(|l| (l.step, l.node, l.attempt)).collect()
    }

    /// Lines that occur twice.
    pub fn duplicates(&self) -> Vec<Line> {
        let mut seen = BTreeSet::new();
        let mut twice = self.lines();
        twice.retain(|line| !seen.insert(line.clone()));
        twice
    }

    /// Waits for at least `count` lines of a job.
    pub fn wait_of(&self, job: &str, count: usize) -> Vec<(usize, String, u64)> {
        wait_until(&format!("{count} lines of {job}"), LIMIT, || {
            let lines = self.of(job);
            ensure(lines.len() >= count, format!("{lines:?}"))?;
            Ok(lines)
        })
    }
}

fn parse(line: &str) -> Line {
    let words: Vec<&str> = line.split(' ').collect();
    let [job, step, node, attempt] = words[..] else {
        panic!("a record line is `job step node attempt`, not {line:?}");
    };
    Line {
        job: job.to_owned(),
        step: step.parse().unwrap_or_else(|_| panic!("step in {line:?}")),
        node: node.to_owned(),
        attempt: attempt.parse().unwrap_or_else(|_| panic!("attempt in {line:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn a_line_written_twice_is_found() {
        let dir = tempfile::tempdir().expect("temp dir");
        let record = Record::at(dir.path().join("r"));
        assert_eq!(record.lines(), []);
        std::fs::write(record.path(), "j 0 a 1\nj 0 b 1\nj 0 a 1\nj 0 a 2\n").expect("written");
        let twice = record.duplicates();
        assert_eq!(twice.len(), 1);
        assert_eq!((twice[0].node.as_str(), twice[0].attempt), ("a", 1));
        assert_eq!(record.of("j").len(), 4);
    }
}
