//! `cargo xtask spawns`: checks that no task and no thread is started and then forgotten.
//!
//! A task whose handle is dropped may panic or end unseen. So the handle of a spawn is kept, awaited or given to an owner:
//! `grid_tasks::Tasks`, a `JoinSet`, a scope. Flagged is a statement that begins with a spawn, or with `let _ =` or `drop(…)` of
//! one, and does not await it.
//! Works on tokens: a handle that is bound to a name and never used is found by the compiler, not here.
//! Left out: code that only tests compile, and the test kit.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::deps::tokens::{is_ident, is_punct, production};
use crate::shell::workspace_root;

const SPAWNS: &[&str] = &["spawn", "spawn_blocking", "spawn_local"];
/// Before `.spawn(…)`: what gives the handle to nobody else. Sets and scopes own what they start.
const DETACHED: &[&str] = &["thread", "Builder", "builder", "runtime", "Handle", "handle"];

pub fn run() -> Result<()> {
    let root = workspace_root();
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files)?;
    collect(&root.join("xtask"), &mut files)?;
    files.sort();
    let mut dropped = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(&root).unwrap_or(file).display();
        let found = find(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
        dropped.extend(found.into_iter().map(|line| format!("{shown}:{line}")));
    }
    if !dropped.is_empty() {
        bail!(
            "{} tasks or threads are started and their handles dropped; use grid_tasks::Tasks, a JoinSet, or keep the handle\n{}",
            dropped.len(),
            dropped.join("\n")
        );
    }
    eprintln!("spawns: {} files drop no handle", files.len());
    Ok(())
}

/// The source files of production code below a folder. Files that only tests compile are declared under `#[cfg(test)]`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    const TESTS: &[&str] = &["tests", "examples", "benches", "target", "grid-testkit"];
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        entries.push(entry?.path());
    }
    let mut for_tests = Vec::new();
    for path in entries.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let at = module_folder(path);
        for_tests.extend(test_modules(&text).into_iter().map(|name| at.join(name)));
    }
    for path in entries {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if for_tests.contains(&path.with_extension("")) || TESTS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            let mut below = Vec::new();
            collect(&path, &mut below)?;
            below.retain(|file| !for_tests.contains(&file.with_extension("")));
            files.extend(below);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Where the modules that a file declares are.
fn module_folder(file: &Path) -> PathBuf {
    let is_root = file.file_stem().is_some_and(|stem| stem == "lib" || stem == "main" || stem == "mod");
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    if is_root { folder } else { file.with_extension("") }
}

/// The names of `mod name;` declarations under `#[cfg(test)]`.
fn test_modules(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let name = |line: &str| {
        let rest = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        rest.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    };
    declared.filter_map(|pair| name(pair[1])).collect()
}

/// The lines of spawns whose handle is dropped.
fn find(text: &str) -> Result<Vec<usize>> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?;
    let mut lines = Vec::new();
    walk(tokens, &mut lines);
    Ok(lines)
}

fn walk(stream: TokenStream, lines: &mut Vec<usize>) {
    let tokens = production(stream);
    let mut from = 0;
    for (at, token) in tokens.iter().enumerate() {
        if is_punct(token, ';') {
            lines.extend(dropped(&tokens[from..at]));
            from = at + 1;
        } else if let TokenTree::Group(group) = token {
            walk(group.stream(), lines);
            let ends_statement =
                group.delimiter() == Delimiter::Brace && !matches!(tokens.get(at + 1), Some(next) if goes_on(next));
            if ends_statement {
                from = at + 1;
            }
        } else if is_punct(token, '>') && at > from && is_punct(&tokens[at - 1], '=') {
            // An arm of a match.
            from = at + 1;
        }
    }
}

/// Whether an expression goes on behind a block.
fn goes_on(next: &TokenTree) -> bool {
    is_punct(next, '.') || is_punct(next, '?') || is_punct(next, ';') || is_ident(next, "else")
}

