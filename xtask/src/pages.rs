//! `cargo xtask pages`: checks that every file that a page of the documentation names exists.
//!
//! Checked are relative links (`[text](docs/http.md#errors)`) with their headings, and paths in backticks that begin with a
//! folder of the repository (`crates/…`). A path with a placeholder (`NAME`) is not.
//! Not here: whether the statements about the file are true.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell::workspace_root;

/// Folders at the top of the repository that paths in backticks begin with.
const FOLDERS: [&str; 4] = ["crates/", "docs/", "fixtures/", "xtask/"];

pub fn run() -> Result<()> {
    let root = workspace_root();
    let mut missing = Vec::new();
    let pages = pages(&root)?;
    for page in &pages {
        let text = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let folder = page.parent().unwrap_or(&root);
        let shown = page.strip_prefix(&root).unwrap_or(page).display().to_string();
        let gone = links(&text).into_iter().filter(|link| !link.leads(page, folder));
        missing.extend(gone.map(|link| format!("  {shown}: {}#{}", link.file, link.heading)));
        let gone = paths(&text).into_iter().filter(|path| !root.join(path).exists());
        missing.extend(gone.map(|path| format!("  {shown}: {path}")));
    }
    if !missing.is_empty() {
        bail!("pages name files or headings that do not exist\n{}", missing.join("\n"));
    }
    eprintln!("pages: every file that {} pages name exists", pages.len());
    Ok(())
}

fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for folder in [root.to_owned(), root.join("docs")] {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The target of a link within the repository.
#[derive(Debug, PartialEq)]
struct Link {
    /// Empty: the page itself.
    file: String,
    /// Empty: the beginning of the file.
    heading: String,
}

impl Link {
    fn leads(&self, page: &Path, folder: &Path) -> bool {
        let file = if self.file.is_empty() { page.to_owned() } else { folder.join(&self.file) };
        if self.heading.is_empty() {
            return file.exists();
        }
        std::fs::read_to_string(file).is_ok_and(|text| headings(&text).contains(&self.heading))
    }
}

/// Text in backticks is not a link.
fn links(text: &str) -> Vec<Link> {
    let prose: String = text.lines().flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let parts =
        targets.filter(|target| !target.contains("://")).map(|target| target.split_once('#').unwrap_or((target, "")));
    parts.map(|(file, heading)| Link { file: file.to_owned(), heading: heading.to_owned() }).collect()
}

/// The anchors of a page: letters, digits and hyphens of each heading in lower case, with a hyphen for each space.
fn headings(text: &str) -> Vec<String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    titles
        .map(|title| title.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect())
        .collect()
}

/// Paths in backticks.
fn paths(text: &str) -> Vec<String> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let files = quoted.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    files
        .filter(|word| word.chars().all(plain) && !word.contains("NAME") && !word.contains("vN"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Link, headings, links, paths};

    #[test]
    fn links_and_paths_are_found() {
        let text = "See [a](docs/a.md#b), [c](#c), [d](https://d.example/) and `crates/grid/src/main.rs`.\n\
                    `docs/cli.md`, `[a-z](b)`, `cargo xtask docs`, `crates/x/NAME.rs`, `fixtures/vN`, `crates/…`.";
        let link = |file: &str, heading: &str| Link { file: file.to_owned(), heading: heading.to_owned() };
        assert_eq!(links(text), [link("docs/a.md", "b"), link("", "c")]);
        assert_eq!(paths(text), ["crates/grid/src/main.rs", "docs/cli.md"]);
    }

    #[test]
    fn a_heading_is_found_by_its_anchor() {
        assert_eq!(headings("# What `tasks` inherit, W3\ntext\n## a-b"), ["what-tasks-inherit-w3", "a-b"]);
    }
}
