//! Durations as operators write them: `300ms 3s 2m 1h`. A whole number and one unit; no signs, no fractions.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits::MAX_SPAN_MS;

/// A bounded duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(try_from = "String", into = "String")]
pub struct Span(#[n(0)] u64);

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSpan {
    /// Not a number with a unit.
    #[error("{0:?} is not a duration: write a whole number and a unit, like 300ms, 3s, 2m or 1h")]
    Shape(String),
    /// Longer than any accepted duration.
    #[error("{0:?} is longer than the longest duration, 8760h")]
    TooLong(String),
}

impl Span {
    /// A duration of this many milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// The duration in milliseconds.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }
}

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let shape = || BadSpan::Shape(text.chars().take(40).collect());
        let too_long = || BadSpan::TooLong(text.chars().take(40).collect());
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(shape)?;
        let (digits, unit) = text.split_at(split);
        let unit_ms: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(shape()),
        };
        if digits.is_empty() {
            return Err(shape());
        }
        let count: u64 = digits.parse().map_err(|_| too_long())?;
        match count.checked_mul(unit_ms) {
            Some(ms) if ms <= MAX_SPAN_MS => Ok(Self(ms)),
            _ => Err(too_long()),
        }
    }
}

impl TryFrom<String> for Span {
    type Error = BadSpan;

    fn try_from(text: String) -> Result<Self, BadSpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

/// The largest unit that loses nothing: the printed text parses back to the same span.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        match ms {
            0 => f.write_str("0s"),
            _ if ms.is_multiple_of(3_600_000) => write!(f, "{}h", ms / 3_600_000),
            _ if ms.is_multiple_of(60_000) => write!(f, "{}m", ms / 60_000),
            _ if ms.is_multiple_of(1_000) => write!(f, "{}s", ms / 1_000),
            _ => write!(f, "{ms}ms"),
        }
    }
}

/// How long something took, as documents show it: `"2.3s"`.
#[must_use]
pub fn seconds_text(ms: u64) -> String {
    if ms < 100 {
        format!("{}.{:03}s", ms / 1_000, ms % 1_000)
    } else {
        format!("{}.{}s", ms / 1_000, ms % 1_000 / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, seconds_text};

    #[test]
    fn spans_round_trip() {
        for text in ["300ms", "3s", "2m", "1h", "0s", "1500ms", "8760h"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in ["", "3", "s", "-3s", "1.5s", "3 s", "3d", "99999999999999999999s", "8761h", "1h30m"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_read_as_the_contract_shows() {
        assert_eq!(seconds_text(2_345), "2.3s");
        assert_eq!(seconds_text(7), "0.007s");
    }
}
