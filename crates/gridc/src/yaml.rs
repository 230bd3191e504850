//! Reads YAML files strictly: no key twice, nothing that grows, nothing that takes for ever.
//!
//! libyaml takes quadratic time for two things that no person writes: brackets within brackets within brackets (its own
//! limit of depth is asked too late), and directives by the thousand. Both are counted in the text before it is asked.
//! Brackets are counted wherever they stand, in quotes too: to tell them apart is to write a second reader of YAML,
//! and no text that people give to a job has hundreds of brackets open at once.
//! Not here: keys and sizes (`grid_types::strict`); also read by `grid` for its own settings.

use grid_types::{Faults, strict};
use serde_json::Value;

const MAX_OPEN_BRACKETS: usize = 256;
const MAX_DIRECTIVES: usize = 8;

/// The document, and the keys that are given twice in it.
pub fn read_yaml(text: &str) -> Result<(Value, Faults), String> {
    if most_open(text) > MAX_OPEN_BRACKETS {
        return Err(format!("it has more than {MAX_OPEN_BRACKETS} brackets open at once"));
    }
    if text.lines().filter(|line| line.starts_with('%')).count() > MAX_DIRECTIVES {
        return Err(format!("it has more than {MAX_DIRECTIVES} directives (lines that begin with %)"));
    }
    strict::read(serde_norway::Deserializer::from_str(text)).map_err(|e| e.to_string())
}

fn most_open(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::read_yaml;

    #[test]
    fn what_libyaml_would_chew_on_for_ever_is_not_given_to_it() {
        let tags: String = (0..60_000).map(|i| format!("%TAG !{i}! a\n")).collect();
        for (text, word) in [
            ("[".repeat(200_000), "brackets"),
            ("{a: ".repeat(200_000), "brackets"),
            ("[? ".repeat(200_000), "brackets"),
            (tags + "---\na: 1\n", "directives"),
        ] {
            assert!(read_yaml(&text).unwrap_err().contains(word));
        }
        assert!(read_yaml(&format!("a: {}{}", "[".repeat(100), "]".repeat(100))).is_ok());
        assert!(read_yaml("%YAML 1.2\n---\na: '[[[[[['\n").is_ok());
    }

    #[test]
    fn a_small_file_cannot_become_a_large_document() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..9 {
            let before = format!("*a{}", i - 1);
            bomb.push_str(&format!("a{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", ")));
        }
        assert!(read_yaml(&bomb).is_err());
        let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1_000].join(", "));
        assert!(read_yaml(&long).is_err());
    }
}
