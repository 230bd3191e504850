//! Tells requests under one idempotency key apart (J12).

use minicbor::{Decode, Encode};

/// A hash over a request: two requests with one are the same request (J12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct RequestHash(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub [u8; 32],
);

impl RequestHash {
    /// `canonical`: equal requests are equal bytes.
    #[must_use]
    pub fn of(canonical: &[u8]) -> Self {
        Self(*blake3::hash(canonical).as_bytes())
    }
}

impl std::fmt::Display for RequestHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
