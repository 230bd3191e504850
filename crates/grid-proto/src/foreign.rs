//! Makes text that came from outside this process safe for a log line.
//!
//! A name from the network may be megabytes long, contain a newline that begins a forged line, or drive the terminal that shows the
//! log. [`Foreign`] writes at most [`MAX_CHARS`] characters of it, between quotes, with everything escaped that is not printable:
//! control characters (C1 and DEL included), bidirectional overrides, line separators, quotes and backslashes.
//! Use it wherever such text is logged or repeated in an answer.

use std::fmt::{self, Display, Write};

/// Characters that are shown; the rest is counted.
pub const MAX_CHARS: usize = 128;

/// Displays foreign text bounded and escaped.
#[derive(Clone, Copy)]
pub struct Foreign<'a>(pub &'a str);

impl Display for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut rest = self.0.chars();
        for c in rest.by_ref().take(MAX_CHARS) {
            Display::fmt(&c.escape_debug(), f)?;
        }
        f.write_char('"')?;
        match rest.as_str().len() {
            0 => Ok(()),
            bytes => write!(f, " and {bytes} more bytes"),
        }
    }
}

impl fmt::Debug for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Foreign, MAX_CHARS};

    #[test]
    fn issue14_3_foreign_text_stays_on_its_line_and_short() {
        assert_eq!(Foreign("web-01").to_string(), "\"web-01\"");
        let bad = "a\nINFO forged\r\t\u{1b}[2J\u{7f}\u{9b}\u{202e}\u{2028}\"\\\0";
        let shown = Foreign(bad).to_string();
        assert!(shown.chars().all(|c| (' '..='~').contains(&c)), "{shown}");
        assert!(shown.starts_with("\"a\\nINFO forged\\r"), "{shown}");
        let long = Foreign(&"x".repeat(8 << 20)).to_string();
        assert!(long.len() < MAX_CHARS + 32, "{} bytes", long.len());
        assert!(long.ends_with("\" and 8388480 more bytes"), "{long}");
        assert_eq!(Foreign(&"é".repeat(MAX_CHARS)).to_string().chars().count(), MAX_CHARS + 2);
    }
}
