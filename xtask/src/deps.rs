//! `cargo xtask deps`: checks that dependencies between crates point one way, and so do imports between the modules of a crate.
//!
//! `modules` checks the modules, `mentions` the items of another crate that a crate must not name. For crates the two tables
//! below are the whole policy; the rest reads `cargo tree`.
//! `MUST_NOT_REACH` covers all transitive dependencies of a crate, `ONLY_DIRECT_USER` the crates that name another one in their
//! own Cargo.toml.
//! Only normal dependencies count: tests may use any crate.
//! Not here: licences and duplicates.
//!
//! It asks `cargo tree` instead of reading the manifests, because a forbidden
//! crate usually arrives through a third one, or behind a feature.

mod mentions;
mod modules;

pub use modules::tokens;

use anyhow::{Result, bail};

use crate::shell::cargo_stdout;

struct Rule {
    krate: &'static str,
    never: &'static [&'static [&'static str]],
    why: &'static str,
}

/// Crates that do I/O or have their own scheduler.
const RUNTIMES: &[&str] = &["tokio", "rusqlite", "openraft"];
/// Crates that only a controller may contain.
const CONTROL_PLANE: &[&str] = &["grid-core", "grid-plan", "grid-store", "grid-raft", "grid-controller", "grid-api"];
const DEV_ONLY: &[&str] = &["grid-sim", "grid-testkit", "xtask"];

const PURE: &str = "the pure crates do no I/O, so that apply and the planners stay deterministic";
const ONE_WAY: &str = "dependencies point one way: types ← core ← plan ← controller ← api ← grid";
const NO_CONTROL_PLANE: &str = "workers and clients speak the wire protocol only, they never contain the control plane";

#[rustfmt::skip]
const MUST_NOT_REACH: &[Rule] = &[
    Rule { krate: "grid-types", never: &[RUNTIMES, DEV_ONLY], why: PURE },
    Rule { krate: "grid-types", never: &[CONTROL_PLANE, &["grid"]], why: ONE_WAY },
    Rule { krate: "grid-core", never: &[RUNTIMES, DEV_ONLY], why: PURE },
    Rule { krate: "grid-core", never: &[&["grid-plan", "grid-store", "grid-raft", "grid-controller", "grid-api", "grid"]], why: ONE_WAY },
    Rule { krate: "grid-plan", never: &[RUNTIMES, DEV_ONLY], why: PURE },
    Rule { krate: "grid-plan", never: &[&["grid-store", "grid-raft", "grid-controller", "grid-api", "grid"]], why: ONE_WAY },
    Rule { krate: "grid-proto", never: &[CONTROL_PLANE, DEV_ONLY], why: NO_CONTROL_PLANE },
    Rule { krate: "grid-fabric", never: &[CONTROL_PLANE, DEV_ONLY], why: NO_CONTROL_PLANE },
    Rule { krate: "grid-folder", never: &[RUNTIMES, CONTROL_PLANE, &["grid-worker", "grid-types"], DEV_ONLY], why: "workers and controllers share it, and neither may reach the other" },
    Rule { krate: "grid-tasks", never: &[CONTROL_PLANE, &["grid-worker", "grid-types"], DEV_ONLY], why: "every program watches its tasks with it" },
    Rule { krate: "grid-raft", never: &[&["grid-core", "grid-plan", "grid-store", "grid-controller", "grid-api", "grid"], DEV_ONLY], why: "consensus carries bytes and knows nothing of the state machine" },
    Rule { krate: "grid-store", never: &[&["grid-plan", "grid-raft", "grid-controller", "grid-api", "grid", "openraft"], DEV_ONLY], why: "the store keeps rows and knows nothing of consensus" },
    Rule { krate: "grid-controller", never: &[&["grid-api", "grid-worker", "grid"], DEV_ONLY], why: ONE_WAY },
    Rule { krate: "grid-api", never: &[&["grid-worker", "grid"], DEV_ONLY], why: ONE_WAY },
    Rule { krate: "grid-worker", never: &[CONTROL_PLANE, DEV_ONLY], why: NO_CONTROL_PLANE },
    Rule { krate: "grid-client", never: &[CONTROL_PLANE, DEV_ONLY], why: NO_CONTROL_PLANE },
    Rule { krate: "gridc", never: &[CONTROL_PLANE, &["grid-worker"], DEV_ONLY], why: NO_CONTROL_PLANE },
    Rule { krate: "grid-bench", never: &[CONTROL_PLANE, &["grid-worker"], DEV_ONLY], why: "everything is measured from outside, as a process" },
    Rule { krate: "grid", never: &[DEV_ONLY], why: "test tools are for tests" },
];

/// (crate, its only direct user, why)
const ONLY_DIRECT_USER: &[(&str, &str, &str)] = &[("openraft", "grid-raft", "openraft's types stay inside grid-raft")];

/// Checks both, or, with `cycles [CRATE]`, lists the imports that are part of a cycle.
pub fn run(args: &[String]) -> Result<()> {
    match args {
        [] => check(),
        [word] if word == "cycles" => list_cycles(None),
        [word, krate] if word == "cycles" => list_cycles(Some(krate)),
        _ => bail!("usage: cargo xtask deps [cycles [CRATE]]"),
    }
}

fn list_cycles(krate: Option<&str>) -> Result<()> {
    print!("{}", modules::list(krate)?);
    Ok(())
}

fn check() -> Result<()> {
    let roots = modules::check()?;
    eprintln!("deps: the modules of {roots} crate roots have no cycle");
    mentions::check()?;
    let mut broken = Vec::new();
    for rule in MUST_NOT_REACH {
        for found in reached(&tree(rule.krate, None)?, rule) {
            broken.push(format!(
                "{} must not pull in {}: {}\n{}",
                rule.krate,
                found.name,
                rule.why,
                path_to(rule.krate, &found).trim_end()
            ));
        }
    }
    for krate in workspace_crates()? {
        broken.extend(borrowed(&krate, &tree(&krate, Some("1"))?));
    }
    if !broken.is_empty() {
        bail!("{} dependencies point the wrong way\n\n{}", broken.len(), broken.join("\n\n"));
    }
    eprintln!("deps: {} rules hold", MUST_NOT_REACH.len() + ONLY_DIRECT_USER.len());
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
}

/// The packages of a rule's tree that it forbids, each once.
fn reached(tree: &str, rule: &Rule) -> Vec<Package> {
    let mut found: Vec<Package> = Vec::new();
    for package in packages(tree) {
        let forbidden = rule.never.iter().any(|set| set.contains(&package.name.as_str()));
        if forbidden && package.name != rule.krate && !found.contains(&package) {
            found.push(package);
        }
    }
    found
}

/// The faults of a crate that names, in its own manifest, a crate that belongs to another.
fn borrowed(krate: &str, direct: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages(direct) {
        for (owned, owner, why) in ONLY_DIRECT_USER {
            if package.name == *owned && krate != *owner {
                complaints.push(format!("{krate} must not depend on {owned} itself: {why}\n{krate} -> {owned}"));
            }
        }
    }
    complaints
}

/// Lines of `cargo tree --prefix none`: `name v1.2.3 (proc-macro) (/path) (*)`.
fn packages(tree: &str) -> impl Iterator<Item = Package> {
    tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let version = words.next()?.strip_prefix('v')?.to_owned();
        Some(Package { name, version })
    })
}

fn tree(krate: &str, depth: Option<&str>) -> Result<String> {
    let mut args = vec!["tree", "--locked", "-e", "normal", "--prefix", "none", "-p", krate];
    if let Some(depth) = depth {
        args.extend(["--depth", depth]);
    }
    cargo_stdout(&args)
}

/// How the forbidden crate gets there, as `cargo tree -i` shows it.
fn path_to(krate: &str, found: &Package) -> String {
    let spec = format!("{}@{}", found.name, found.version);
    let args = ["tree", "--locked", "-e", "normal", "-p", krate, "-i", &spec];
    cargo_stdout(&args).unwrap_or_else(|error| format!("(no path: {error:#})"))
}

fn workspace_crates() -> Result<Vec<String>> {
    let text = cargo_stdout(&["tree", "--locked", "--workspace", "-e", "normal", "--prefix", "none", "--depth", "0"])?;
    Ok(packages(&text).map(|package| package.name).collect())
}

#[cfg(test)]
mod tests;
