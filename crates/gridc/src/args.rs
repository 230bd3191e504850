//! Puts the words of `job run` and `job plan` in order before clap reads them (and of `cluster backup`, whose `-o` is a file).
//!
//! Parameters of an action look like options (`--package curl`), and options of gridc may stand anywhere between
//! them. So everything after these two words is split in two: what gridc knows as its own goes first, the words of the task
//! follow behind a `--`, each parameter joined with its value (`--package=curl`).
//!
//! What gridc knows is asked of clap itself, so the two can never disagree. An unknown option before the first word
//! is left to clap, which names the nearest one.
//! A value that begins with '-' is never taken from the next word: in `--message --wait` somebody forgot the message.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use clap::Command;
use grid_types::decl::{self, ParamType};

/// `root` must be built.
pub fn arrange(argv: Vec<OsString>, root: &Command) -> Vec<OsString> {
    if let Some((_, start)) = find(&argv, root, ["cluster", "backup"]) {
        return with_output_as_file(argv, start);
    }
    let task = find(&argv, root, ["job", "run"]).or_else(|| find(&argv, root, ["job", "plan"]));
    let Some((run, start)) = task else { return argv };
    let known = Known::of(run);
    let mut arranged: Vec<_> = argv[..start].to_vec();
    let mut words: Vec<OsString> = Vec::new();
    let mut rest = argv[start..].iter().peekable();
    while let Some(token) = rest.next() {
        if token == "--" {
            words.extend(rest.by_ref().cloned());
            break;
        }
        let text = token.to_str().unwrap_or_default();
        match known.find(text) {
            Some(Found { needs_value }) => {
                arranged.push(token.clone());
                arranged.extend(rest.next_if(|_| needs_value).cloned());
            }
            None if text.starts_with('-') && text != "-" && words.is_empty() => arranged.push(token.clone()),
            None => {
                let value = rest.next_if(|next| takes_value(text, next, &words));
                words.push(joined(token, value));
            }
        }
    }
    if !words.is_empty() {
        arranged.push("--".into());
        arranged.extend(words);
    }
    arranged
}

/// The job file that was named without `-f`, in a line that was arranged.
pub fn forgotten_file(arranged: &[OsString]) -> Option<&str> {
    let first = arranged.iter().skip_while(|word| *word != "--").nth(1)?.to_str()?;
    [".yaml", ".yml", ".json"].iter().any(|end| first.ends_with(end)).then_some(first)
}

/// A backup goes into a file, and `-o` there names that file, not the format of what is printed.
fn with_output_as_file(mut argv: Vec<OsString>, start: usize) -> Vec<OsString> {
    for word in &mut argv[start..] {
        let Some(text) = word.to_str() else { continue };
        let file = match text {
            "-o" | "--output" => Some("--to".to_owned()),
            _ => {
                let attached = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"));
                attached.map(|file| format!("--to={}", file.trim_start_matches('=')))
            }
        };
        if let Some(file) = file {
            *word = file.into();
        }
    }
    argv
}

/// The command of two words, and the index after them.
fn find<'a>(argv: &[OsString], root: &'a Command, words: [&str; 2]) -> Option<(&'a Command, usize)> {
    let mut command = root;
    let mut index = 1;
    for word in words {
        let known = Known::of(command);
        loop {
            let text = argv.get(index)?.to_str()?;
            index += 1;
            if text.starts_with('-') {
                index += usize::from(known.find(text)?.needs_value);
            } else if text == word {
                break;
            } else {
                return None;
            }
        }
        command = command.find_subcommand(word)?;
    }
    Some((command, index))
}

/// Options of a command, each with whether it takes a value.
struct Known {
    longs: BTreeMap<String, bool>,
    shorts: BTreeMap<char, bool>,
}

struct Found {
    /// The value is the next word.
    needs_value: bool,
}

impl Known {
    fn of(command: &Command) -> Self {
        let mut known = Self { longs: BTreeMap::new(), shorts: BTreeMap::new() };
        for arg in command.get_arguments() {
            let takes = arg.get_action().takes_values();
            known.longs.extend(arg.get_long().map(|long| (long.to_owned(), takes)));
            known.shorts.extend(arg.get_short().map(|short| (short, takes)));
        }
        known
    }

