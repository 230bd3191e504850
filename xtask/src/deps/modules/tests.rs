//! The check against made-up crates: it must find each kind of import, and be able to fail.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::graph::{Arc, Imports};
use super::{faults, source};

fn read(files: &[(&str, &str)]) -> Result<Imports> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let read_file = |path: &Path| {
        let name = path.strip_prefix("src").unwrap_or(path).to_string_lossy().into_owned();
        Ok(files.get(name.as_str()).map(|text| (*text).to_owned()))
    };
    source::read(Path::new("src/lib.rs"), &read_file, Path::new("src"))
}

/// The arcs of a crate as `from -> to file:line`.
fn arcs(files: &[(&str, &str)]) -> Vec<String> {
    let imports = read(files).expect("the files parse");
    imports.all().iter().map(ToString::to_string).collect()
}

const A_B: &str = "mod a;\nmod b;\n";

#[test]
fn every_way_to_name_another_module_is_found() {
    for text in [
        "use crate::b::Thing;",
        "use crate::b;",
        "use crate::{b, b::c};",
        "use super::b;",
        "use super::{b::Thing};",
        "fn f() { crate::b::run() }",
        "fn f() { vec![g(crate::b::run())]; }",
        "fn f(x: super::b::Thing) {}",
        "mod inner { use super::super::b; }",
        "mod inner { fn f() { super::super::b::run() } }",
        "mod inner { use super::{super::b::Thing}; }",
        "use self::super::b;",
        "macro_rules! m { () => { $crate::b::run() } }",
        "#[cbor(with = \"crate::b\")] struct S;",
        "#[arg(value_parser = crate::b::parse)] struct S;",
        "#[cfg(not(test))] use crate::b;",
        "#[cfg(feature = \"x\")] use crate::b;",
    ] {
        let found = arcs(&[("lib.rs", A_B), ("a.rs", text), ("b.rs", "")]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("a -> b  a.rs:1"), "{text}: {found:?}");
    }
}

