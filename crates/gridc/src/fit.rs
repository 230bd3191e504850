//! Fits text into the columns of a terminal: measures and cuts it.
//!
//! Widths are those of a terminal, not numbers of characters: a wide character takes two columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub fn width(text: &str) -> usize {
    text.width()
}

/// At most `columns` wide; what is cut off is an ellipsis.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = head(text, columns.saturating_sub(1)).to_owned();
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// At most `columns` wide; the middle is cut out, because names differ at their ends.
pub fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let front = head(text, room.div_ceil(2));
    let back = tail(text, room / 2);
    if columns == 0 { String::new() } else { format!("{front}…{back}") }
}

/// Filled up with spaces.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Whole words on lines of at most `columns`, at most `lines` of them.
pub fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    let mut words = text.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(first) = words.next() {
        let mut line = first.to_owned();
        if wrapped.len() + 1 >= lines {
            // The last line takes what is left, cut.
            words.by_ref().for_each(|word| line.push_str(&format!(" {word}")));
        }
        while let Some(word) = words.next_if(|word| width(&line) + 1 + width(word) <= columns) {
            line.push(' ');
            line.push_str(word);
        }
        wrapped.push(cut(&line, columns));
    }
    wrapped
}

fn head(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        taken += c.width().unwrap_or(0);
        (taken > columns).then_some(at)
    });
    &text[..end.unwrap_or(text.len())]
}

fn tail(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let start = text.char_indices().rev().find_map(|(at, c)| {
        taken += c.width().unwrap_or(0);
        (taken > columns).then_some(at + c.len_utf8())
    });
    &text[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::{cut, cut_middle, pad, width, wrap};

    #[test]
    fn what_fits_is_left_alone_and_the_rest_is_cut_to_the_column() {
        assert_eq!(cut("web-01", 6), "web-01");
        assert_eq!(cut("web-01", 5), "web-…");
        assert_eq!((cut("web", 1), cut("web", 0)), ("…".to_owned(), String::new()));
        assert_eq!(cut_middle("rack-a-web-0001", 9), "rack…0001");
        assert_eq!((cut_middle("abc", 1), cut_middle("abc", 0)), ("…".to_owned(), String::new()));
        assert_eq!(cut_middle("abc", 3), "abc");
        assert_eq!(pad("ab", 4), "ab  ");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(width("日本"), 4);
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut_middle("日本語日本語", 5), "日…語");
        for columns in 0..14 {
            assert!(width(&cut("a日b本c語", columns)) <= columns);
            assert!(width(&cut_middle("a日b本c語", columns)) <= columns);
        }
    }

    #[test]
    fn words_are_wrapped_and_the_last_line_is_cut() {
        assert_eq!(wrap("one two three four", 9, 3), ["one two", "three", "four"]);
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("unbreakable", 5, 2), ["unbr…"]);
        assert!(wrap("", 5, 2).is_empty());
    }
}
