//! Reads and writes the hash of a plan: 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

/// The hash of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanHash(pub [u8; 32]);

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PlanHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "a plan is named by 64 hexadecimal digits, as gridc job plan prints them".to_owned();
        let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>().ok_or_else(bad)?;
        let bytes: Vec<u8> =
            digits.chunks(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok()).collect();
        if digits.len() != 64 {
            return Err(bad());
        }
        bytes.try_into().map(Self).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::PlanHash;

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = PlanHash([0xa7; 32]);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for bad in ["", "a7", &"a7".repeat(33), &"g7".repeat(32), &format!("{}é", "a".repeat(63))] {
            assert!(bad.parse::<PlanHash>().is_err(), "{bad}");
        }
    }
}
