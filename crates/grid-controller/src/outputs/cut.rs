//! Decides where bytes of an output may be cut: at the end of a line, and never inside a character.

/// What becomes of a last line that has no end yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenLine {
    /// It waits for its end.
    Keep,
    /// It is shown, but for a character of which the rest is missing.
    Show,
    /// It is shown as it is: no more bytes follow.
    ShowAll,
}

/// How many bytes are shown now. A line longer than one piece is shown in pieces.
pub fn whole_lines(data: &[u8], open_line: OpenLine) -> usize {
    match open_line {
        OpenLine::Keep => data.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        OpenLine::Show => data.len() - unfinished_char(data),
        OpenLine::ShowAll => data.len(),
    }
}

/// Bytes at the end that begin a character of which the rest is missing.
fn unfinished_char(data: &[u8]) -> usize {
    let begin = data.iter().rev().take(4).position(|byte| byte & 0b1100_0000 != 0b1000_0000);
    let Some(back) = begin else { return 0 };
    let has = back + 1;
    let needs = match data[data.len() - has] {
        0b1100_0000..=0b1101_1111 => 2,
        0b1110_0000..=0b1110_1111 => 3,
        0b1111_0000..=0b1111_0111 => 4,
        _ => 1,
    };
    // All of a piece is never an unfinished character: something must go on.
    if has < needs && has < data.len() { has } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::OpenLine::{Keep, Show, ShowAll};
    use super::whole_lines;

    #[test]
    fn lines_are_cut_at_their_ends_and_characters_never() {
        assert_eq!(whole_lines(b"one\ntwo\nthr", Keep), 8);
        assert_eq!(whole_lines(b"thr", Keep), 0);
        assert_eq!(whole_lines(b"one\nthr", ShowAll), 7);
        let long = "aaé".as_bytes();
        assert_eq!(whole_lines(&long[..3], Show), 2, "half of an é waits for its other half");
        assert_eq!(whole_lines(&long[..3], ShowAll), 3, "unless there is none");
        assert_eq!(whole_lines(long, Show), 4);
        assert_eq!(whole_lines(b"\xff\xff", Show), 2, "what is no character at all is not waited for");
        assert_eq!(whole_lines("𝄞".as_bytes().split_at(3).0, Show), 3);
        assert_eq!(whole_lines(b"", Show), 0);
    }
}
