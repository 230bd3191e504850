//! The completion scripts in real shells; zsh and fish only where they are installed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::run;

/// `None`, and a note, if the shell is not there.
fn shell(program: &str, args: &[&str]) -> Option<String> {
    match Command::new(program).args(args).stdin(Stdio::null()).output() {
        Ok(done) => {
            assert!(done.status.success(), "{program}: {done:?}");
            assert_eq!(String::from_utf8_lossy(&done.stderr), "", "{program} {args:?}");
            Some(String::from_utf8(done.stdout).unwrap())
        }
        Err(error) => {
            println!("left out: {program} cannot be started: {error}");
            None
        }
    }
}

async fn script(dir: &Path, name: &str) -> String {
    let ran = run("", &format!("completion {name}")).await.exits(0);
    assert_eq!(ran.stderr, "");
    let path = dir.join(name);
    std::fs::write(&path, ran.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What bash offers for the last word of `line`.
fn bash(script: &str, line: &str) -> Option<Vec<String>> {
    // The words as bash itself would hand them to the function it was told to call.
    const ASK: &str = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _gridc gridc "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let words: Vec<_> = ["-c", ASK, "bash", script].into_iter().chain(line.split(' ')).collect();
    Some(shell("bash", &words)?.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn bash_completes_backends_actions_parameters_and_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let script = script(dir.path(), "bash").await;
    for (line, want) in [
        ("gridc ba", &["backend"][..]),
        ("gridc job ru", &["run"]),
        ("gridc job run ap", &["apt"]),
        ("gridc job run --target all sys", &["systemd"]),
        ("gridc job run --target all apt ins", &["install"]),
        ("gridc job run -t all apt install --pac", &["--package"]),
        ("gridc job run -t group:web systemd restart --un", &["--unit"]),
        ("gridc job run rke2 start --mode ", &["server", "agent"]),
        ("gridc job run rke2 start --mode a", &["agent"]),
        ("gridc job run rke2 install --ver", &["--version"]),
        ("gridc job run apt install --package curl --wa", &["--wait", "--wait-timeout"]),
        ("gridc job run apt install --strategy ", &["fail-fast", "continue"]),
        ("gridc backend describe r", &["rke2"]),
        ("gridc completion f", &["fish"]),
    ] {
        let Some(offered) = bash(&script, line) else { return };
        assert_eq!(offered, want, "{line}");
    }
    let offered = bash(&script, "gridc job run apt install -").unwrap();
    for option in ["--package", "--target", "--wait", "--server", "-t"] {
        assert!(offered.iter().any(|word| word == option), "{option}: {offered:?}");
    }
}

#[tokio::test]
async fn fish_completes_actions_and_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let script = script(dir.path(), "fish").await;
    for (line, want) in [
        ("gridc job run ap", "apt"),
        ("gridc job run apt ins", "install"),
        ("gridc job run apt install --pac", "--package"),
        ("gridc job run rke2 start --mode s", "server"),
    ] {
        let ask = format!("source {script}; complete --do-complete '{line}'");
        let Some(offered) = shell("fish", &["--no-config", "-c", &ask]) else { return };
        assert!(offered.lines().any(|l| l.split('\t').next() == Some(want)), "{line}: {offered}");
    }
}

#[tokio::test]
async fn zsh_loads_the_script_and_registers_it() {
    let dir = tempfile::tempdir().unwrap();
    let script = script(dir.path(), "zsh").await;
    let ask =
        format!("autoload -U compinit; compinit -D -u; source {script}; print -- ${{_comps[gridc]}}; whence -w _gridc");
    let Some(told) = shell("zsh", &["-f", "-c", &ask]) else { return };
    assert_eq!(told, "_gridc\n_gridc: function\n");
    let text = std::fs::read_to_string(&script).unwrap();
    for word in ["--package=", "--mode=", "(server agent)"] {
        assert!(text.contains(word), "{word}");
    }
}
