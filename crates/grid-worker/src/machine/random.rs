//! Reads the randomness of the kernel.

use std::io;

use crate::seams::Random;

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(|error| io::Error::other(format!("no randomness: {error}")))
    }
}