/// The line of a statement that drops the handle of a spawn.
fn dropped(statement: &[TokenTree]) -> Option<usize> {
    let expression = match statement {
        [word, underscore, equals, rest @ ..]
            if is_ident(word, "let") && is_ident(underscore, "_") && is_punct(equals, '=') =>
        {
            rest
        }
        [word, TokenTree::Group(group)] if is_ident(word, "drop") => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            return spawned(&inner);
        }
        [word, ..] if is_ident(word, "let") || is_ident(word, "return") => return None,
        expression => expression,
    };
    spawned(expression)
}

/// The line of a spawn at the top of an expression that nothing awaits or takes.
fn spawned(expression: &[TokenTree]) -> Option<usize> {
    let at = expression.windows(2).position(|pair| {
        let is_call = matches!(&pair[1], TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
        is_call && SPAWNS.iter().any(|spawn| is_ident(&pair[0], spawn))
    })?;
    let is_assigned = expression[..at].iter().any(|token| is_punct(token, '='));
    let is_awaited = expression[at..].iter().any(|token| is_ident(token, "await") || is_ident(token, "join"));
    let is_detached = match &expression[..at] {
        [.., colon] if is_punct(colon, ':') => true,
        [before @ .., TokenTree::Group(_), dot] if is_punct(dot, '.') => {
            before.iter().any(|token| DETACHED.iter().any(|word| is_ident(token, word)))
        }
        [.., TokenTree::Ident(owner), dot] if is_punct(dot, '.') => DETACHED.iter().any(|word| owner == word),
        _ => false,
    };
    (is_detached && !is_assigned && !is_awaited).then(|| expression[at].span().start().line)
}

#[cfg(test)]
mod tests {
    use super::{find, test_modules};

    #[test]
    fn a_handle_that_is_dropped_is_found() {
        for text in [
            "fn f() { tokio::spawn(async {}); }",
            "fn f() { let _ = tokio::spawn(async {}); }",
            "fn f() { drop(tokio::spawn(async {})); }",
            "fn f() { tokio::task::spawn_blocking(|| 1); }",
            "fn f() { std::thread::spawn(|| 1); }",
            "fn f() { thread.spawn(|| 1)?; }",
            "fn f() { thread.spawn(|| 1).map_err(|e| e.to_string())?; }",
            "fn f() { std::thread::Builder::new().name(n).spawn(|| 1)?; }",
            "fn f() { if x { y(); } tokio::spawn(async {}); }",
            "fn f() { g(async { tokio::spawn(async {}); }) }",
            "fn f() { match x { A => tokio::spawn(async {}), B => { tokio::spawn(async {}); } } }",
        ] {
            assert_eq!(find(text).unwrap(), [1], "{text}");
        }
    }

    #[test]
    fn a_handle_that_is_kept_or_owned_is_not() {
        for text in [
            "fn f() { let task = tokio::spawn(async {}); task.abort(); }",
            "fn f() { self.task = Some(tokio::spawn(async {})); }",
            "fn f() -> H { tokio::spawn(async {}) }",
            "fn f() { tokio::spawn(async {}).await?; }",
            "fn f() { std::thread::spawn(|| 1).join(); }",
            "fn f() { set.spawn(async {}); }",
            "fn f() { scope.spawn(|| 1); }",
            "fn f() { self.requests().spawn(async {}); }",
            "fn f() { self.tasks.start(\"x\", async {}); }",
            "fn f() { H { task: tokio::spawn(async {}) }; }",
            "#[cfg(test)] mod tests { fn f() { tokio::spawn(async {}); } }",
            "fn f(program: P) { processes.spawn(&program)?; }",
        ] {
            assert_eq!(find(text).unwrap(), Vec::<usize>::new(), "{text}");
        }
    }

    #[test]
    fn files_that_only_tests_compile_are_known_by_their_declaration() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\npub(crate) mod c;\n#[cfg(test)]\nmod d {\n}\n";
        assert_eq!(test_modules(text), ["b", "c"]);
    }
}
