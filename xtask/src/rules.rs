//! `cargo xtask rules`: checks that every protocol rule that a comment or a test names is in docs/protocol.md.
//!
//! Rules are written `W3` in comments and `w3_…` at the start of a test's name. `cargo xtask rules W3` lists the places.
//! Reads comments and names of functions only: elsewhere such a word may mean something else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell::workspace_root;

/// The first letters of rules.
const KINDS: &str = "LEWJVNSFI";

/// Checks every source file, or lists the places that name one rule.
pub fn run(args: &[String]) -> Result<()> {
    let root = workspace_root();
    let page = root.join("docs/protocol.md");
    let text = std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let defined = defined(&text);
    let places = places(&root)?;
    match args {
        [] => {
            let unknown = unknown(&places, &defined);
            if !unknown.is_empty() {
                bail!("docs/protocol.md does not have these rules\n{}", unknown.join("\n"));
            }
            let count: usize = places.values().map(Vec::len).sum();
            eprintln!("rules: {count} places name {} of {} rules", places.len(), defined.len());
            Ok(())
        }
        [rule] if defined.contains(&rule.to_uppercase()) => {
            for place in places.get(&rule.to_uppercase()).into_iter().flatten() {
                println!("{place}");
            }
            Ok(())
        }
        [rule] => bail!("docs/protocol.md has no rule {rule}"),
        _ => bail!("usage: cargo xtask rules [RULE]"),
    }
}

/// The rules that the page defines: in a heading (`### W3 …`) or in the first column of a table (`| I7 | …`).
fn defined(page: &str) -> BTreeSet<String> {
    let first_word = |line: &str| {
        let rest = line.strip_prefix("### ").or_else(|| line.strip_prefix("| "))?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    page.lines().filter_map(first_word).filter(|word| is_rule(word)).collect()
}

fn unknown(places: &BTreeMap<String, Vec<String>>, defined: &BTreeSet<String>) -> Vec<String> {
    let missing = places.iter().filter(|(rule, _)| !defined.contains(*rule));
    missing.map(|(rule, places)| format!("  {rule}: {}", places.join(", "))).collect()
}

/// Rule to the places that name it, as `file:line`.
fn places(root: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        sources(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for (number, line) in text.lines().enumerate() {
            for rule in named(line) {
                places.entry(rule).or_default().push(format!("{shown}:{}", number + 1));
            }
        }
    }
    Ok(places)
}

/// The rules that one line names.
fn named(line: &str) -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    if let Some((_, comment)) = line.split_once("//") {
        let words = comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rules.extend(words.filter(|word| is_rule(word)).map(str::to_owned));
    }
    if let Some((_, name)) = line.split_once("fn ")
        && let Some((first, _)) = name.split_once('_')
        && first.starts_with(char::is_lowercase)
        && is_rule(&first.to_uppercase())
    {
        rules.insert(first.to_uppercase());
    }
    rules
}

fn is_rule(word: &str) -> bool {
    let mut letters = word.chars();
    let kind = letters.next().is_some_and(|kind| KINDS.contains(kind));
    let number = letters.as_str();
    kind && matches!(number.len(), 1 | 2) && number.chars().all(|c| c.is_ascii_digit()) && !number.starts_with('0')
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if path.is_dir() {
            if name != "target" {
                sources(&path, files)?;
            }
        } else if name.ends_with(".rs") || name.ends_with(".proto") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{defined, is_rule, named, unknown};

    fn rules(line: &str) -> Vec<String> {
        named(line).into_iter().collect()
    }

    #[test]
    fn comments_and_names_of_tests_name_rules() {
        assert_eq!(rules("//! I3: stale (W2, W10) and `E4`."), ["E4", "I3", "W10", "W2"]);
        assert_eq!(rules("    let x = 1; // as L8 says"), ["L8"]);
        assert_eq!(rules("    fn w3_started_without_outcome() {"), ["W3"]);
        assert_eq!(rules("async fn w10_x() {"), ["W10"]);
    }

    #[test]
    fn code_and_other_words_name_none() {
        for line in
            ["SocketAddr::V4(x)", "let s = \"S3\";", "// IPV6 W3C sha2 K8s 0xF0 W0 W123 e2e", "fn e2e_x()", "fn f()"]
        {
            assert_eq!(rules(line), Vec::<String>::new(), "{line}");
        }
        assert!(!is_rule("W") && !is_rule("W01") && is_rule("W1"));
    }

    #[test]
    fn a_rule_that_the_page_lacks_is_found() {
        let page =
            "### W3 Starting\n\nW9 is meant here, not defined.\n\n| id | rule |\n|---|---|\n| I7 | runs once |\n";
        let defined = defined(page);
        assert_eq!(defined.iter().map(String::as_str).collect::<Vec<_>>(), ["I7", "W3"]);
        let places = ["W3", "W9"].map(|rule| (rule.to_owned(), vec!["a.rs:1".to_owned()])).into();
        assert_eq!(unknown(&places, &defined), ["  W9: a.rs:1"]);
    }
}
