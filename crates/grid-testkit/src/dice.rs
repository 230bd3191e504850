//! Random choices that a seed repeats.

/// SplitMix64: enough to choose victims and moments, and the same on every machine.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `sides - 1`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.number() % sides
    }

    /// # Panics
    /// When there is nothing to pick from.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.roll(from.len() as u64)).expect("an index");
        &from[at]
    }
}
