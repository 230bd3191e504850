//! Checks that `docs/backends.md` is generated from the declarations. `cargo xtask docs` rewrites it.
//!
//! The text is generated here and not in the library: no program needs it.

use std::path::PathBuf;

use grid_types::api::{ActionDoc, BackendDoc, ParamDoc};
use grid_types::decl::builtin;
use grid_types::limits::{MAX_ITEMS, MAX_WORD_BYTES};

const HEAD: &str = "\
# Backends

Written by `cargo xtask docs` from the declarations in `crates/grid-types/src/decl/`; changes belong there.

A task names a backend, an action and its parameters. The same declarations check a job when it is submitted (and again on
the worker), and produce `gridc backend describe NAME`, `GET /api/v1/backends`, shell completion and this page.

```console
$ gridc job run --target all apt install --package curl
$ gridc job run --target group:web systemd restart unit=nginx --wait
```

- **Parameters** are strings, numbers or booleans; strings are converted as declared. A `word` becomes one argument of a
  program: the whole of it must match the pattern, it is at most MAX_WORD bytes long, never begins with `-` and has no
  control character. No value ever passes through a shell. A list or a map (`texts`, `integers`, `text map`) is written as such in a job
  file; on a command line it is repeated (`--args a --args=-b`) or JSON (`args='[\"a\", \"-b\"]'`), with at most MAX_ITEMS items.
- **Effect** is the effect of a second run. `pure` changes nothing; `idempotent` has the same result, so it runs again when a
  worker was restarted in the middle of it; `once` never runs twice, and is `unknown` if Grid cannot know whether it ran.
  Where the action allows it, a task may set its own effect: `effect: idempotent`, `--effect idempotent`.
- **Timeout** is the default for a task that sets none.
- A worker offers the backends that are enabled by default and whose programs it finds in its `PATH`. `grid worker --enable-backend NAME`
  adds one, `--disable-backend NAME` removes one. A step on a node that does not run its backend fails with that reason.
- A program that ends with an exit code other than 0 fails its step with the code and its last error lines, like
  `apt-get install: exit 100: E: Unable to locate package nope`; the step's output has everything that it printed.
";

fn page() -> String {
    let mut page = HEAD.replace("MAX_WORD", &MAX_WORD_BYTES.to_string()).replace("MAX_ITEMS", &MAX_ITEMS.to_string());
    for backend in builtin() {
        page.push_str(&section(&BackendDoc::from(backend)));
    }
    page
}

fn section(backend: &BackendDoc) -> String {
    let runs = match (backend.on_by_default, backend.needs.is_empty()) {
        (true, true) => "Runs on every worker.".to_owned(),
        (true, false) => format!("Runs where these are installed: `{}`.", backend.needs.join("`, `")),
        (false, _) => {
            let options = std::iter::once(format!("--enable-backend {}", backend.name)).chain(backend.settings.clone());
            format!("Off by default; enable it on a worker with `{}`.", options.collect::<Vec<_>>().join(" "))
        }
    };
    let mut text = format!("\n## {}\n\n{}. {runs}\n\n", backend.name, capital(&backend.help));
    text.push_str("| action | effect | timeout | description |\n|---|---|---|---|\n");
    for ActionDoc { name, effect, effect_choice, timeout, help, .. } in &backend.actions {
        let choice = if *effect_choice { ", or the task's own" } else { "" };
        text.push_str(&format!("| `{name}` | {}{choice} | {timeout} | {help} |\n", effect.word()));
    }
    let mut params: Vec<(Vec<String>, &ParamDoc)> = Vec::new();
    for (action, param) in backend.actions.iter().flat_map(|action| action.params.iter().map(move |p| (action, p))) {
        let name = format!("`{}`", action.name);
        match params.iter_mut().find(|(_, known)| *known == param) {
            Some((actions, _)) => actions.push(name),
            None => params.push((vec![name], param)),
        }
    }
    if !params.is_empty() {
        text.push_str("\n| parameter | of | default | meaning | accepts |\n|---|---|---|---|---|\n");
        text.extend(params.iter().map(|(actions, param)| row(&actions.join(", "), param)));
    }
    text
}

fn row(actions: &str, param: &ParamDoc) -> String {
    let default = match (&param.default, param.required) {
        (_, true) => "required".to_owned(),
        (Some(default), false) => format!("`{default}`"),
        (None, false) => String::new(),
    };
    // A bar would end the cell, even inside of code.
    let accepts = param.accepts().replace('|', "\\|");
    let accepts = if param.pattern.is_some() { format!("`{accepts}`") } else { accepts };
    format!("| `{}` | {actions} | {default} | {} | {accepts} |\n", param.name, param.help)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[test]
fn the_page_about_backends_is_current() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/backends.md");
    if std::env::var_os("GRID_DOCS").is_some_and(|what| what == "write") {
        std::fs::write(&file, page()).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == page(), "docs/backends.md is out of date: run `cargo xtask docs`");
}
