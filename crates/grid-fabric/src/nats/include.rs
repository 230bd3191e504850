//! Names the nodes that a broadcast is for (N2), as compactly as their ordinals allow.
//!
//! `{"from": 1, "to": 500}` has every ordinal between the two; `{"from": 1, "bits": "…"}` has `from + i` for each bit `i` that is set, the
//! lowest bit of the first byte first, in base64. A worker decodes no more of it than its own bit.
//! Fields that this version does not know are refused here, unlike in the command itself: they could take nodes away.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use grid_types::NodeOrd;
use serde::{Deserialize, Serialize};

/// Longest text of bits: 393,000 ordinals.
const MAX_BITS_BYTES: usize = 64 * 1024;

/// The ordinals of the nodes that are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "Fields")]
pub enum Include {
    Range { from: u32, to: u32 },
    Bits { from: u32, bits: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    from: u32,
    to: Option<u32>,
    bits: Option<String>,
}

impl Include {
    /// `None`: nobody, or too far apart for one message.
    #[must_use]
    pub fn of(nodes: impl Iterator<Item = NodeOrd>) -> Option<Self> {
        let mut ordinals: Vec<u32> = nodes.map(|node| node.0).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        let (from, to) = (*ordinals.first()?, *ordinals.last()?);
        let span = usize::try_from(to - from).ok()?;
        if span == ordinals.len() - 1 {
            return Some(Self::Range { from, to });
        }
        let bytes = span / 8 + 1;
        if bytes.div_ceil(3) * 4 > MAX_BITS_BYTES {
            return None;
        }
        let mut bits = vec![0u8; bytes];
        for ordinal in ordinals {
            let at = usize::try_from(ordinal - from).ok()?;
            bits[at / 8] |= 1 << (at % 8);
        }
        Some(Self::Bits { from, bits: STANDARD.encode(bits) })
    }

    /// Whether this node is meant.
    #[must_use]
    pub fn has(&self, node: NodeOrd) -> bool {
        match self {
            Self::Range { from, to } => (*from..=*to).contains(&node.0),
            Self::Bits { from, bits } => {
                node.0.checked_sub(*from).and_then(|at| bit(bits, usize::try_from(at).ok()?)).unwrap_or(false)
            }
        }
    }
}

impl TryFrom<Fields> for Include {
    type Error = &'static str;

    fn try_from(fields: Fields) -> Result<Self, Self::Error> {
        let Fields { from, to, bits } = fields;
        match (to, bits) {
            (Some(to), None) if from <= to => Ok(Self::Range { from, to }),
            (Some(_), None) => Err("`from` is above `to`"),
            (None, Some(bits)) if bits.len() > MAX_BITS_BYTES => Err("`bits` is longer than 64 KiB"),
            (None, Some(bits)) => Ok(Self::Bits { from, bits }),
            _ => Err("either `to` or `bits` is expected"),
        }
    }
}

/// Bit `at` of a base64 text; `None` beyond its end, or where it is not base64.
fn bit(text: &str, at: usize) -> Option<bool> {
    let (byte, group) = (at / 8, at / 8 / 3);
    let digits = text.as_bytes().get(group * 4..group * 4 + 4)?;
    let mut decoded = [0u8; 3];
    let bytes = STANDARD.decode_slice(digits, &mut decoded).ok()?;
    Some(decoded.get(..bytes)?.get(byte % 3)? >> (at % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use grid_types::NodeOrd;
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Include, MAX_BITS_BYTES};

    fn of(ordinals: &[u32]) -> Option<Include> {
        Include::of(ordinals.iter().copied().map(NodeOrd))
    }

    fn read(value: serde_json::Value) -> Option<Include> {
        serde_json::from_value(value).ok()
    }

    proptest! {
        #[test]
        fn n2_exactly_those_are_included(ordinals in prop::collection::vec(1u32..3_000, 1..300), base in 0u32..4_000_000) {
            let meant: BTreeSet<u32> = ordinals.iter().map(|ordinal| base + ordinal).collect();
            let include = of(&ordinals.iter().map(|ordinal| base + ordinal).collect::<Vec<_>>()).unwrap();
            let read: Include = serde_json::from_str(&serde_json::to_string(&include).unwrap()).unwrap();
            prop_assert_eq!(&read, &include);
            for ordinal in base.saturating_sub(20)..base + 3_020 {
                prop_assert_eq!(read.has(NodeOrd(ordinal)), meant.contains(&ordinal), "{}", ordinal);
            }
        }

        #[test]
        fn whatever_it_is_sent_it_answers(from in any::<u32>(), bits in ".{0,40}", node in any::<u32>()) {
            if let Some(include) = read(json!({"from": from, "bits": bits})) {
                prop_assert!(!include.has(NodeOrd(node)) || node >= from);
            }
        }
    }

    #[test]
    fn neighbours_are_a_range_and_repetitions_count_once() {
        assert_eq!(of(&[3, 2, 2, 4, 3]), Some(Include::Range { from: 2, to: 4 }));
        assert_eq!(of(&[7]), Some(Include::Range { from: 7, to: 7 }));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0, u32::MAX]), None, "too far apart");
        assert_eq!(serde_json::to_value(of(&[1, 3])).unwrap(), json!({"from": 1, "bits": "BQ=="}));
    }

    #[test]
    fn the_text_of_bits_has_a_bound() {
        let most = u32::try_from(MAX_BITS_BYTES / 4 * 3 * 8).unwrap();
        let Some(Include::Bits { bits, .. }) = of(&[1, most]) else { panic!("it fits") };
        assert_eq!(bits.len(), MAX_BITS_BYTES);
        assert_eq!(of(&[1, most + 1]), None);
        assert_eq!(read(json!({"from": 1, "bits": "A".repeat(MAX_BITS_BYTES + 1)})), None);
    }

    #[test]
    fn what_is_not_clear_includes_nobody() {
        for hostile in [
            json!({}),
            json!({"from": 1}),
            json!({"to": 9}),
            json!({"from": 9, "to": 1}),
            json!({"from": -1, "to": 1}),
            json!({"from": 1, "to": 4_294_967_296_u64}),
            json!({"from": 1, "to": 9, "bits": "AQ=="}),
            json!({"from": 1, "to": 9, "except": [3]}),
            json!({"from": 1.5, "to": 9}),
            json!({"from": 1, "bits": [1, 2]}),
            json!("all"),
            json!(null),
        ] {
            assert_eq!(read(hostile.clone()), None, "{hostile}");
        }
        for bits in ["", "A", "AQ", "AQ=", "!!!!", "====", "AQ==AQ=="] {
            let include = read(json!({"from": 1, "bits": bits})).unwrap();
            let meant: Vec<u32> = (0..100).filter(|ordinal| include.has(NodeOrd(*ordinal))).collect();
            assert!(
                meant.iter().all(|ordinal| bits.starts_with("AQ==") && [1, 25].contains(ordinal)),
                "{bits}: {meant:?}"
            );
        }
    }
}
