//! Hashes a session's secret: enough for any leader to check it, useless to a reader of a backup.

use std::fmt;

use minicbor::{Decode, Encode};

/// Bytes of a secret. With 128 random bits it needs no salt.
pub const SECRET_BYTES: usize = 16;

/// A hash of the secret of a session.
#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SecretHash(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    [u8; 32],
);

impl SecretHash {
    /// The hash of a secret.
    #[must_use]
    pub fn of(secret: &[u8; SECRET_BYTES]) -> Self {
        Self(*blake3::hash(secret).as_bytes())
    }

    /// In constant time, whatever is compared. No hash, as of an agent: nothing matches.
    #[must_use]
    pub fn is_of(known: Option<Self>, secret: &[u8]) -> bool {
        // `blake3::Hash` compares in constant time.
        let equal = blake3::Hash::from_bytes(known.map_or([0; 32], |hash| hash.0)) == blake3::hash(secret);
        equal & known.is_some() & (secret.len() == SECRET_BYTES)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::SecretHash;

    #[test]
    fn issue14_2_only_the_secret_itself_matches_its_hash() {
        let known = Some(SecretHash::of(&[7; 16]));
        assert!(SecretHash::is_of(known, &[7; 16]));
        for other in [&[7; 15][..], &[7; 17], &[8; 16], &[]] {
            assert!(!SecretHash::is_of(known, other) && !SecretHash::is_of(None, other));
        }
        assert!(!SecretHash::is_of(None, &[7; 16]));
    }
}
