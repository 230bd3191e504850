//! Compares the results with the floors of the design.
//!
//! Only for cases that were measured as the floor demands: 10,000 workers, 1,000 sessions, 64 clients. A miss is a line of the
//! table and never an exit code: other load on the machine would make that random.

use crate::args::Fabric;
use crate::row::{DURABLE, IN_PROCESS, Row};

struct Floor {
    what: &'static str,
    bench: &'static str,
    fits: fn(&Row) -> bool,
    found: fn(&Row) -> Option<f64>,
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

fn is(row: &Row, case: &str, workers: u32, controllers: u32) -> bool {
    let setup = &row.setup;
    row.case == case
        && (setup.workers, setup.controllers) == (Some(workers), Some(controllers))
        && setup.fabric != Some(Fabric::Nats.word())
}

fn is_nats(row: &Row, case: &str) -> bool {
    row.case == case
        && row.setup.workers.is_some_and(|workers| workers >= 1_000)
        && row.setup.fabric == Some(Fabric::Nats.word())
}

#[rustfmt::skip]
const FLOORS: &[Floor] = &[
    Floor { what: "barrier over 10,000 workers, times the bare echo", bench: "fanout", fits: |row| is(row, "barrier", 10_000, 1), found: |row| row.found.ratio, bound: Bound::AtMost(2.0) },
    Floor { what: "memory of a session, KiB (10,000 workers)", bench: "fanout", fits: |row| is(row, "barrier", 10_000, 1), found: |row| row.found.rss_kib_per_session, bound: Bound::AtMost(48.0) },
    Floor { what: "results per CPU second of the controller (1,000 sessions)", bench: "fanout", fits: |row| is(row, "pipeline", 1_000, 1), found: |row| row.found.results_per_cpu_s, bound: Bound::AtLeast(40_000.0) },
    Floor { what: "results per CPU second of the leader of three", bench: "fanout", fits: |row| is(row, "pipeline", 1_000, 3), found: |row| row.found.results_per_cpu_s, bound: Bound::AtLeast(20_000.0) },
    Floor { what: "GET /job/{id} of 10 steps over 10,000 nodes, ms", bench: "fanout", fits: |row| is(row, "document", 10_000, 1), found: |row| row.found.max_ms, bound: Bound::AtMost(100.0) },
    Floor { what: "barrier over NATS, times the bare fan-out over core NATS", bench: "fanout", fits: |row| is_nats(row, "barrier"), found: |row| row.found.ratio, bound: Bound::AtMost(2.0) },
    Floor { what: "barrier over NATS, times durable consumers, per worker", bench: "fanout", fits: |row| is_nats(row, DURABLE), found: |row| row.found.ratio, bound: Bound::AtMost(0.1) },
    Floor { what: "growth exponent from 1,000 to 10,000 workers", bench: "growth", fits: |row| row.case == "time over workers", found: |row| row.found.exponent, bound: Bound::AtMost(1.05) },
    Floor { what: "durable submits per second, 64 clients", bench: "submit", fits: |row| row.setup.clients == Some(64), found: |row| row.found.per_s, bound: Bound::AtLeast(5_000.0) },
    Floor { what: "leader killed to next accepted write, ms", bench: "failover", fits: |_| true, found: |row| row.found.max_ms, bound: Bound::AtMost(2_000.0) },
    Floor { what: "worker: start to registered, ms", bench: "worker", fits: |_| true, found: |row| row.found.p50_ms, bound: Bound::AtMost(100.0) },
    Floor { what: "worker: memory when idle, MiB", bench: "worker", fits: |row| row.setup.jobs.is_none(), found: |row| row.found.rss_mib, bound: Bound::AtMost(20.0) },
    Floor { what: "worker: in-process steps per CPU second", bench: "worker", fits: |row| row.case == IN_PROCESS, found: |row| row.found.results_per_cpu_s, bound: Bound::AtLeast(10_000.0) },
];

/// A Markdown table of the floors that the rows cover.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for floor in FLOORS {
        let fitting = rows.iter().filter(|row| row.bench == floor.bench && (floor.fits)(row));
        for found in fitting.filter_map(floor.found) {
            let (sign, bound, holds) = match floor.bound {
                Bound::AtMost(most) => ("≤", most, found <= most),
                Bound::AtLeast(least) => ("≥", least, found >= least),
            };
            let verdict = if holds { "holds" } else { "MISSED" };
            text += &format!("| {} | {sign} {bound} | {found:.2} | {verdict} |\n", floor.what);
        }
    }
    if text.is_empty() { text } else { format!("| floor | bound | found | |\n|---|---|---|---|\n{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::row::{Found, Row, Setup};

    #[test]
    fn a_floor_is_judged_by_the_case_it_is_about() {
        let row = |workers, ratio| Row {
            bench: "fanout",
            case: "barrier".to_owned(),
            setup: Setup { workers: Some(workers), controllers: Some(1), ..Setup::default() },
            found: Found { ratio: Some(ratio), ..Found::default() },
        };
        assert_eq!(table(&[row(1_000, 9.0)]), "");
        assert!(table(&[row(10_000, 1.5)]).contains("| ≤ 2 | 1.50 | holds |"));
        assert!(table(&[row(10_000, 2.5)]).contains("MISSED"));
    }
}
