//! Checks that the top-level modules of a crate import each other without a cycle.
//!
//! There are no exceptions. `source` reads the imports, `graph` finds the cycles.
//!
//! Only production code counts: code that is compiled only for tests may use any module. Imports between the parts of one
//! top-level module are not checked.
//! The crate root is a module too, named `(root)`, if it has its own code; re-exporting an item is not an import.

mod graph;
mod source;

pub use source::tokens;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use self::graph::Imports;
use crate::shell::workspace_root;

/// Checks every crate of the workspace; returns how many crate roots were read.
pub fn check() -> Result<usize> {
    let crates = read_workspace()?;
    let faults: Vec<String> = crates.iter().flat_map(|(name, imports)| faults(name, imports)).collect();
    if !faults.is_empty() {
        bail!("imports between top-level modules form a cycle\n\n{}", faults.join("\n\n"));
    }
    Ok(crates.len())
}

/// Lists every import that is part of a cycle, of one crate or of all: `cargo xtask deps cycles [CRATE]`.
pub fn list(only: Option<&str>) -> Result<String> {
    let mut text = String::new();
    let mut found = false;
    for (name, imports) in read_workspace()? {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        found = true;
        for cycle in imports.cycles() {
            let _ = writeln!(text, "{name}: {} modules form a cycle: {}", cycle.len(), names(&cycle));
            for arc in imports.within(&cycle) {
                let _ = writeln!(text, "  {arc}");
            }
        }
    }
    match only {
        Some(only) if !found => bail!("no crate `{only}` in this workspace"),
        _ if text.is_empty() => Ok("no cycle\n".to_owned()),
        _ => Ok(text),
    }
}

/// The cycles of one crate, each with an example of the imports that form it.
fn faults(krate: &str, imports: &Imports) -> Vec<String> {
    let mut faults = Vec::new();
    for cycle in imports.cycles() {
        let Some(first) = cycle.first() else { continue };
        let path = imports.shortest_cycle(first);
        let arcs: Vec<String> = path.iter().map(|arc| format!("  {arc}")).collect();
        faults.push(format!("{krate}: in a cycle: {}; for example\n{}", names(&cycle), arcs.join("\n")));
    }
    faults
}

fn names(modules: &BTreeSet<String>) -> String {
    modules.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The imports of every crate root: (crate, imports), sorted by name. A package with `lib.rs` and `main.rs` has two roots,
/// the second named `PACKAGE/main.rs`.
fn read_workspace() -> Result<Vec<(String, Imports)>> {
    let workspace = workspace_root();
    let mut packages = vec![workspace.join("xtask")];
    let crates = workspace.join("crates");
    for entry in std::fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))? {
        packages.push(entry?.path());
    }
    packages.sort();
    let mut all = Vec::new();
    for package in packages {
        let name = package.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let source = package.join("src");
        let roots: Vec<_> = ["lib.rs", "main.rs"].into_iter().filter(|root| source.join(root).is_file()).collect();
        for (at, root) in roots.iter().enumerate() {
            let shown = if at == 0 { name.clone() } else { format!("{name}/{root}") };
            let imports = source::read(&source.join(root), &read_file, &workspace)
                .with_context(|| format!("cannot read the modules of {shown}"))?;
            all.push((shown, imports));
        }
    }
    Ok(all)
}

/// The text of a file, or nothing if there is none.
fn read_file(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests;
