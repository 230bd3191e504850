//! A plain socket, for requests that no HTTP client would send.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::wait::LIMIT;

/// One connection to a loopback port.
pub struct Raw {
    stream: TcpStream,
}

impl Raw {
    /// # Panics
    /// When the port is closed.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap_or_else(|e| panic!("port {port}: {e}"));
        for set in [stream.set_read_timeout(Some(LIMIT)), stream.set_write_timeout(Some(LIMIT))] {
            set.expect("timeouts above zero");
        }
        Self { stream }
    }

    /// Writes all of it, or returns the error.
    ///
    /// # Errors
    /// The other side closed, reset or stopped reading.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|e| e.to_string())
    }

    /// Closes the sending side and continues to read.
    pub fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Everything until the other side closes.
    ///
    /// # Errors
    /// A reset, or silence beyond the limit; with the bytes received before.
    pub fn read_to_end(&mut self) -> Result<String, String> {
        let mut bytes = Vec::new();
        let read = self.stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        read.map(|_| text.clone()).map_err(|e| format!("{e} after {text:?}"))
    }

    /// One HTTP answer with a content length; the connection stays.
    ///
    /// # Errors
    /// The connection ended before the answer did.
    pub fn read_answer(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut bytes = [0; 4096];
        loop {
            let n = self.stream.read(&mut bytes).map_err(|e| format!("{e} after {text:?}"))?;
            if n == 0 {
                return Err(format!("closed after {text:?}"));
            }
            text.push_str(&String::from_utf8_lossy(&bytes[..n]));
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                return Ok(text);
            }
        }
    }
}
