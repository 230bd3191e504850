//! `cargo xtask pages`: checks that every file that a page of the documentation names exists.
//!
//! Checked are relative links (`[text](docs/http.md#errors)`) and paths in backticks that begin with a folder of the
//! repository (`crates/…`). A path with a placeholder (`NAME`) is not.
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
        let links = links(&text).into_iter().map(|link| (folder.join(&link), link));
        let paths = paths(&text).into_iter().map(|path| (root.join(&path), path));
        let gone = links.chain(paths).filter(|(file, _)| !file.exists());
        missing.extend(gone.map(|(_, name)| format!("  {shown}: {name}")));
    }
    if !missing.is_empty() {
        bail!("pages name files that do not exist\n{}", missing.join("\n"));
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

/// Targets of links within the repository, without their anchors. Text in backticks is not a link.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.lines().flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://")).filter_map(|target| target.split('#').next());
    files.filter(|file| !file.is_empty()).map(str::to_owned).collect()
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
    use super::{links, paths};

    #[test]
    fn links_and_paths_are_found() {
        let text = "See [a](docs/a.md#b), [c](#c), [d](https://d.example/) and `crates/grid/src/main.rs`.\n\
                    `docs/cli.md`, `[a-z](b)`, `cargo xtask docs`, `crates/x/NAME.rs`, `fixtures/vN`, `crates/…`.";
        assert_eq!(links(text), ["docs/a.md"]);
        assert_eq!(paths(text), ["crates/grid/src/main.rs", "docs/cli.md"]);
    }
}
