//! Protobuf and gRPC by hand, over one connection: a client library would not send what has to be refused.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use grid_testkit::http2::{
    ACK, DATA, END_STREAM, FRAME_BYTES, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, call_with, frame,
    hello,
};

/// A protobuf message under construction.
#[derive(Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    pub fn uint(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    pub fn fixed(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// Encodes it as gRPC sends it: not compressed, with its length.
    pub fn framed(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("below 4 GiB").to_be_bytes();
        [&[0][..], &length, &self.0].concat()
    }
}

/// The first value of a varint or bytes field of a message.
pub struct Fields(Vec<(u64, Value)>);

enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Fields {
    /// As much of it as can be read.
    pub fn read(bytes: &[u8]) -> Self {
        let (mut at, mut fields) = (0, Vec::new());
        while let Some(key) = varint(bytes, &mut at) {
            let value = match key & 7 {
                0 => varint(bytes, &mut at).map(Value::Number),
                1 => {
                    take(bytes, &mut at, 8).map(|b| Value::Number(u64::from_le_bytes(b.try_into().unwrap_or_default())))
                }
                2 => varint(bytes, &mut at)
                    .and_then(|n| take(bytes, &mut at, usize::try_from(n).ok()?))
                    .map(|b| Value::Bytes(b.to_vec())),
                _ => None,
            };
            let Some(value) = value else { break };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    pub fn number(&self, field: u64) -> Option<u64> {
        self.0.iter().find_map(|(at, value)| match value {
            Value::Number(number) if *at == field => Some(*number),
            _ => None,
        })
    }

    pub fn bytes(&self, field: u64) -> Option<&[u8]> {
        self.0.iter().find_map(|(at, value)| match value {
            Value::Bytes(bytes) if *at == field => Some(&bytes[..]),
            _ => None,
        })
    }
}

fn take<'a>(bytes: &'a [u8], at: &mut usize, count: usize) -> Option<&'a [u8]> {
    let taken = bytes.get(*at..at.checked_add(count)?)?;
    *at += count;
    Some(taken)
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// As gRPC sends binary headers.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            let at = bits >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[at as usize]));
        }
    }
    text
}

/// One HTTP/2 connection that obeys the window of the server, so that large messages arrive.
pub struct Connection {
    socket: TcpStream,
    read: Vec<u8>,
    window: i64,
    stream_window: i64,
}

impl Connection {
    /// # Errors
    /// Refused or cut off: a correct answer to an attacker.
    pub fn open(port: u16) -> io::Result<Self> {
        let mut socket = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(2))?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.set_write_timeout(Some(Duration::from_secs(2)))?;
        socket.write_all(&hello())?;
        Ok(Self { socket, read: Vec::new(), window: 65_535, stream_window: 65_535 })
    }

    /// # Errors
    /// The server closed it.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends `bytes` as the body of one stream, as fast as the server allows.
    ///
    /// # Errors
    /// The server closed it or takes no more.
    pub fn data(&mut self, stream: u32, bytes: &[u8], end: bool) -> io::Result<()> {
        let mut chunks = bytes.chunks(FRAME_BYTES).peekable();
        while let Some(chunk) = chunks.next() {
            let size = i64::try_from(chunk.len()).unwrap_or(i64::MAX);
            while self.window.min(self.stream_window) < size {
                self.frame()?;
            }
            self.window -= size;
            self.stream_window -= size;
            let flags = if end && chunks.peek().is_none() { END_STREAM } else { 0 };
            self.socket.write_all(&frame(DATA, flags, stream, chunk))?;
        }
        Ok(())
    }

    /// The first gRPC message that comes on any stream, if one does.
    pub fn answer(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        for _ in 0..64 {
            let (kind, flags, payload) = self.frame().ok()?;
            if kind == DATA {
                body.extend(payload);
                let length = body.get(1..5).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
                let whole = length.and_then(|n| body.get(5..5 + usize::try_from(n).ok()?));
                if let Some(message) = whole {
                    return Some(message.to_vec());
                }
            }
            if kind == GOAWAY || kind == RST_STREAM || (kind == HEADERS && flags & END_STREAM != 0) {
                return None;
            }
        }
        None
    }

    /// One call with one message; its answer, if there is one.
    pub fn unary(port: u16, path: &str, message: &Message) -> Option<Vec<u8>> {
        Self::unary_with(port, path, &[], message)
    }

    /// The same with further headers.
    pub fn unary_with(port: u16, path: &str, headers: &[(&str, &str)], message: &Message) -> Option<Vec<u8>> {
        let mut connection = Self::open(port).ok()?;
        connection.write(&call_with(1, path, headers)).ok()?;
        connection.data(1, &message.framed(), true).ok()?;
        connection.answer()
    }

    fn frame(&mut self) -> io::Result<(u8, u8, Vec<u8>)> {
        loop {
            if let Some(head) = self.read.get(..9) {
                let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let (kind, flags) = (head[3], head[4]);
                let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
                let end = 9 + usize::try_from(size).map_err(io::Error::other)?;
                if self.read.len() >= end {
                    let payload = self.read[9..end].to_vec();
                    self.read.drain(..end);
                    self.note(kind, flags, stream, &payload)?;
                    return Ok((kind, flags, payload));
                }
            }
            let mut bytes = [0; 16 << 10];
            match self.socket.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.read.extend(&bytes[..n]),
            }
        }
    }

    fn note(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    if setting[..2] == [0, 4] {
                        let size = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                        self.stream_window += i64::from(size) - 65_535;
                    }
                }
                self.socket.write_all(&frame(SETTINGS, ACK, 0, &[]))
            }
            WINDOW_UPDATE => {
                let more = payload.try_into().map_or(0, u32::from_be_bytes);
                let window = if stream == 0 { &mut self.window } else { &mut self.stream_window };
                *window += i64::from(more);
                Ok(())
            }
            PING if flags & ACK == 0 => self.socket.write_all(&frame(PING, ACK, 0, payload)),
            _ => Ok(()),
        }
    }
}
