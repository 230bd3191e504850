//! `docs/cli.md` is what `gridc --help` says, command by command. `cargo xtask docs` writes it anew.
//!
//! The tree of commands is read from the help itself, as a person would walk it.

use std::path::PathBuf;
use std::process::Command;

const HEAD: &str = "\
# gridc

Written by `cargo xtask docs` from `gridc --help`; edit `crates/gridc/src/cli.rs` and `crates/gridc/src/cli/`.

`gridc` talks HTTP to any controller and finds the leader by itself. stdout is data; progress, hints and errors go to stderr.
On a terminal, tables are cut to its width, one line a row; on a pipe nothing is cut. Every command that prints something takes
`-o json` and `-o yaml`; field names are those of the HTTP API. What a job file may hold: [jobs.md](jobs.md); what tasks there are:
[backends.md](backends.md).
";

/// Repeated under every command; the first one has it.
const COMMON: &str = "Options of every command:";
/// Grows with every backend; a page of its own has it.
const BACKENDS: &str = "\nBackends and their actions:";

fn help(words: &[String]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridc"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GRID_")) {
        command.env_remove(name);
    }
    let output = command.args(words).arg("--help").env("COLUMNS", "100").output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names under `Commands:`.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    // A long description goes on in a line that is indented further.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn without_common(help: &str) -> String {
    help.split("\n\n").filter(|part| !part.starts_with(COMMON)).collect::<Vec<_>>().join("\n\n")
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut todo = vec![Vec::new()];
    while let Some(words) = todo.pop() {
        let text = help(&words);
        let below = subcommands(&text).into_iter().rev();
        todo.extend(below.map(|name| words.iter().cloned().chain([name]).collect::<Vec<_>>()));
        let shown = if words.is_empty() { text } else { without_common(&text) };
        let shown = shown.split(BACKENDS).next().unwrap_or_default().trim_end();
        let name = std::iter::once("gridc".to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        page.push_str(&format!("\n## {name}\n\n```text\n{shown}\n```\n"));
    }
    page
}

#[test]
fn the_page_about_gridc_is_current() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = page();
    if std::env::var_os("GRID_DOCS").is_some_and(|what| what == "write") {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == page, "docs/cli.md is not what gridc --help says: run `cargo xtask docs`");
    for verb in ["job run", "job resume", "node drain", "backend list", "events", "status", "completion"] {
        assert!(page.contains(&format!("\n## gridc {verb}\n")), "{verb} was not walked to");
    }
}
