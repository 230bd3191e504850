//! Times as documents show them.

use jiff::Timestamp;

/// RFC 3339, UTC, milliseconds. A time that no calendar has is shown as the epoch: a clock may be wrong, a page may
/// not fail for it.
pub fn time_text(wall_ms: u64) -> String {
    let time = i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(time_text(1_790_000_000_007), "2026-09-21T14:13:20.007Z");
        assert_eq!(time_text(1_790_000_000_000), "2026-09-21T14:13:20.000Z");
        assert_eq!(time_text(u64::MAX), "1970-01-01T00:00:00.000Z");
    }
}
