//! Computes the pause before an ended child is restarted: 1, 2, 4 … 30 s, and 1 s again after a healthy minute.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
const HEALTHY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// A child that ran this long resets the pause.
    pub fn after(&mut self, ran: Duration) -> Duration {
        if ran >= HEALTHY {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, HEALTHY};
    use std::time::Duration;

    #[test]
    fn pauses_double_up_to_30_s_and_start_over_after_a_healthy_minute() {
        let mut backoff = Backoff::default();
        let mut pause = |ran| backoff.after(ran).as_secs();
        let short = HEALTHY.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!([short; 7].map(&mut pause), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!([HEALTHY, short, HEALTHY].map(pause), [1, 2, 1]);
    }
}
