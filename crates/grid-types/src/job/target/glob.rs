//! Patterns in targets: `*` is any text, also none, and `?` is one character. Everything else is itself.
//!
//! Matching takes at most (pattern × text) steps: after a mismatch only the last `*` is extended.

use std::fmt;

use minicbor::{Decode, Encode};

/// A pattern with at least one `*` or `?`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Glob(#[n(0)] Box<str>);

/// What a value is compared with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Pattern {
    /// The same text.
    #[n(0)]
    Exact(#[n(0)] String),
    /// A text that fits.
    #[n(1)]
    Glob(#[n(0)] Glob),
}

impl Glob {
    /// The pattern, if the text is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        is_glob(text).then(|| Self(text.into()))
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole text fits.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let (mut pattern, mut rest) = (self.0.chars(), text.chars());
        // Where to go on if what follows the last `*` does not fit: behind the `*`, one character later in the text.
        let mut retry = None;
        loop {
            let before = (pattern.clone(), rest.clone());
            match (pattern.next(), rest.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    rest = before.1;
                    retry = Some((pattern.clone(), rest.clone()));
                }
                (Some('?'), Some(_)) => {}
                (Some(wanted), Some(found)) if wanted == found => {}
                _ => {
                    let Some((after_star, mut from)) = retry.take() else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    (pattern, rest) = (after_star.clone(), from.clone());
                    retry = Some((after_star, from));
                }
            }
        }
    }
}

/// Whether a text has a character with a special meaning.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?'])
}

impl Pattern {
    /// A glob, if the text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Glob::new(text).map_or_else(|| Self::Exact(text.to_owned()), Self::Glob)
    }

    /// Whether a value fits.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) => text == value,
            Self::Glob(glob) => glob.matches(value),
        }
    }
}

/// Quoted where it would be read as something else.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(glob) => f.write_str(glob.as_str()),
            Self::Exact(text) if !needs_quotes(text) => f.write_str(text),
            Self::Exact(text) => {
                f.write_str("\"")?;
                for c in text.chars() {
                    if c == '"' || c == '\\' {
                        f.write_str("\\")?;
                    }
                    write!(f, "{c}")?;
                }
                f.write_str("\"")
            }
        }
    }
}

/// Whether a value that is not quoted would mean, or end at, something else.
pub(super) fn needs_quotes(text: &str) -> bool {
    is_glob(text) || text.contains(|c: char| c.is_whitespace() || "\"(),".contains(c))
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        let fits = |pattern: &str, text: &str| Glob::new(pattern).unwrap().matches(text);
        for (pattern, text) in [
            ("*", ""),
            ("*", "web"),
            ("web-*", "web-"),
            ("web-*", "web-01"),
            ("*-01", "web-01"),
            ("w*b*1", "web-01"),
            ("a*ab", "aaab"),
            ("a*b*c", "abbbcbc"),
            ("web-0?", "web-01"),
            ("?", "ü"),
            ("**", "x"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("?", ""), ("web-?", "web-"), ("web-*", "web"), ("*a", "ab"), ("a*b*c", "acb"), ("*?", "")]
        {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        assert_eq!(Glob::new("web"), None);
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let pattern = Glob::new(&"*a".repeat(100)).unwrap();
        assert!(!pattern.matches(&"a".repeat(255).replace('a', "ab")[..99]), "linear retries, not exponential ones");
    }
}
