//! `cargo xtask deny`: checks licences, duplicates and sources of third-party crates against the policy in `deny.toml`.
//!
//! Reads the part of `deny.toml` that it checks: `licenses.allow` and `bans.skip`. The file has the format of cargo-deny,
//! which checks the same and security advisories, for which it needs a network.
//! cargo-deny itself is not run in CI: it takes minutes to compile, its packages on PyPI are too old for this format, and
//! its advisories come from a server that a CI machine may not reach.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use crate::shell::{cargo_stdout, workspace_root};

pub fn run() -> Result<()> {
    let file = workspace_root().join("deny.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let policy = Policy::parse(&text).context("deny.toml")?;
    // The crates that are compiled on this machine, tests and build scripts included.
    let edges = "normal,build,dev";
    let tree =
        cargo_stdout(&["tree", "--locked", "--workspace", "-e", edges, "--prefix", "none", "--format", "{p}|{l}"])?;
    let packages = packages(&tree);
    let faults = policy.faults(&packages);
    if !faults.is_empty() {
        bail!("third-party crates against the policy in deny.toml\n{}", faults.join("\n"));
    }
    eprintln!("deny: {} crates, licences and versions as deny.toml allows", packages.len());
    Ok(())
}

/// What `deny.toml` allows.
#[derive(Debug, Default)]
struct Policy {
    licenses: BTreeSet<String>,
    /// `name@version`, where the version may be a prefix.
    skip: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    /// Its source, if that is not crates.io.
    source: Option<String>,
}

impl Policy {
    /// Reads the two lists: one string, or one table that begins with `crate = "…"`, in a line.
    fn parse(text: &str) -> Result<Self> {
        let mut policy = Self::default();
        let (mut section, mut key) = (String::new(), None);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
            } else if let Some(name) = line.strip_suffix("= [") {
                key = Some(format!("{section}.{}", name.trim()));
            } else if line == "]" {
                key = None;
            } else if let Some(key) = &key {
                let value = line.split('"').nth(1).with_context(|| format!("no text in quotes: {line}"))?.to_owned();
                match key.as_str() {
                    "licenses.allow" => policy.licenses.insert(value),
                    "bans.skip" if line.starts_with("{ crate = ") => policy.skip.insert(value),
                    _ => bail!("unexpected in {key}: {line}"),
                };
            }
        }
        if policy.licenses.is_empty() {
            bail!("licenses.allow is empty");
        }
        Ok(policy)
    }

    fn faults(&self, packages: &BTreeSet<Package>) -> Vec<String> {
        let mut faults = Vec::new();
        for package in packages {
            let shown = format!("  {} {}", package.name, package.version);
            if let Some(source) = &package.source {
                faults.push(format!("{shown}: from {source}, not from crates.io"));
            }
            if !self.allows(&package.license) {
                faults.push(format!("{shown}: licence {:?} is not in licenses.allow", package.license));
            }
        }
        faults.extend(self.duplicates(packages));
        faults
    }

    fn allows(&self, license: &str) -> bool {
        let expression = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX);
        let allowed = |wanted: &spdx::LicenseReq| self.licenses.contains(&wanted.to_string());
        expression.is_ok_and(|expression| expression.evaluate(allowed))
    }

    fn duplicates(&self, packages: &BTreeSet<Package>) -> Vec<String> {
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            versions.entry(&package.name).or_default().push(&package.version);
        }
        let mut faults = Vec::new();
        let mut used = BTreeSet::new();
        for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
            let skipped = |version: &&str| {
                let spec = format!("{name}@{version}");
                let entry = self.skip.iter().find(|skip| spec == **skip || spec.starts_with(&format!("{skip}.")));
                used.extend(entry);
                entry.is_none()
            };
            let counted: Vec<&str> = versions.iter().copied().filter(skipped).collect();
            if counted.len() > 1 {
                faults.push(format!("  {name}: versions {}; allow one in bans.skip", counted.join(", ")));
            }
        }
        let unused = self.skip.iter().filter(|skip| !used.contains(skip));
        faults.extend(unused.map(|skip| format!("  {skip}: not a second version any more, remove it from bans.skip")));
        faults
    }
}

/// Lines of `cargo tree`: `name v1.2.3 (proc-macro) (source) (*)|licence`, without the workspace's own crates.
fn packages(tree: &str) -> BTreeSet<Package> {
    let package = |line: &str| {
        let (shown, license) = line.split_once('|')?;
        let mut words = shown.splitn(3, ' ');
        let name = words.next()?.to_owned();
        let version = words.next()?.strip_prefix('v')?.to_owned();
        let notes = words.next().unwrap_or("").replace("(proc-macro)", "");
        let source = notes.trim().trim_matches(['(', ')']).to_owned();
        let own = source.starts_with('/');
        let license = license.trim_end_matches(" (*)").to_owned();
        (!own).then(|| Package { name, version, license, source: Some(source).filter(|source| !source.is_empty()) })
    };
    tree.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::{Policy, packages};

    const POLICY: &str = "\
# A comment.
[licenses]
allow = [
    \"MIT\",
    \"Apache-2.0\",
]
[bans]
multiple-versions = \"deny\"
skip = [
    { crate = \"syn@2\", reason = \"of \\\"x\\\"\" },
]
";

    fn faults(tree: &str) -> Vec<String> {
        let policy = Policy::parse(POLICY).expect("it parses");
        policy.faults(&packages(&format!("{tree}syn v2.0.1|MIT\nsyn v3.0.0|MIT\n")))
    }

    #[test]
    fn allowed_licences_pass() {
        for license in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Zlib) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert_eq!(
                faults(&format!("a v1.0.0 (proc-macro)|{license}\na v1.0.0|{license} (*)\n")),
                [""; 0],
                "{license}"
            );
        }
    }

    #[test]
    fn other_licences_and_sources_are_faults() {
        for license in ["GPL-3.0", "MIT AND Zlib", "", "no licence"] {
            let found = faults(&format!("a v1.0.0|{license}\n"));
            assert_eq!(found, [format!("  a 1.0.0: licence {license:?} is not in licenses.allow")]);
        }
        let found = faults("a v1.0.0 (https://git.example/a#123)|MIT\n");
        assert_eq!(found, ["  a 1.0.0: from https://git.example/a#123, not from crates.io"]);
        assert_eq!(faults("grid v0.1.0 (/w/crates/grid)|Proprietary\n"), [""; 0], "the workspace's own");
    }

    #[test]
    fn a_second_version_is_a_fault_unless_it_is_allowed() {
        assert_eq!(faults("a v1.0.0|MIT\na v2.0.0|MIT\n"), ["  a: versions 1.0.0, 2.0.0; allow one in bans.skip"]);
        let found = Policy::parse(POLICY).unwrap().faults(&packages("syn v3.0.0|MIT\n"));
        assert_eq!(found, ["  syn@2: not a second version any more, remove it from bans.skip"]);
    }

    #[test]
    fn a_policy_that_is_not_understood_is_refused() {
        for text in ["", "[licenses]\nallow = [\nMIT\n]", "[bans]\nskip = [\n\"syn\"\n]", "[bans]\nallow = [\n\"x\"\n]"]
        {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
    }
}
