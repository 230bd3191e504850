//! Reads a streamed answer line by line.
//!
//! Controllers send something at least every 10 s; one that is silent for [`SILENCE`] counts as gone, whatever the state of its
//! socket.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Pause between the end of a connection and the next one.
const PAUSE: Duration = Duration::from_millis(200);
/// A stream that ends sooner, without a line, does not count as a lost connection.
const SHORT_LIVED: Duration = Duration::from_secs(2);
const MOST_BARREN: u32 = 20;
const SILENCE: Duration = Duration::from_secs(35);
/// Longer than any record a controller writes.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// The rest of a streamed answer. The caller decides what an unannounced end means.
pub(crate) struct Lines {
    response: reqwest::Response,
    buffer: Vec<u8>,
    /// The bytes before this position were returned already.
    taken: usize,
    opened: Instant,
}

/// How often in a row a stream ended as soon as it was opened: the client gives up on a controller that cannot serve it, rather
/// than ask forever without a message.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    barren: u32,
}

impl Reopening {
    /// The stream has delivered a line.
    pub fn received(&mut self) {
        self.barren = 0;
    }

    /// Waits before the stream that `ended` is opened again.
    pub async fn pause(&mut self, ended: &Lines) -> Result<(), Error> {
        self.barren = if ended.opened.elapsed() < SHORT_LIVED { self.barren + 1 } else { 0 };
        if self.barren > MOST_BARREN {
            let url = ended.response.url().origin().ascii_serialization();
            let problem = format!("its stream ended {MOST_BARREN} times before it sent anything");
            return Err(Error::Unexpected { url, problem });
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

impl Lines {
    pub fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: Vec::new(), taken: 0, opened: Instant::now() }
    }

    /// The next whole line, without its end. `None` if the connection ended, broke or was silent for too long.
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
