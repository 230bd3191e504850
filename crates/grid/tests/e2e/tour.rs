//! `docs/tour.md` works as it is written: its commands run in order against a real `grid dev`, its files are those of the page,
//! and what they print to stdout is what the page shows.
//!
//! `GRID_DOCS=write cargo test -p grid --test e2e tour` writes the current output into the page. Ids, times, durations and
//! hashes differ from run to run and are not compared; neither is stderr, because the number of progress lines depends on the
//! machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use grid_testkit::{Dev, Stubs, bin};

const ADDRESS: &str = "http://127.0.0.1:8765";

struct Tour {
    dev: Dev,
    /// Ids of the page, and the real ones.
    ids: BTreeMap<String, String>,
}

impl Tour {
    fn run(&self, line: &str, merged: bool) -> Output {
        let (command, _) = exit_of(line);
        let mut command = command.replace(ADDRESS, self.dev.url());
        for (shown, real) in &self.ids {
            command = command.replace(shown, real);
        }
        let path = format!("{}:/usr/bin:/bin", bin("gridc").parent().expect("a folder").display());
        let script = if merged { format!("{{ {command}\n}} 2>&1") } else { command };
        let mut sh = Command::new("sh");
        sh.args(["-c", &script]).current_dir(self.dev.dir()).env("PATH", path).env("GRID_SERVER", self.dev.url());
        sh.output().expect("sh runs")
    }

    /// Runs one command of the page; returns what the page should show for it.
    fn step(&mut self, line: &str, shown: &str, write: bool) -> String {
        let ran = self.run(line, write);
        let stdout = String::from_utf8_lossy(&ran.stdout).replace(self.dev.url(), ADDRESS);
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(exit_of(line).1), "{line}\n{stdout}{stderr}");
        let real = id_in(&stdout).or_else(|| id_in(&stderr));
        if let (Some(real), Some(shown)) = (real, id_in(shown)) {
            self.ids.insert(shown, real);
        }
        if write {
            return stdout;
        }
        let page: Vec<String> = shown.lines().map(plain).collect();
        let mut rest = &page[..];
        for got in stdout.lines().map(plain) {
            let at = rest.iter().position(|line| *line == got);
            let at = at
                .unwrap_or_else(|| panic!("{line}\nprints a line that the page does not have there: {got}\n{stdout}"));
            // Nodes that print at the same time do so in any order.
            rest = if line.contains("--follow") { rest } else { &rest[at + 1..] };
        }
        shown.to_owned()
    }
}

/// `… # exits 1`.
fn exit_of(line: &str) -> (&str, i32) {
    match line.split_once("# exits ") {
        Some((command, code)) => (command, code.trim().parse().expect("an exit code")),
        None => (line, 0),
    }
}

fn id_in(text: &str) -> Option<String> {
    let at = text.find("job-")?;
    let id: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    (id.len() == 17).then_some(id)
}

/// Removes what differs from run to run.
fn plain(line: &str) -> String {
    let word = |word: &str| {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let word = word.trim_matches(['(', ')']);
        let varies = id_in(word).is_some()
            || (digits >= 14 && word.contains('T') && word.ends_with('Z'))
            || (word.len() >= 32 && word.chars().all(|c| c.is_ascii_hexdigit()))
            || (digits > 0 && word.trim_end_matches('s').parse::<f64>().is_ok() && word.ends_with('s'));
        if varies { "…".to_owned() } else { word.to_owned() }
    };
    let counted =
        ["session", "index"].into_iter().find_map(|of| line.split_once(&format!("{of} ")).map(|(before, _)| before));
    counted.unwrap_or(line).split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md")
}

#[test]
fn the_tour_works_as_it_is_written() {
    let write = std::env::var_os("GRID_DOCS").is_some_and(|what| what == "write");
    let text = std::fs::read_to_string(page()).expect("docs/tour.md");
    // The same backends on every machine, whatever is installed.
    let dir = tempfile::tempdir().expect("temp dir");
    let stubs = Stubs::at(dir.path().join("stubs")).program("apt-get", "").program("systemctl", "").program("curl", "");
    let mut tour = Tour { dev: Dev::start_with_path(3, &stubs.path()), ids: BTreeMap::new() };
    let (mut out, mut commands) = (String::new(), 0);
    for (n, block) in text.split("```").enumerate() {
        if n > 0 {
            out.push_str("```");
        }
        let (kind, body) = block.split_once('\n').unwrap_or((block, ""));
        let is_code = n % 2 == 1;
        if is_code
            && kind == "yaml"
            && let Some(name) = body.strip_prefix("# ").and_then(|rest| rest.lines().next())
        {
            std::fs::write(tour.dev.dir().join(name), body).expect("written");
        }
        if !is_code || kind != "console" || !body.contains("$ gridc") && !body.contains("$ curl") {
            out.push_str(block);
            continue;
        }
        out.push_str("console\n");
        for step in body.split("$ ").skip(1) {
            // A command continues after a backslash.
            let end = step.match_indices('\n').map(|(at, _)| at).find(|at| !step[..*at].ends_with('\\'));
            let (line, shown) = step.split_at(end.expect("a whole line"));
            let shown = shown.trim_start_matches('\n');
            let now = tour.step(line, shown, write);
            out.push_str(&format!("$ {line}\n{now}"));
            commands += 1;
        }
    }
    assert!(commands > 15, "only {commands} commands were found");
    if write {
        let named = tour.ids.iter().fold(out, |text, (shown, real)| text.replace(shown, real));
        std::fs::write(page(), named).expect("written");
    }
}
