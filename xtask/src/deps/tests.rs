//! Tests the check against made-up dependency trees: it must be able to fail.

use super::{MUST_NOT_REACH, ONE_WAY, Package, RUNTIMES, Rule, borrowed, reached};

const CORE: Rule = Rule { krate: "grid-core", never: &[RUNTIMES, &["grid-plan"]], why: ONE_WAY };

const CLEAN: &str = "\
grid-core v0.1.0 (/w/crates/grid-core)
grid-types v0.1.0 (/w/crates/grid-types)
minicbor-derive v0.19.5 (proc-macro)
tokio-util v0.7.0
thiserror v2.0.1 (*)
";

#[test]
fn a_clean_tree_passes() {
    assert_eq!(reached(CLEAN, &CORE), []);
}

#[test]
fn a_forbidden_crate_is_named_once_with_its_version() {
    let tree = format!("{CLEAN}tokio v1.54.0\nmio v1.0.0\ntokio v1.54.0 (*)\n");
    let tokio = Package { name: "tokio".into(), version: "1.54.0".into() };
    assert_eq!(reached(&tree, &CORE), [tokio]);
}

#[test]
fn a_crate_of_the_workspace_further_up_is_found() {
    let tree = format!("{CLEAN}grid-plan v0.1.0 (/w/crates/grid-plan)\n");
    let names: Vec<String> = reached(&tree, &CORE).into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["grid-plan"]);
}

#[test]
fn only_the_owner_names_openraft_in_its_manifest() {
    let direct = "grid-controller v0.1.0 (/w)\nopenraft v0.9.25\n";
    assert_eq!(borrowed("grid-raft", direct), Vec::<String>::new());
    let complaints = borrowed("grid-controller", direct);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].contains("grid-controller -> openraft"));
}

#[test]
fn the_table_keeps_the_promises_of_the_design() {
    let forbids = |krate: &str, dependency: &str| {
        MUST_NOT_REACH
            .iter()
            .filter(|rule| rule.krate == krate)
            .any(|rule| rule.never.iter().any(|set| set.contains(&dependency)))
    };
    for pure in ["grid-types", "grid-core", "grid-plan"] {
        for runtime in ["tokio", "rusqlite", "openraft"] {
            assert!(forbids(pure, runtime), "{pure} may reach {runtime}");
        }
    }
    for outside in ["grid-worker", "grid-client", "gridc"] {
        for inside in ["grid-core", "grid-store", "grid-raft", "grid-controller"] {
            assert!(forbids(outside, inside), "{outside} may reach {inside}");
        }
    }
    assert!(forbids("grid-raft", "grid-core"));
    let chain = ["grid-types", "grid-core", "grid-plan", "grid-controller", "grid-api", "grid"];
    for (at, lower) in chain.iter().enumerate() {
        for upper in &chain[at + 1..] {
            assert!(forbids(lower, upper), "{lower} may reach {upper}");
        }
    }
}
