//! `grid bench growth`: measures the same barrier over more and more workers, and the same work in more and more jobs.
//!
//! The exponent is the slope of time over workers with both axes logarithmic: 1 is linear, and anything that grows faster than
//! the fleet limits the size of the fleet. Each size is measured twice, upwards and back, because a machine that slows down
//! during the run would bend the line. The exponent of the echo is next to it: beyond the CPU caches everything grows a bit
//! faster.

use std::process::ExitCode;

use crate::args::{Effects, Fabric, FanoutArgs, GrowthArgs, NatsArgs};
use crate::fanout;
use crate::report::Report;
use crate::row::{Found, Row, Setup};

const WORKERS: [u32; 4] = [1_000, 2_000, 5_000, 10_000];
const JOBS: [u32; 3] = [1, 10, 100];

pub async fn run(args: &GrowthArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    measure(args, &mut report).await?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &GrowthArgs, report: &mut Report) -> anyhow::Result<()> {
    let one = |workers, jobs| FanoutArgs {
        workers,
        steps: 1,
        jobs,
        rounds: args.rounds,
        controllers: 1,
        fabric: Fabric::Grpc,
        nats: NatsArgs::default(),
        effects: Effects::Pure,
        output: args.output.clone(),
    };
    let (mut points, mut echoes) = (Vec::new(), Vec::new());
    let sizes = WORKERS.into_iter().filter(|workers| *workers <= args.most_workers);
    let there = sizes.clone().map(|workers| (workers, "barrier"));
    for (workers, case) in there.chain(sizes.rev().map(|workers| (workers, "barrier, on the way back"))) {
        let rows = fanout::measure(&one(workers, 0)).await?;
        for row in rows.into_iter().filter(|row| row.case == "barrier") {
            points.extend(row.found.p50_ms.map(|ms| (f64::from(workers), ms)));
            echoes.extend(row.found.baseline_p50_ms.map(|ms| (f64::from(workers), ms)));
            report.add(Row { bench: "growth", case: case.to_owned(), ..row })?;
        }
    }
    let fitted = Setup { controllers: Some(1), fabric: Some("grpc"), ..Setup::default() };
    if let Some(exponent) = exponent(&points) {
        let found = Found { exponent: Some(exponent), baseline_exponent: self::exponent(&echoes), ..Found::default() };
        report.add(Row { bench: "growth", case: "time over workers".to_owned(), setup: fitted, found })?;
    }
    for jobs in JOBS {
        let rows = fanout::measure(&one(args.most_workers.min(1_000), jobs)).await?;
        for row in rows.into_iter().filter(|row| row.case == "pipeline") {
            report.add(Row { bench: "growth", ..row })?;
        }
    }
    Ok(())
}

/// Least squares of the logarithms; `None` for fewer than two points.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 2 {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = f64::from(u32::try_from(logs.len()).ok()?);
    let mean = |pick: fn(&(f64, f64)) -> f64| logs.iter().map(pick).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let rise: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let run: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(rise / run)
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn a_straight_line_has_the_exponent_1_and_a_parabola_2() {
        let fit = |y: fn(f64) -> f64| exponent(&[10.0, 20.0, 50.0].map(|x| (x, y(x)))).unwrap();
        assert!((fit(|x| 3.0 * x) - 1.0).abs() < 1e-9);
        assert!((fit(|x| x * x) - 2.0).abs() < 1e-9);
        assert_eq!(exponent(&[(1.0, 1.0)]), None);
    }
}
