//! Collects times of equal operations and computes their quantiles.

use std::time::Duration;

/// In milliseconds, sorted when needed.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<f64>);

impl Times {
    pub fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1_000.0);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The smallest time that at least this share of all are within; 0 without times.
    pub fn quantile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(at).copied().unwrap_or_default()
    }

    pub fn p50(&self) -> f64 {
        self.quantile(50)
    }

    pub fn p99(&self) -> f64 {
        self.quantile(99)
    }

    pub fn max(&self) -> f64 {
        self.quantile(100)
    }
}

#[cfg(test)]
mod tests {
    use super::Times;
    use std::time::Duration;

    #[test]
    fn quantiles_are_times_that_were_taken() {
        let mut times = Times::default();
        assert!(times.p50().abs() < 1e-9);
        for ms in [4, 1, 3, 2] {
            times.push(Duration::from_millis(ms));
        }
        let told = [times.p50(), times.quantile(75), times.p99(), times.max()];
        assert_eq!(told.map(f64::round), [2.0, 3.0, 4.0, 4.0]);
    }
}
