//! J1: `failure_tolerate` as a fraction of two whole numbers, read from the text a person wrote.

use grid_types::job::Tolerance;

/// How many of how many may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    Nodes(u128),
    Share { numerator: u128, denominator: u128 },
}

impl Budget {
    pub fn of(tolerance: &Tolerance) -> Self {
        match tolerance {
            Tolerance::Nodes(nodes) => Self::Nodes(u128::from(*nodes)),
            Tolerance::Share(_) => Self::read(&tolerance.to_string()),
        }
    }

    /// `"33.3%"` is 333/1000.
    pub fn read(text: &str) -> Self {
        let (number, hundred) = text.strip_suffix('%').map_or((text, 1), |number| (number, 100));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits: u128 = format!("{whole}{fraction}").parse().unwrap();
        Self::Share { numerator: digits, denominator: 10u128.pow(u32::try_from(fraction.len()).unwrap()) * hundred }
    }

    /// So much of a number, rounded down.
    pub fn floor_of(self, whole: usize) -> usize {
        let Self::Share { numerator, denominator } = self else { panic!("{self:?} is not a share") };
        usize::try_from(whole as u128 * numerator / denominator).unwrap()
    }

    /// failed / expected > numerator / denominator, without a division.
    pub fn is_exceeded(self, failed: usize, expected: usize) -> bool {
        let (failed, expected) = (failed as u128, expected as u128);
        match self {
            Self::Nodes(nodes) => failed > nodes,
            Self::Share { numerator, denominator } => failed * denominator > numerator * expected,
        }
    }
}
