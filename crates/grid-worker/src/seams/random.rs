//! Defines randomness as a seam: ids, the nonce of a process, the seed of its pauses.

use std::io;

pub trait Random: Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;

    fn number(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// For ids, which must differ from those of any other worker.
    fn id(&self) -> io::Result<[u8; 16]> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}
