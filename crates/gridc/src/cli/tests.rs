//! Every command teaches by example, and every example is a command line that parses.

use std::ffi::OsString;

use clap::{Command, CommandFactory, FromArgMatches};

use super::{Cli, JobVerb, Verb};

fn commands() -> Vec<Command> {
    let mut root = Cli::command();
    root.build();
    root.clone().debug_assert();
    let (mut all, mut todo) = (Vec::new(), vec![root]);
    while let Some(command) = todo.pop() {
        todo.extend(command.get_subcommands().cloned());
        all.push(command);
    }
    all
}

#[test]
fn every_command_says_what_it_does_and_teaches_by_example() {
    for command in commands() {
        let name = command.get_name();
        assert!(command.get_about().is_some_and(|about| !about.to_string().is_empty()), "{name}");
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Examples:\n  gridc "), "{name}");
        for option in command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional()) {
            assert!(option.get_help().is_some(), "{name}: {:?} is not explained", option.get_id());
        }
    }
}

#[test]
fn every_example_parses() {
    let mut root = Cli::command();
    root.build();
    let mut tried = 0;
    for command in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter_map(|line| line.strip_prefix("  gridc ")) {
            let mut argv: Vec<OsString> = vec!["gridc".into()];
            argv.extend(words(line).into_iter().map(OsString::from));
            let parsed = Cli::command().try_get_matches_from(crate::args::arrange(argv, &root));
            let cli = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
            let cli = cli.unwrap_or_else(|e| panic!("{}: gridc {line}\n{e}", command.get_name()));
            if let Verb::Job(JobVerb::Run(args)) = &cli.verb
                && args.file.is_none()
            {
                crate::task::document(args).unwrap_or_else(|e| panic!("gridc {line}: {e}"));
            }
            tried += 1;
        }
    }
    assert!(tried > 40, "only {tried} examples were found");
}

/// The words of the first command of a line, as a shell splits them; `$(…)` is some word.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = line.chars().peekable();
    let mut quote = None;
    while let Some(c) = letters.next() {
        let word = words.last_mut().unwrap();
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '$') if letters.peek() == Some(&'(') => {
                letters.by_ref().find(|c| *c == ')');
                word.push_str("word");
            }
            (None, '|' | '<' | '>' | '#' | ';') => break,
            (None, ' ') => words.push(String::new()),
            (_, c) => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
