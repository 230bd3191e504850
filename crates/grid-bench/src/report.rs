//! Reports the results of a benchmark: rows, as JSON lines, as a table and as files.
//!
//! stdout has the rows, as JSON with `--json` and otherwise as a table; all other messages are on stderr.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use crate::args::Output;
use crate::row::Row;
use crate::{floors, plot};

/// Collects rows, and prints each as soon as it is measured.
pub struct Report {
    output: Output,
    rows: Vec<Row>,
}

impl Report {
    pub fn new(output: &Output) -> Self {
        Self { output: output.clone(), rows: Vec::new() }
    }

    pub fn add(&mut self, row: Row) -> anyhow::Result<()> {
        if self.output.json {
            crate::say::out(format_args!("{}", serde_json::to_string(&row)?));
        } else {
            crate::say::err(format_args!("{}", in_words(&row)?));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Prints the table to stdout or writes it to the requested folder.
    pub fn finish(self) -> anyhow::Result<()> {
        if !self.output.json {
            crate::say::text(format_args!("{}{}", table(&self.rows)?, floors::table(&self.rows)));
        }
        if let Some(folder) = &self.output.out {
            self.write(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        }
        Ok(())
    }

    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut lines = String::new();
        for row in &self.rows {
            writeln!(lines, "{}", serde_json::to_string(row)?)?;
        }
        std::fs::write(folder.join("bench.jsonl"), lines)?;
        std::fs::write(folder.join("bench.md"), format!("{}{}", table(&self.rows)?, floors::table(&self.rows)))?;
        if let Some(svg) = plot::growth(&self.rows) {
            std::fs::write(folder.join("growth.svg"), svg)?;
        }
        Ok(())
    }
}

/// The fields of a row in their order, as text.
fn fields(row: &Row) -> anyhow::Result<Vec<(String, String)>> {
    let value = serde_json::to_value(row)?;
    let mut order = vec!["bench", "case"];
    order.extend(COLUMNS);
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) if number.is_f64() => shown(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    };
    Ok(order.into_iter().filter_map(|name| Some((name.to_owned(), text(value.get(name)?)))).collect())
}

const COLUMNS: [&str; 26] = [
    "workers",
    "controllers",
    "fabric",
    "per_connection",
    "clients",
    "jobs",
    "steps",
    "results",
    "p50_ms",
    "p99_ms",
    "max_ms",
    "baseline_workers",
    "baseline_p50_ms",
    "ratio",
    "results_per_s",
    "results_per_cpu_s",
    "per_s",
    "baseline_per_s",
    "cpu_s",
    "broker_cpu_s",
    "consumers",
    "rss_mib",
    "rss_kib_per_session",
    "disk_bytes_per_result",
    "exponent",
    "baseline_exponent",
];

/// Three digits are more than a noisy machine justifies.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn in_words(row: &Row) -> anyhow::Result<String> {
    let fields = fields(row)?;
    Ok(fields.into_iter().map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>().join(" "))
}

/// Markdown; a table for each benchmark, with the columns that apply to it.
fn table(rows: &[Row]) -> anyhow::Result<String> {
    let mut text = String::new();
    for group in rows.chunk_by(|one, next| one.bench == next.bench) {
        let lines: Vec<Vec<(String, String)>> = group.iter().map(fields).collect::<anyhow::Result<_>>()?;
        let used = |name: &str| lines.iter().flatten().any(|(field, _)| field == name);
        let columns: Vec<&str> = ["bench", "case"].into_iter().chain(COLUMNS).filter(|name| used(name)).collect();
        writeln!(text, "| {} |", columns.join(" | "))?;
        writeln!(text, "|{}", "---|".repeat(columns.len()))?;
        for line in &lines {
            let cell = |name: &&str| line.iter().find(|(field, _)| field == name).map_or("", |(_, text)| text.as_str());
            writeln!(text, "| {} |", columns.iter().map(cell).collect::<Vec<_>>().join(" | "))?;
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::row::{Found, Row, Setup};

    #[test]
    fn a_table_has_the_columns_that_apply_and_json_the_names_of_the_contract() {
        let row = Row {
            bench: "fanout",
            case: "barrier".to_owned(),
            setup: Setup { workers: Some(10), ..Setup::default() },
            found: Found { p50_ms: Some(1.234), ratio: Some(150.6), ..Found::default() },
        };
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(json, r#"{"bench":"fanout","case":"barrier","workers":10,"p50_ms":1.234,"ratio":150.6}"#);
        let other = Row { bench: "submit", ..Row::default() };
        let want = "| bench | case | workers | p50_ms | ratio |\n|---|---|---|---|---|\n| fanout | barrier | 10 | 1.23 | 151 |\n\n\
                    | bench | case |\n|---|---|\n| submit |  |\n\n";
        assert_eq!(table(&[row, other]).unwrap(), want);
    }
}
