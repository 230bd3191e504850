//! `cargo xtask test`: builds the real binaries, then runs the tests.
//!
//! The plain runner of cargo, not nextest: a fresh machine has only cargo, and two runners could give two verdicts. The
//! end-to-end tests need both binaries, and cargo builds only `grid` for them (they are in its package), so both are built
//! here, in the profile of the tests.

use std::thread::available_parallelism;

use anyhow::Result;

use crate::shell::cargo;
use crate::tools;

pub fn run(args: &[String]) -> Result<()> {
    let mut build = vec!["build", "--locked", "--workspace", "--bins"];
    build.extend(build_args(args));
    cargo(&build, &[])?;

    let mut test = vec!["test", "--locked"];
    if !names_a_package(args) {
        test.push("--workspace");
    }
    // One run shows every failure, not just those of the first failing crate.
    test.push("--no-fail-fast");
    test.extend(args.iter().map(String::as_str));
    let threads = test_threads();
    let mut env: Vec<(&str, &str)> = Vec::new();
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        env.push(("RUST_TEST_THREADS", &threads));
    }
    let mut programs = Vec::new();
    if runs(args, &["grid"]) {
        programs.push(("GRID_TEST_PYTHON", tools::openapi_python()?.display().to_string()));
        programs.push(("GRID_TEST_CHROMIUM", tools::chromium()?.display().to_string()));
    }
    if runs(args, &["grid", "grid-fabric", "grid-testkit"]) {
        programs.push(("GRID_TEST_NATS_SERVER", tools::nats_server()?.display().to_string()));
    }
    env.extend(programs.iter().map(|(variable, program)| (*variable, program.as_str())));
    cargo(&test, &env)
}

/// Whether tests of one of `packages` are in this run; the end-to-end tests are of the package `grid`.
fn runs(args: &[String], packages: &[&str]) -> bool {
    let named = |package: &str| {
        let mut words = args.iter().map(String::as_str).take_while(|word| *word != "--");
        words.any(|word| {
            word == package
                || word.strip_prefix("-p").is_some_and(|p| p == package)
                || word.strip_prefix("--package=") == Some(package)
        })
    };
    !names_a_package(args) || packages.iter().any(|package| named(package))
}

/// End-to-end tests mostly wait for processes, so a thread per core would leave the machine idle: a task of 45 s must not delay
/// half of the run.
fn test_threads() -> String {
    let cores = available_parallelism().map_or(2, std::num::NonZero::get);
    (cores * 2).clamp(4, 16).to_string()
}

/// The arguments that choose the profile or the target: the tests look for the
/// binaries in the folder which these decide.
fn build_args(args: &[String]) -> Vec<&str> {
    let mut chosen = Vec::new();
    let mut args = args.iter().map(String::as_str).take_while(|a| *a != "--");
    while let Some(arg) = args.next() {
        match arg {
            "--release" | "-r" | "--offline" | "--quiet" | "-q" => chosen.push(arg),
            "--profile" | "--target" | "--target-dir" => {
                chosen.push(arg);
                chosen.extend(args.next());
            }
            _ if ["--profile=", "--target=", "--target-dir="].iter().any(|p| arg.starts_with(p)) => {
                chosen.push(arg);
            }
            _ => {}
        }
    }
    chosen
}

fn names_a_package(args: &[String]) -> bool {
    args.iter()
        .take_while(|a| *a != "--")
        .any(|a| a == "--package" || a.starts_with("--package=") || a.starts_with("-p"))
}

#[cfg(test)]
mod tests {
    use super::{build_args, names_a_package, runs};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_profile_reaches_the_build_and_filters_do_not() {
        let args = words("--release -p grid --target-dir out barrier -- --profile no");
        assert_eq!(build_args(&args), ["--release", "--target-dir", "out"]);
        let args = words("--profile=ci --no-capture");
        assert_eq!(build_args(&args), ["--profile=ci"]);
    }

    #[test]
    fn a_named_package_replaces_the_workspace() {
        assert!(names_a_package(&words("-p grid-core")));
        assert!(names_a_package(&words("--package=grid-core x")));
        assert!(!names_a_package(&words("barrier -- -p")));
        assert!(runs(&words("barrier"), &["grid"]) && runs(&words("-p grid --test e2e"), &["grid"]));
        assert!(runs(&words("--package=grid"), &["grid"]) && runs(&words("-pgrid"), &["grid"]));
        assert!(!runs(&words("-p grid-core"), &["grid"]) && runs(&words("-p grid-fabric"), &["grid", "grid-fabric"]));
    }
}