#[test]
fn what_stays_inside_or_goes_to_another_crate_is_no_import() {
    for text in [
        "use crate::a::inner; mod inner {}",
        "mod inner { use super::Thing; }",
        "use std::b; use b::c;",
        "//! See [`crate::b`].\n/// And `super::b`.\nfn f() {}",
        "const S: &str = \"see crate::b\";",
        "pub(crate) fn f() {} pub(in crate::a) fn g() {}",
    ] {
        assert_eq!(arcs(&[("lib.rs", A_B), ("a.rs", text), ("b.rs", "")]), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn code_that_only_tests_compile_does_not_count() {
    for text in [
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] mod tests { use crate::b; }",
        "#[cfg(test)] use crate::{b::{c, d}, b};",
        "#[cfg(test)] pub(crate) fn f<A, B>(x: crate::b::T) -> u8 { crate::b::run() }",
        "#[cfg(test)] const X: crate::b::T = crate::b::T { x: 1 };",
        "#[cfg(test)] #[derive(Debug)] struct S { x: crate::b::T }",
        "struct S { #[cfg(test)] x: crate::b::T, y: u8 }",
        "fn f() { #[cfg(test)] crate::b::run(); }",
        "#[cfg(all(test, unix))] use crate::b;",
        "#![cfg(test)]\nuse crate::b;",
    ] {
        let found = arcs(&[("lib.rs", A_B), ("a.rs", text), ("a/tests.rs", "use crate::b;"), ("b.rs", "")]);
        assert_eq!(found, Vec::<String>::new(), "{text}");
        let after = format!("{text}\nuse crate::b;");
        if !text.starts_with("#!") {
            let found = arcs(&[("lib.rs", A_B), ("a.rs", &after), ("a/tests.rs", ""), ("b.rs", "")]);
            assert_eq!(found.len(), 1, "what follows counts again: {after}: {found:?}");
        }
    }
}

#[test]
fn files_are_found_below_their_module() {
    let files = [
        ("lib.rs", A_B),
        ("a.rs", "mod one;\nmod two;"),
        ("a/one.rs", "use super::two;"),
        ("a/two/mod.rs", "mod three;"),
        ("a/two/three.rs", "\n\nuse super::super::super::b;\nuse crate::b;"),
        ("b.rs", ""),
    ];
    assert_eq!(arcs(&files), ["a -> b  a/two/three.rs:3 and 1 more"]);
}

#[test]
fn a_module_without_a_file_and_a_glob_of_the_root_are_faults() {
    let message = read(&[("lib.rs", "mod a;")]).unwrap_err().to_string();
    assert!(message.contains("no file for `mod a;`"), "{message}");
    let message = read(&[("lib.rs", "mod a;"), ("a.rs", "use super::*;")]).unwrap_err().to_string();
    assert!(message.contains("a.rs:1: a glob import"), "{message}");
}

#[test]
fn a_name_of_the_root_belongs_to_the_module_it_comes_from() {
    let root = "mod a;\nmod b;\nmod c;\npub use b::{Thing, deep::Other as Renamed, self as bee};\nuse crate::c::C;";
    for (name, module) in [("Thing", "b"), ("Renamed", "b"), ("bee::x", "b"), ("C", "c")] {
        let text = format!("use crate::{name};");
        let found = arcs(&[("lib.rs", root), ("a.rs", &text), ("b.rs", ""), ("c.rs", "")]);
        assert_eq!(found, [format!("a -> {module}  a.rs:1")], "{name}");
    }
}

#[test]
fn the_root_is_a_module_if_it_has_code() {
    let a = ("a.rs", "use crate::LIMIT;");
    assert_eq!(arcs(&[("lib.rs", "mod a;\npub use a::x;\npub const LIMIT: u8 = 1;"), a]), ["a -> (root)  a.rs:1"]);
    let called = "mod a;\npub const LIMIT: u8 = 1;\npub fn f() { a::run() }";
    assert_eq!(arcs(&[("lib.rs", called), a]), ["(root) -> a  lib.rs:3", "a -> (root)  a.rs:1"]);
    let imported = "mod a;\nuse a::run;\npub fn f(s: S) { s.a; run() }";
    assert_eq!(arcs(&[("lib.rs", imported), ("a.rs", "")]), ["(root) -> a  lib.rs:3"]);
}

fn imports(arcs: &[(&str, &str)]) -> Imports {
    let mut imports = Imports::default();
    for (at, (from, to)) in arcs.iter().enumerate() {
        imports.add(from, to, format!("{from}.rs:{}", at + 1));
    }
    imports
}

#[test]
fn cycles_are_found_apart_from_what_leads_to_them() {
    let cycles =
        imports(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("x", "y"), ("y", "z"), ("z", "x")]).cycles();
    let names: Vec<Vec<String>> = cycles.into_iter().map(|cycle| cycle.into_iter().collect()).collect();
    assert_eq!(names, [vec!["b", "c"], vec!["x", "y", "z"]]);
    assert_eq!(imports(&[("a", "b"), ("a", "a"), ("b", "c"), ("a", "c")]).cycles().len(), 0);
}

#[test]
fn the_shortest_cycle_is_shown() {
    let graph = imports(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "a"), ("b", "d")]);
    let path: Vec<(String, String)> =
        graph.shortest_cycle("d").into_iter().map(|Arc { from, to, .. }| (from, to)).collect();
    let expected = [("d", "a"), ("a", "b"), ("b", "d")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(path, expected);
    assert_eq!(imports(&[("a", "b")]).shortest_cycle("a"), []);
}

#[test]
fn a_new_cycle_is_a_fault_with_its_places() {
    let graph = imports(&[("a", "b"), ("b", "a")]);
    assert_eq!(faults("grid-x", &graph), ["grid-x: in a cycle: a, b; for example\n  a -> b  a.rs:1\n  b -> a  b.rs:2"]);
}

#[test]
fn imports_without_a_cycle_are_no_fault() {
    let graph = imports(&[("a", "b"), ("a", "c"), ("b", "c")]);
    assert_eq!(faults("grid-x", &graph), Vec::<String>::new());
}
