//! One HTTP/1.1 connection that posts JSON and counts: as little as a client can do, so that the server is the limit.
//!
//! Not a general client: it reads answers with a `content-length`, which is what both servers send.

use anyhow::{Context, anyhow, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MOST_ANSWER_BYTES: usize = 1024 * 1024;

pub struct Connection {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

/// The status and body of an answer.
pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
}

impl Connection {
    /// `address`: host and port.
    pub async fn open(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host: address.to_owned(), buffer: Vec::new() })
    }

    pub async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<Answer<'_>> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
            self.host
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.answer().await
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<Answer<'_>> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host);
        self.stream.write_all(request.as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> anyhow::Result<Answer<'_>> {
        self.buffer.clear();
        let (status, from, to) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("{} has closed the connection", self.host);
            }
            if let Some((status, from, to)) = head(&self.buffer)?
                && self.buffer.len() >= to
            {
                break (status, from, to);
            }
            if self.buffer.len() > MOST_ANSWER_BYTES {
                bail!("{} answers more than {MOST_ANSWER_BYTES} bytes", self.host);
            }
        };
        Ok(Answer { status, body: &self.buffer[from..to] })
    }
}

/// Status, and the range of the body; `None` while the head is incomplete.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).context("the answer is not HTTP")?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status: u16 = status.ok_or_else(|| anyhow!("the answer is not HTTP"))?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or_else(|| anyhow!("the answer has no content-length"))?;
    Ok(Some((status, end + 4, end + 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn an_answer_ends_where_its_head_says() {
        assert_eq!(head(b"HTTP/1.1 201 Created\r\nContent-Le").unwrap(), None);
        let whole = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(head(whole).unwrap(), Some((201, whole.len() - 2, whole.len())));
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
