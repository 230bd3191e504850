//! Builds HTTP/2 frames and gRPC calls by hand: a client library would not send messages that must be refused.

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const ACK: u8 = 1;
/// The payload of a frame, as long as the peer has not allowed more.
pub const FRAME_BYTES: usize = 16 << 10;

/// # Panics
/// When the payload has 4 GiB or more.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small payload").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The connection preface of a client.
pub fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// HPACK without its table: each header literal.
pub fn call(stream: u32, path: &str) -> Vec<u8> {
    call_with(stream, path, &[])
}

/// The same with further headers.
pub fn call_with(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut block = Vec::new();
    for (name, value) in usual.iter().chain(more) {
        block.push(0);
        for text in [name, value] {
            // A length of 127 and more continues as a varint.
            match u8::try_from(text.len()) {
                Ok(short @ 0..127) => block.push(short),
                _ => {
                    block.push(127);
                    let mut rest = text.len() - 127;
                    while rest >= 0x80 {
                        block.push(rest.to_le_bytes()[0] | 0x80);
                        rest >>= 7;
                    }
                    block.push(rest.to_le_bytes()[0]);
                }
            }
            block.extend(text.as_bytes());
        }
    }
    let mut parts = block.chunks(FRAME_BYTES).peekable();
    let mut frames = Vec::new();
    let mut kind = HEADERS;
    while let Some(part) = parts.next() {
        frames.extend(frame(kind, if parts.peek().is_none() { END_HEADERS } else { 0 }, stream, part));
        kind = CONTINUATION;
    }
    frames
}
