//! Escapes characters that a terminal would act on instead of printing.
//!
//! Names, errors and outputs come from other machines. A control character in them can clear a screen, set a title or type into
//! a shell; a bidi control can show a text in a different order than it is read; U+2028 and U+2029 end a line for some readers.
//! All of them are replaced by their escapes (`\u{1b}`).
//! Not here: the callers (`gridc::safe` for everything that `gridc` prints, `grid::say` for `grid`).

use std::borrow::Cow;

/// Whether a terminal, or a reader of lines, may act on a character instead of showing it: C0, DEL, C1, the controls of text
/// direction, the deprecated format characters beside them, and the separators of lines and paragraphs.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// A text without such characters, on one line.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe, |to, c| to.extend(c.escape_default()))
}

/// The same for a text of several lines: newlines and tabs stay.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'), |to, c| to.extend(c.escape_default()))
}

/// The same for a JSON document, which keeps its meaning: outside of its strings it has none of these characters but newlines.
#[must_use]
pub fn visible_json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unsafe(c) && c != '\n', |to, c| to.push_str(&format!("\\u{:04x}", u32::from(c))))
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) { escape(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::{is_unsafe, visible, visible_json, visible_lines};

    #[test]
    fn issue14_7_what_a_terminal_obeys_is_shown_as_its_escape() {
        for (text, shown) in [
            ("plain, ünï, 日本, 👩‍🚀", "plain, ünï, 日本, 👩‍🚀"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\tb\r\nc", "a\\tb\\r\\nc"),
            ("\u{7f}\u{85}\u{9b}5m", "\\u{7f}\\u{85}\\u{9b}5m"),
            (
                "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
                "\\u{202a}\\u{202e}\\u{2066}\\u{2069}\\u{200e}\\u{200f}\\u{61c}",
            ),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_lines("a\tb\r\nc\u{1b}"), "a\tb\\r\nc\\u{1b}");
    }

    #[test]
    fn issue14_7_a_json_document_keeps_its_meaning() {
        let every: String = ('\0'..='\u{2fff}').collect();
        let document = serde_json::json!({ every.clone(): [every] });
        for text in [document.to_string(), serde_json::to_string_pretty(&document).unwrap()] {
            let shown = visible_json(&text);
            assert!(!shown.contains(|c: char| is_unsafe(c) && c != '\n'));
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), document);
        }
    }
}
