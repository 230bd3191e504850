//! Bytes from their base64 text (RFC 4648, with padding; line breaks are allowed). Strict: two texts never mean the same bytes by accident.

pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "is no base64: letters, digits, + and /, with = at the end".to_owned();
    let plain: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let mut bytes = Vec::with_capacity(plain.len() / 4 * 3);
    let mut groups = plain.chunks(4).peekable();
    while let Some(group) = groups.next() {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if group.len() != 4 || padding > 2 || (padding > 0 && groups.peek().is_some()) {
            return Err(wrong());
        }
        let mut bits = 0_u32;
        for byte in &group[..4 - padding] {
            bits = bits << 6 | u32::from(digit(*byte).ok_or_else(wrong)?);
        }
        bits <<= 6 * padding;
        let three = bits.to_be_bytes();
        // Bits that stand for nothing are zero.
        if three[4 - padding..].iter().any(|byte| *byte != 0) {
            return Err(wrong());
        }
        bytes.extend_from_slice(&three[1..4 - padding]);
    }
    Ok(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn only_what_stands_for_bytes_is_decoded() {
        for (text, want) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9v\nYmFy", b"foobar"),
            ("AP/+", &[0, 255, 254]),
        ] {
            assert_eq!(decode(text).unwrap(), want, "{text}");
        }
        for bad in ["Z", "Zg", "Zg=", "Zg===", "====", "Zm9v=", "Zg==Zg==", "Zh==", "Zm9=", "Zm-v", "Zm 9v", "=Zg="] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
