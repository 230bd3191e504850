//! Creates idempotency keys: 128 random bits that identify one submit, however often it is sent.

use std::fmt;

use crate::error::Error;

/// The `Idempotency-Key` of one submit: repeating the submit with it gives the same job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// # Errors
    /// When the system returns no random bytes: a guessable key could be answered with the job of another client.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|e| Error::NoRandomness(e.to_string()))?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// The value of the header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::IdempotencyKey;

    #[test]
    fn keys_are_128_bits_of_hex_and_differ() {
        let (a, b) = (IdempotencyKey::random().unwrap(), IdempotencyKey::random().unwrap());
        assert_eq!(a.as_str().len(), 32);
        assert!(a.as_str().bytes().all(|c| c.is_ascii_hexdigit()));
        assert_ne!(a, b);
    }
}
