//! Stores a set of small numbers, one bit each: which nodes of a job have a step behind them.

use minicbor::{Decode, Encode};

/// A set of small numbers: positions in a job's `expected`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Bits(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    Vec<u8>,
);

impl Bits {
    /// Adds a number.
    pub fn set(&mut self, at: usize) {
        if self.0.len() <= at / 8 {
            self.0.resize(at / 8 + 1, 0);
        }
        self.0[at / 8] |= 1 << (at % 8);
    }

    /// Whether a number is in the set.
    #[must_use]
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 8).is_some_and(|byte| byte & 1 << (at % 8) != 0)
    }

    /// How many numbers are in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|byte| byte.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn bits_are_set_and_counted() {
        let mut bits = Bits::default();
        for at in [0, 7, 8, 1_000] {
            bits.set(at);
        }
        bits.set(8);
        assert!(bits.has(1_000) && bits.has(0) && !bits.has(1) && !bits.has(50_000));
        assert_eq!(bits.count(), 4);
    }
}
