//! Defines how many nodes may be in a phase at once: `5` nodes, or a share of the expected ones, `"20%"`.
//!
//! A number is encoded as a bare number, as it was before there were shares.

use std::fmt;

use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::Share;

/// How many nodes may be in a phase at once (J2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concurrency {
    /// So many nodes.
    Nodes(u32),
    /// A share of the expected nodes.
    Share(Share),
}

impl Concurrency {
    /// Places for so many expected nodes: the share is rounded down, and there is always one.
    #[must_use]
    pub fn places(&self, expected: usize) -> u32 {
        match self {
            Self::Nodes(nodes) => *nodes,
            Self::Share(share) => u32::try_from(share.floor_of(expected)).unwrap_or(u32::MAX).max(1),
        }
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => nodes.fmt(f),
            Self::Share(share) => share.fmt(f),
        }
    }
}

impl<C> Encode<C> for Concurrency {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match self {
            Self::Nodes(nodes) => e.u32(*nodes)?.ok(),
            Self::Share(share) => share.encode(e, ctx),
        }
    }
}

impl<'b, C> Decode<'b, C> for Concurrency {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        match d.datatype()? {
            Type::Array => Share::decode(d, ctx).map(Self::Share),
            _ => d.u32().map(Self::Nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Concurrency;

    #[test]
    fn issue13_25_a_share_is_rounded_down_and_never_nothing() {
        let places = |text: &str, expected| Concurrency::Share(text.parse().unwrap()).places(expected);
        assert_eq!((places("20%", 9), places("20%", 10), places("20%", 14)), (1, 2, 2));
        assert_eq!((places("20%", 3), places("0.1", 1)), (1, 1), "at least one");
        assert_eq!((places("33.3333%", 3), places("100%", 7)), (1, 7), "exact: a third is more than 33.3333%");
        assert_eq!(Concurrency::Nodes(5).places(2), 5);
    }

    #[test]
    fn issue13_25_a_number_is_encoded_as_before() {
        for window in [Concurrency::Nodes(7), Concurrency::Share("12.5%".parse().unwrap())] {
            let bytes = minicbor::to_vec(&window).unwrap();
            assert_eq!(minicbor::decode::<Concurrency>(&bytes).unwrap(), window);
        }
        assert_eq!(minicbor::to_vec(Concurrency::Nodes(7)).unwrap(), minicbor::to_vec(7u32).unwrap());
    }
}
