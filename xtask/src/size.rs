//! `cargo xtask size`: warns about files with more production code than the limit.
//!
//! Production code ends at the first `#[cfg(test)]` at the start of a line; test files do not count. A warning and never a
//! failure: the limit calls for a review, not for a split at any price.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::workspace_root;

const LIMIT_LINES: usize = 400;

pub fn run() -> Result<()> {
    let root = workspace_root();
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root.join(folder), &mut files)?;
    }
    let mut long = Vec::new();
    // Nobody reads or splits generated code.
    for file in files.into_iter().filter(|file| !file.components().any(|part| part.as_os_str() == "generated")) {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines = production_lines(&text);
        if lines > LIMIT_LINES {
            long.push((lines, file));
        }
    }
    long.sort_by(|a, b| b.cmp(a));
    for (lines, file) in &long {
        let shown = file.strip_prefix(&root).unwrap_or(file);
        eprintln!(
            "size: warning: {} has {lines} lines of production code (limit {LIMIT_LINES}), split it",
            shown.display()
        );
    }
    if long.is_empty() {
        eprintln!("size: no file past {LIMIT_LINES} lines");
    }
    Ok(())
}

fn production_lines(text: &str) -> usize {
    text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if path.is_dir() {
            if !matches!(name, "tests" | "benches" | "target") {
                collect(&path, files)?;
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::production_lines;

    #[test]
    fn tests_at_the_end_of_a_file_do_not_count() {
        assert_eq!(production_lines("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(production_lines("    #[cfg(test)]\n    fn b() {}\n"), 2, "an inner one does not end it");
    }
}
