//! Defines how many nodes may fail: `3` nodes, or a share of them, `"10%"` or `"0.1"`. Kept exact: one failure in 300 exceeds a
//! tolerance of 0, whatever a rounded ratio would say (J1).

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

/// How many nodes may fail (J1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Tolerance {
    /// So many nodes.
    #[n(0)]
    Nodes(#[n(0)] u32),
    /// A share of the expected nodes.
    #[n(1)]
    Share(#[n(0)] Share),
}

/// `millionths / 1,000,000` of the nodes, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Share {
    #[n(0)]
    millionths: u32,
    #[n(1)]
    text: String,
}

const WHOLE: u32 = 1_000_000;

impl Tolerance {
    /// Everything may fail.
    #[must_use]
    pub fn all() -> Self {
        Self::Share(Share { millionths: WHOLE, text: "100%".to_owned() })
    }

    /// Whether so many failed nodes are more than are tolerated.
    #[must_use]
    pub fn is_exceeded(&self, failed: usize, expected: usize) -> bool {
        let (failed, expected) = (failed as u128, expected as u128);
        match self {
            Self::Nodes(nodes) => failed > u128::from(*nodes),
            Self::Share(share) => failed * u128::from(WHOLE) > expected * u128::from(share.millionths),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => nodes.fmt(f),
            Self::Share(share) => f.write_str(&share.text),
        }
    }
}

impl Share {
    /// So much of a number, rounded down.
    #[must_use]
    pub(super) fn floor_of(&self, whole: usize) -> u128 {
        whole as u128 * u128::from(self.millionths) / u128::from(WHOLE)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.millionths == 0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A share, as a string has it.
impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().take(40).collect();
        let bad = || format!("{shown:?} is not a share: write a percentage like \"10%\" or a fraction like \"0.1\"");
        let (number, scale) = match text.strip_suffix('%') {
            Some(percent) => (percent, 10_000),
            None => (text, WHOLE),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let mut millionths = whole.checked_mul(u64::from(scale)).ok_or_else(bad)?;
        let mut place = scale;
        for digit in fraction.bytes().map(|b| u32::from(b - b'0')) {
            if place % 10 != 0 {
                return Err(format!("{shown:?} is finer than a millionth"));
            }
            place /= 10;
            millionths += u64::from(digit * place);
        }
        match u32::try_from(millionths) {
            Ok(millionths) if millionths <= WHOLE => Ok(Self { millionths, text: text.to_owned() }),
            _ => Err(format!("{shown:?} is more than all nodes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Share, Tolerance};

    fn share(text: &str) -> Tolerance {
        Tolerance::Share(text.parse().unwrap())
    }

    #[test]
    fn j1_one_failure_in_300_exceeds_zero() {
        assert!(Tolerance::Nodes(0).is_exceeded(1, 300));
        assert!(share("0%").is_exceeded(1, 300));
        assert!(share("0.33%").is_exceeded(1, 300), "1/300 is 0.333…%");
        assert!(!share("0.34%").is_exceeded(1, 300));
    }

    #[test]
    fn j1_shares_are_exact() {
        assert!(!share("10%").is_exceeded(1, 10));
        assert!(share("10%").is_exceeded(2, 10));
        assert!(!share("0.1").is_exceeded(100, 1_000));
        assert!(share("0.1").is_exceeded(101, 1_000));
        assert!(!Tolerance::all().is_exceeded(7, 7));
        assert!(!Tolerance::Nodes(2).is_exceeded(2, 3));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for bad in
            ["", "%", "ten", "-1%", "101%", "1.1", "1e2", "10 %", ".5", "5.", "0.12345678", "99999999999999999999%"]
        {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
        assert_eq!(share("12.5%").to_string(), "12.5%");
    }
}
