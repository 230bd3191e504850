//! A streamed answer, line by line.
//!
//! Controllers say something at least every 10 s; one that is silent for [`SILENCE`] is gone, whatever its socket says.

use std::time::Duration;

const SILENCE: Duration = Duration::from_secs(35);
/// Longer than any record a controller writes.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// The rest of a streamed answer. An end of it that nobody announced is the caller's to judge.
pub(crate) struct Lines {
    response: reqwest::Response,
    buffer: Vec<u8>,
    /// What lies before this has been taken.
    taken: usize,
}

impl Lines {
    pub fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: Vec::new(), taken: 0 }
    }

    /// The next whole line, without its end. `None`: the connection ended, broke or fell silent.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        let mut looked = self.taken;
        loop {
            if let Some(at) = self.buffer[looked..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer[self.taken..looked + at].to_vec();
                self.taken = looked + at + 1;
                return Some(line);
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            looked = self.buffer.len();
            if looked > MAX_LINE_BYTES {
                return None;
            }
            let chunk = tokio::time::timeout(SILENCE, self.response.chunk()).await.ok()?.ok()??;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}
