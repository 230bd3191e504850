//! Encodes values in canonical CBOR, which hashes and entries share.

use minicbor::Encode;

/// A value with numbered fields, as bytes. Equal values have equal bytes on every replica (L7).
pub(crate) fn to_vec<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    // The writer is a Vec: its error type has no values.
    let Ok(()) = minicbor::encode(value, &mut bytes) else { return Vec::new() };
    bytes
}
