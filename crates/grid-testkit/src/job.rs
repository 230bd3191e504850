//! Reads a job document of the API by hand.
//!
//! Deliberately not the types of Grid: if a field changes its name there, the
//! tests must notice.

use std::fmt;

use serde_json::Value;

/// The document of `GET /job/{id}`.
#[derive(Debug, Clone)]
pub struct Job(pub Value);

impl Job {
    pub fn id(&self) -> &str {
        self.text("id")
    }

    pub fn status(&self) -> &str {
        self.text("status")
    }

    pub fn reason(&self) -> &str {
        self.text("reason")
    }

    pub fn ended(&self) -> bool {
        matches!(self.status(), "completed" | "failed" | "cancelled")
    }

    /// The frozen target, sorted.
    pub fn expected(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = match self.0["expected"].as_array() {
            Some(nodes) => nodes.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        nodes.sort_unstable();
        nodes
    }

    /// The outcome of (step, node); empty when there is none yet.
    pub fn outcome(&self, step: usize, node: &str) -> &str {
        self.result(step, node)["status"].as_str().unwrap_or("")
    }

    /// One outcome per expected node, in the order of [`Job::expected`].
    pub fn outcomes(&self, step: usize) -> Vec<&str> {
        let nodes = self.expected().into_iter();
        nodes.map(|node| self.outcome(step, node)).collect()
    }

    pub fn attempts(&self, step: usize, node: &str) -> u64 {
        self.result(step, node)["attempts"].as_u64().unwrap_or(0)
    }

    pub fn error(&self, step: usize, node: &str) -> &str {
        self.result(step, node)["error"].as_str().unwrap_or("")
    }

    pub fn result_reason(&self, step: usize, node: &str) -> &str {
        self.result(step, node)["reason"].as_str().unwrap_or("")
    }

    /// RFC 3339 in UTC, so that text order is time order as long as the precision is the same.
    pub fn started_at(&self, step: usize, node: &str) -> &str {
        self.result(step, node)["started_at"].as_str().unwrap_or("")
    }

    pub fn duration_ms(&self, step: usize, node: &str) -> u64 {
        let text = self.result(step, node)["duration"].as_str().unwrap_or("");
        duration_ms(text).unwrap_or_else(|| panic!("duration `{text}` of step {step} on {node}: {self}"))
    }

    pub fn result(&self, step: usize, node: &str) -> &Value {
        &self.0["results"][step.to_string()][node]
    }

    /// How many (step, node) have this outcome.
    pub fn count(&self, outcome: &str) -> u64 {
        self.0["counts"][outcome].as_u64().unwrap_or(0)
    }

    /// The sum over all outcomes.
    pub fn count_all(&self) -> u64 {
        let counts = self.0["counts"].as_object();
        counts.map_or(0, |c| c.values().filter_map(Value::as_u64).sum())
    }

    /// How often an outcome is in `results`, counted by hand.
    pub fn rows(&self, outcome: &str) -> u64 {
        let steps = self.0["results"].as_object().into_iter().flatten();
        let rows = steps.flat_map(|(_, nodes)| nodes.as_object().into_iter().flatten());
        rows.filter(|(_, row)| row["status"] == outcome).count() as u64
    }

    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or("")
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// `"2.3s"`, `"300ms"`, `"1m5s"` in milliseconds, rounded down.
pub fn duration_ms(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total_us = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let factor_us = match unit {
            "us" | "µs" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            "m" => 60e6,
            "h" => 3_600e6,
            _ => return None,
        };
        total_us += number.parse::<f64>().ok()? * factor_us;
        rest = tail;
    }
    // A text of a few digits loses neither sign nor size.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole_ms = ((total_us + 0.5) / 1e3) as u64;
    (!text.is_empty()).then_some(whole_ms)
}

#[cfg(test)]
mod tests {
    use super::{Job, duration_ms};
    use serde_json::json;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration_ms("2.3s"), Some(2300));
        assert_eq!(duration_ms("300ms"), Some(300));
        assert_eq!(duration_ms("1m5.25s"), Some(65_250));
        assert_eq!(duration_ms(""), None);
        assert_eq!(duration_ms("soon"), None);
    }

    #[test]
    fn rows_and_counts_are_counted_apart() {
        let job = Job(json!({
            "counts": {"success": 2, "failed": 1},
            "expected": ["b", "a"],
            "results": {"0": {"a": {"status": "success"}, "b": {"status": "failed"}},
                        "1": {"a": {"status": "success"}}},
        }));
        assert_eq!(job.rows("success"), 2);
        assert_eq!(job.count_all(), 3);
        assert_eq!(job.outcomes(0), ["success", "failed"]);
        assert_eq!(job.outcomes(1), ["success", ""]);
    }
}
