//! Polls for a condition, the only way in which a test waits.
//!
//! A probe returns `Err(what it saw)` until it is satisfied, so that a test that gives up prints the last observation.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far beyond the duration of anything, even on a loaded machine: it bounds a hang and measures nothing.
pub const LIMIT: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(25);

/// Polls until `probe` succeeds and returns its value.
///
/// # Panics
/// When `limit` has passed, with `what` and the last observation.
pub fn wait_until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match probe() {
            Ok(value) => return value,
            Err(seen) if begun.elapsed() >= limit => {
                panic!("waited {limit:?} for {what}; last seen: {seen}")
            }
            Err(_) => sleep(PAUSE),
        }
    }
}

/// The last line of a probe: satisfied, or what it saw instead.
///
/// # Errors
/// The observation, when `satisfied` is false.
pub fn ensure(satisfied: bool, seen: impl std::fmt::Display) -> Result<(), String> {
    if satisfied { Ok(()) } else { Err(seen.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::{ensure, wait_until};
    use std::time::Duration;

    #[test]
    fn a_probe_is_asked_until_it_is_satisfied() {
        let mut asked = 0;
        let got = wait_until("three", Duration::from_secs(60), || {
            asked += 1;
            ensure(asked == 3, asked).map(|()| asked)
        });
        assert_eq!(got, 3);
    }

    #[test]
    #[should_panic(expected = "for the moon; last seen: a cloud")]
    fn giving_up_says_what_was_seen_last() {
        wait_until("the moon", Duration::ZERO, || Err::<(), _>("a cloud".into()));
    }
}
