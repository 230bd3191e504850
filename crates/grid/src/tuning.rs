//! Converts flags to the settings of a controller that apply to all of its nodes and jobs.
//!
//! The liveness limits follow the heartbeat interval unless they are set: if workers report every 30 s, 15 s of silence mean
//! nothing. At the default interval of 5 s they are 15, 30 and 60 s.

use grid_controller::{Quotas, Thresholds};
use grid_types::Span;
use grid_types::limits::HISTORY_MS;

use crate::cli::Tuning;

/// Checked and complete settings.
pub struct Tuned {
    pub quotas: Quotas,
    pub thresholds: Thresholds,
    pub heartbeat_ms: u64,
    /// How long finished jobs are kept.
    pub history_ms: u64,
}

impl Default for Tuned {
    fn default() -> Self {
        Self {
            quotas: Quotas::default(),
            thresholds: Thresholds::default(),
            heartbeat_ms: 5_000,
            history_ms: HISTORY_MS,
        }
    }
}

impl Tuning {
    pub fn checked(&self) -> anyhow::Result<Tuned> {
        Ok(Tuned {
            quotas: Quotas {
                max_concurrent: self.max_concurrent,
                max_pending: self.max_pending,
                max_waiting: self.max_waiting,
                max_nodes: Some(self.max_nodes),
            },
            thresholds: self.thresholds()?,
            heartbeat_ms: self.heartbeat_interval.ms(),
            history_ms: self.history.ms(),
        })
    }

    fn thresholds(&self) -> anyhow::Result<Thresholds> {
        let beat_ms = self.heartbeat_interval.ms();
        let unhealthy = self.unhealthy_after.map(Span::ms);
        let unhealthy_ms = unhealthy.unwrap_or(6 * beat_ms);
        // Between the heartbeat interval and the given limit for unhealthy, however near they are.
        let warning_ms = 3 * beat_ms;
        let warning_ms = unhealthy.map_or(warning_ms, |given| warning_ms.min(beat_ms.midpoint(given)));
        let warning_ms = self.warning_after.map_or(warning_ms, Span::ms);
        let dead_ms = self.dead_after.map_or((12 * beat_ms).max(2 * unhealthy_ms), Span::ms);
        if !(beat_ms < warning_ms && warning_ms < unhealthy_ms && unhealthy_ms < dead_ms) {
            anyhow::bail!(
                "--heartbeat-interval ({beat_ms} ms), --warning-after ({warning_ms} ms), --unhealthy-after \
                 ({unhealthy_ms} ms) and --dead-after ({dead_ms} ms) must each be longer than the one before; in a file they \
                 are worker.heartbeat_interval, warning_threshold, inactive_threshold and stale_threshold"
            );
        }
        Ok(Thresholds { warning_ms, unhealthy_ms, dead_ms })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Verb};

    fn times(flags: &str) -> Option<(u64, u64, u64)> {
        let line = format!("grid dev {flags}");
        let Verb::Dev(args) = Cli::parse_from(line.split_whitespace()).verb else { panic!("{line}") };
        let found = args.tuning.thresholds().ok()?;
        Some((found.warning_ms, found.unhealthy_ms, found.dead_ms))
    }

    #[test]
    fn times_of_silence_follow_the_heartbeat_unless_they_are_given() {
        assert_eq!(times(""), Some((15_000, 30_000, 60_000)));
        assert_eq!(times("--heartbeat-interval 30s --unhealthy-after 2m"), Some((75_000, 120_000, 360_000)));
        assert_eq!(times("--unhealthy-after 10s"), Some((7_500, 10_000, 60_000)));
        assert_eq!(times("--unhealthy-after 5m"), Some((15_000, 300_000, 600_000)));
        for wrong in [
            "--unhealthy-after 5s",
            "--dead-after 30s",
            "--warning-after 5s",
            "--heartbeat-interval 30s --dead-after 60s",
        ] {
            assert_eq!(times(wrong), None, "{wrong}");
        }
    }
}
