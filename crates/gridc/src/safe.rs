//! Makes text that cannot touch the terminal: the only thing that [`crate::out`] writes.
//!
//! Names, reasons, facts, outputs and errors come from other machines. Whatever they contain, only control codes of this
//! program reach the terminal: [`Safe`] escapes everything but those (`grid_types::visible`), and there is no other way to
//! build one. JSON and YAML keep their meaning.
//! Not here: bytes of `job logs --raw`, which are written as they are (`out::raw`).

use std::io;

use grid_types::visible::{is_unsafe, visible, visible_json, visible_lines};
use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Safe(String);

impl Safe {
    /// One line, with its end.
    pub fn line(text: &str) -> Self {
        Self(format!("{}\n", visible(text)))
    }

    /// Lines that were put together from parts that are lines themselves (`text::one_line`).
    pub fn lines(text: &str) -> Self {
        Self(visible_lines(text).into_owned())
    }

    /// A part of a line.
    pub fn part(text: &str) -> Self {
        Self(visible(text).into_owned())
    }

    /// A part of a line, in a colour of ANSI or another rendition.
    pub fn painted(text: &str, code: u8) -> Self {
        Self(format!("\u{1b}[{code}m{}\u{1b}[0m", visible(text)))
    }

    /// What a task printed: a terminal shows its control characters, a pipe gets them.
    pub fn printed(line: &str, terminal: bool) -> Self {
        Self(if terminal { visible_lines(line).into_owned() } else { line.to_owned() })
    }

    /// A control code of this program.
    pub fn code(code: &'static str) -> Self {
        Self(code.to_owned())
    }

    /// To the beginning of a line so many rows above.
    pub fn up(rows: usize) -> Self {
        Self(if rows == 0 { "\r".to_owned() } else { format!("\r\u{1b}[{rows}A") })
    }

    pub fn json(document: &impl Serialize) -> io::Result<Self> {
        Self::of_json(serde_json::to_string(document))
    }

    pub fn json_pretty(document: &impl Serialize) -> io::Result<Self> {
        Self::of_json(serde_json::to_string_pretty(document))
    }

    /// JSON is YAML, too: what YAML would show as it is gets the escapes of JSON.
    pub fn yaml(document: &impl Serialize) -> io::Result<Self> {
        let text = serde_norway::to_string(document).map_err(io::Error::other)?;
        let harmless = !text.contains(|c: char| is_unsafe(c) && c != '\n');
        if harmless { Ok(Self(text)) } else { Self::json_pretty(document) }
    }

    /// Lines that were joined from lines.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(parts.into_iter().map(Self::as_str).collect())
    }

    pub fn push(&mut self, more: &Self) {
        self.0.push_str(&more.0);
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_json(text: serde_json::Result<String>) -> io::Result<Self> {
        let text = text.map_err(io::Error::from)?;
        Ok(Self(format!("{}\n", visible_json(&text))))
    }
}

/// As [`Safe::lines`].
impl From<String> for Safe {
    fn from(text: String) -> Self {
        Self::lines(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Safe;
    use serde_json::json;

    #[test]
    fn issue14_7_only_codes_of_this_program_get_through() {
        assert_eq!(Safe::line("a\u{1b}[2J\nb").as_str(), "a\\u{1b}[2J\\nb\n");
        assert_eq!(Safe::lines("a\u{202e}\n\tb\n").as_str(), "a\\u{202e}\n\tb\n");
        assert_eq!(Safe::painted("a\u{9b}\n", 31).as_str(), "\u{1b}[31ma\\u{9b}\\n\u{1b}[0m");
        assert_eq!(Safe::printed("a\u{7f}\tb", true).as_str(), "a\\u{7f}\tb");
        assert_eq!(Safe::printed("a\u{7f}\tb", false).as_str(), "a\u{7f}\tb");
    }

    #[test]
    fn issue14_7_documents_read_back_as_they_were() {
        let every: String = ('\0'..='\u{2fff}').collect();
        // A key of YAML has at most 1,024 characters.
        let key: String = every.chars().filter(|c| grid_types::visible::is_unsafe(*c)).collect();
        for document in [json!({"name": every.clone()}), json!({ key: [every] }), json!(["plain", 1, null])] {
            let json = Safe::json(&document).unwrap();
            assert_eq!(json.as_str().lines().count(), 1);
            assert_eq!(serde_json::from_str::<serde_json::Value>(json.as_str()).unwrap(), document);
            let yaml = Safe::yaml(&document).unwrap();
            assert_eq!(serde_norway::from_str::<serde_json::Value>(yaml.as_str()).unwrap(), document);
            for text in [json, yaml] {
                assert!(!text.as_str().contains(|c: char| c != '\n' && grid_types::visible::is_unsafe(c)));
            }
        }
        assert_eq!(Safe::yaml(&json!({"a": "b"})).unwrap().as_str(), "a: b\n");
    }
}