    fn find(&self, text: &str) -> Option<Found> {
        if let Some(long) = text.strip_prefix("--") {
            let (name, attached) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            return self.longs.get(name).map(|takes| Found { needs_value: *takes && !attached });
        }
        let mut letters = text.strip_prefix('-')?.chars();
        let takes = *self.shorts.get(&letters.next()?)?;
        Some(Found { needs_value: takes && letters.next().is_none() })
    }
}

/// Whether `token` is a parameter whose value is `next`.
fn takes_value(token: &str, next: &OsStr, words: &[OsString]) -> bool {
    let (Some(name), [backend, action, ..]) = (token.strip_prefix("--"), words) else { return false };
    if name.contains('=') {
        return false;
    }
    let action = backend.to_str().and_then(decl::backend).and_then(|b| b.action(action.to_str()?));
    let param = action.and_then(|a| a.params.iter().find(|p| p.name == name));
    match param.map(|p| p.kind) {
        Some(ParamType::Boolean) => next == "true" || next == "false",
        _ => !looks_like_an_option(next),
    }
}

/// A negative number does not.
fn looks_like_an_option(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let after = word.strip_prefix('-').and_then(|rest| rest.chars().next());
    after.is_some_and(|c| !c.is_ascii_digit())
}

fn joined(token: &OsStr, value: Option<&OsString>) -> OsString {
    let mut word = token.to_owned();
    if let Some(value) = value {
        word.push("=");
        word.push(value);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::arrange;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn arranged(line: &str) -> String {
        let mut root = Cli::command();
        root.build();
        let argv = std::iter::once("gridc").chain(line.split(' ')).map(Into::into).collect();
        let words: Vec<_> = arrange(argv, &root).into_iter().skip(1).map(|w| w.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn options_may_stand_before_between_and_after_the_parameters() {
        let want = "job run -t all --wait -- ping echo --message=hi";
        for line in [
            "job run -t all --wait ping echo --message hi",
            "job run ping echo --message hi -t all --wait",
            "job run ping -t all echo --wait --message hi",
            "job run -t all ping echo --message=hi --wait",
        ] {
            assert_eq!(arranged(line), want, "{line}");
        }
        assert_eq!(
            arranged("job run ping echo message=hi -tall -ojson"),
            "job run -tall -ojson -- ping echo message=hi"
        );
        assert_eq!(
            arranged("--server http://a job -o json run ping echo --server=b --wait-timeout 3s"),
            "--server http://a job -o json run --server=b --wait-timeout 3s -- ping echo"
        );
    }

    #[test]
    fn an_unknown_parameter_keeps_its_value_for_the_message() {
        assert_eq!(arranged("job run ping echo --mesage hi -t all"), "job run -t all -- ping echo --mesage=hi");
    }

    #[test]
    fn an_unknown_option_before_the_task_is_left_to_clap() {
        assert_eq!(arranged("job run --tagret all ping echo"), "job run --tagret -- all ping echo");
    }

    #[test]
    fn a_forgotten_value_never_eats_the_next_option() {
        assert_eq!(arranged("job run ping echo --message --wait"), "job run --wait -- ping echo --message");
        assert_eq!(arranged("job run ping echo --message -t all"), "job run -t all -- ping echo --message");
        assert_eq!(arranged("job run test flaky --rate -5 -t all"), "job run -t all -- test flaky --rate=-5");
        assert_eq!(arranged("job run ping echo --message - -t all"), "job run -t all -- ping echo --message=-");
    }

    #[test]
    fn everything_behind_two_dashes_belongs_to_the_task() {
        assert_eq!(
            arranged("job run -t all -- ping echo --message=--wait"),
            "job run -t all -- ping echo --message=--wait"
        );
    }

    #[test]
    fn a_backup_is_written_to_what_o_names() {
        for given in ["-o f", "--output f"] {
            assert_eq!(arranged(&format!("-n x cluster backup {given} --force")), "-n x cluster backup --to f --force");
        }
        for given in ["-of", "-o=f", "--output=f"] {
            assert_eq!(arranged(&format!("-o json cluster backup {given}")), "-o json cluster backup --to=f");
        }
    }

    #[test]
    fn other_commands_and_help_pass_unchanged() {
        for line in [
            "job list --limit 3",
            "node info run",
            "--help",
            "job",
            "job run --help",
            "job run -f -",
            "--nope job run x",
        ] {
            assert_eq!(arranged(line), line);
        }
    }
}
