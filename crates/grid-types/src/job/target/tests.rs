//! Goldens of the target language: how texts are read, stored and shown, and where their faults are.

use super::{Expr, Target};
use crate::limits::{MAX_TARGET_BYTES, MAX_TARGET_DEPTH, MAX_TARGET_TESTS};

/// A fault as gridc shows it.
fn fault(text: &str) -> String {
    let fault = text.parse::<Target>().expect_err(text);
    format!("{text}\n{}^ {}", " ".repeat(fault.at), fault.problem)
}

#[test]
fn what_could_be_said_before_expressions_is_stored_as_before() {
    let name = |text: &str| text.parse().unwrap();
    let labels = |pairs: &[(&str, &str)]| {
        Target::Labels(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    };
    for (text, target, bytes) in [
        ("all", Target::All, &b"\x82\x00\x80"[..]),
        ("any", Target::Any, b"\x82\x04\x80"),
        ("all:", Target::All, b"\x82\x00\x80"),
        ("group:web", Target::Group(name("web")), b"\x82\x01\x81\x63web"),
        ("node:w-01", Target::Node(name("w-01").into()), b"\x82\x02\x81\x64w-01"),
        ("labels:a=1", labels(&[("a", "1")]), b"\x82\x03\x81\xa1\x61a\x611"),
        ("labels:b=2,a=", labels(&[("a", ""), ("b", "2")]), b"\x82\x03\x81\xa2\x61a\x60\x61b\x612"),
        ("labels:a=my rack", labels(&[("a", "my rack")]), b"\x82\x03\x81\xa1\x61a\x67my rack"),
        ("labels:a b=f(x)", labels(&[("a b", "f(x)")]), b"\x82\x03\x81\xa1\x63a b\x64f(x)"),
    ] {
        assert_eq!(text.parse::<Target>().as_ref(), Ok(&target), "{text}");
        assert_eq!(minicbor::to_vec(&target).unwrap(), bytes, "{text}");
        assert_eq!(target.to_string().parse::<Target>().as_ref(), Ok(&target), "{target}");
        assert_eq!(Target::from_parts(target.scope(), target.value().as_deref()).as_ref(), Ok(&target), "{target}");
    }
}

#[test]
fn expressions_are_shown_as_they_were_written_and_read_back_as_themselves() {
    for (text, shown) in [
        ("node:w-02,w-01", "node:w-01,w-02"),
        ("node:web-*,db-?1,a", "node:a,db-?1,web-*"),
        ("group:web,db", "group:db,web"),
        ("labels:zone=a*", "labels:zone=a*"),
        ("labels:zone=\"a*\",b=\"x and y\"", "labels:b=\"x and y\",zone=\"a*\""),
        ("labels:k=\"say \\\"hi\\\" \\\\\"", "labels:k=\"say \\\"hi\\\" \\\\\""),
        ("facts:os.id=debian", "facts:os.id=debian"),
        ("facts:os.id!=deb*,os.version>=12,cpu.count<8", "facts:os.id!=deb*,os.version>=12,cpu.count<8"),
        ("facts:memory.total_bytes>8Gi", "facts:memory.total_bytes>8Gi"),
        ("facts:cpu.model=\"a b, c\"", "facts:cpu.model=\"a b, c\""),
        ("  group:web   and node:a ", "group:web and node:a"),
        ("not group:web", "not group:web"),
        ("not not all", "not not all"),
        ("group:a and group:b or group:c", "group:a and group:b or group:c"),
        ("group:a and (group:b or group:c)", "group:a and (group:b or group:c)"),
        ("(group:a and group:b) and group:c", "(group:a and group:b) and group:c"),
        ("(not group:a)or(group:b)", "not group:a or group:b"),
        ("not (group:a or node:b)", "not (group:a or node:b)"),
        ("20% of group:web", "20% of group:web"),
        ("first 3 of all", "first 3 of all"),
        ("first 1 of (20% of all)", "first 1 of 20% of all"),
        ("first 3 of group:a or group:b", "first 3 of group:a or group:b"),
        ("(first 1 of group:a) or (12.5% of group:b)", "(first 1 of group:a) or (12.5% of group:b)"),
        ("group:web and not (first 1 of group:web)", "group:web and not (first 1 of group:web)"),
        ("labels:zone=a and group:web", "labels:zone=a and group:web"),
    ] {
        let target: Target = text.parse().unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        assert_eq!(target.to_string(), shown, "{text}");
        let again: Target = shown.parse().unwrap();
        assert_eq!(again.to_string(), shown);
        let bytes = minicbor::to_vec(&again).unwrap();
        assert_eq!(minicbor::decode::<Target>(&bytes).unwrap(), again, "{shown}");
        assert_eq!(Target::from_parts(again.scope(), again.value().as_deref()), Ok(again.clone()), "{shown}");
    }
    let target: Target = "group:a and group:b or not group:c".parse().unwrap();
    let Target::Where(expr) = target else { panic!() };
    assert!(matches!(*expr, Expr::Or(ref any) if matches!(any[..], [Expr::And(_), Expr::Not(_)])), "{expr:?}");
}

#[test]
fn a_fault_points_at_its_character() {
    for golden in [
        "web\n^ unknown word \"web\": use all, node:web, group:web, labels:KEY=VALUE or facts:KEY=VALUE",
        "group:web and nod:x\n              ^ unknown scope \"nod\": use all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE",
        "\n^ ends too early; a set of nodes is missing here: all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE",
        "group:web and\n             ^ ends too early; a set of nodes is missing here: all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE",
        "and group:web\n^ unexpected \"and\"; a set of nodes is missing here: all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE",
        "(group:web\n          ^ ends too early; the closing parenthesis is missing",
        "(group:web node:a)\n           ^ unexpected \"node:a)\"; the closing parenthesis is missing",
        "group:web)\n         ^ there is no opening parenthesis for this one",
        "group:web node:a\n          ^ unexpected \"node:a\": join sets with and, or; quote values with spaces",
        "group:web AND node:a\n          ^ unexpected \"AND\": join sets with and, or; quote values with spaces",
        "node:a, b\n       ^ node needs a name, like node:web; lists have no spaces: node:a,b",
        "group:\n      ^ group needs a name, like group:web; lists have no spaces: group:a,b",
        "group\n^ group needs a name, like group:web",
        "node:UP\n     ^ \"UP\" is not a name: use 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit",
        "node:ok,Web-*\n        ^ 'W' is in no name: use a-z, 0-9, '-', * and ?",
        "group:web and any\n              ^ any stands alone; one node of a set is `first 1 of …`",
        "any:x\n^ any takes no value",
        "labels:zone\n           ^ labels are KEY=VALUE, separated by commas, without spaces",
        "labels:a=1,a=2\n           ^ label \"a\" is there twice",
        "labels:zone=a and grup:web\n                  ^ unknown scope \"grup\": use all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE",
        "web-01,web-* or db\n^ unknown word \"web-01,web-*\": use all, node:web-01,web-*, group:web-01,web-*, labels:KEY=VALUE or facts:KEY=VALUE",
        "Web\n^ unknown word \"Web\": use all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE",
        "labels:ü=1 and x\n               ^ unknown word \"x\": use all, node:x, group:x, labels:KEY=VALUE or facts:KEY=VALUE",
        "labels:a=\"b\n         ^ the closing quote is missing",
        "facts:os.id\n           ^ a comparison is missing: =, !=, >=, <=, > or <",
        "facts:OS=x\n      ^ a fact is compared as KEY=VALUE, like os.id=debian; a key has 1 to 63 of a-z, 0-9, '.', '_' and '-'",
        "facts:os.version>=new\n                  ^ >= needs a number or a version, like 12, 6.1 or 8Gi",
        "facts:cpu.count>4*\n                ^ > needs a number or a version, like 12, 6.1 or 8Gi",
        "20%\n   ^ write of which nodes: `20% of all`",
        "0% of all\n^ must be more than 0%",
        "101% of all\n^ \"101%\" is more than all nodes",
        "first 3\n       ^ write of which nodes: `first 3 of all`",
        "first 0 of all\n      ^ first needs a number of nodes from 1, as in `first 3 of all`",
        "first of all\n      ^ first needs a number of nodes from 1, as in `first 3 of all`",
        "group:a or first 3 of group:b\n           ^ put a number of nodes in parentheses: (first 3 of …)",
        "group:a or 3% of group:b\n           ^ put a share in parentheses: (3% of …)",
    ] {
        let text = golden.split('\n').next().unwrap();
        assert_eq!(fault(text), golden);
    }
}

#[test]
fn targets_are_bounded() {
    let nested = |depth: usize| format!("{}all{}", "(".repeat(depth), ")".repeat(depth));
    assert!(nested(MAX_TARGET_DEPTH).parse::<Target>().is_ok());
    for deep in [nested(MAX_TARGET_DEPTH + 1), nested(5_000), "not ".repeat(5_000) + "all"] {
        assert!(fault(&deep).ends_with("is nested deeper than 16"), "{deep}");
    }
    let terms = |n: usize| vec!["node:a"; n].join(" or ");
    assert!(terms(MAX_TARGET_TESTS).parse::<Target>().is_ok());
    let globs = |n: usize| format!("node:{}", vec!["a*"; n].join(","));
    assert!(globs(MAX_TARGET_TESTS - 1).parse::<Target>().is_ok());
    for many in [terms(MAX_TARGET_TESTS + 1), globs(MAX_TARGET_TESTS)] {
        assert!(fault(&many).ends_with("has more than 64 terms, patterns, labels and comparisons"));
    }
    let listed: Vec<_> = (0..3_000).map(|i| format!("w-{i}")).collect();
    assert!(format!("node:{}", listed.join(",")).parse::<Target>().is_ok(), "names need one test, however many");
    let long = format!("node:{}", "a,".repeat(MAX_TARGET_BYTES));
    assert!(long.parse::<Target>().unwrap_err().problem.contains("a target has at most 24576"));
}
