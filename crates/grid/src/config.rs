//! Reads settings from a file: `-c FILE`, then `GRID_*` variables, then flags; each overrides the one before.
//!
//! A setting of the file becomes the default of its flag, so that one place knows which settings exist, whether the variable or
//! the flag wins, and which values are valid. Unknown keys and wrong types are refused by their path, all at once, by every
//! process that reads the file: one file may serve a whole cluster.
//! Not here: the table of keys (`keys`); what a setting does (`cli`).

mod keys;

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Command, CommandFactory, FromArgMatches};
use grid_types::Faults;
use grid_types::limits::MAX_BODY_BYTES;
use serde_json::Value;

use crate::cli::Cli;
use keys::{Key, SECTIONS, Setting};

/// Why the command line, or the settings file that it names, is refused.
pub enum BadStart {
    /// An error of clap; also help and version.
    Usage(clap::Error),
    File {
        path: PathBuf,
        problem: String,
    },
    Settings {
        path: PathBuf,
        faults: Faults,
    },
}

impl fmt::Display for BadStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) => error.fmt(f),
            Self::File { path, problem } => {
                write!(f, "error: cannot read the settings in {}: {problem}", path.display())
            }
            Self::Settings { path, faults } => {
                write!(f, "error: the settings in {} are not valid", path.display())?;
                for fault in faults.list() {
                    let at = if fault.field.is_empty() { String::new() } else { format!("{}: ", fault.field) };
                    write!(f, "\n  {at}{}", fault.problem)?;
                }
                Ok(())
            }
        }
    }
}

/// Reads a command line, and the settings file that it names.
pub fn parse(argv: &[OsString]) -> Result<Cli, BadStart> {
    let command = match file_of(argv).map_err(BadStart::Usage)? {
        Some(path) => with_defaults(Cli::command(), &read(&path)?),
        None => Cli::command(),
    };
    let matches = command.try_get_matches_from(argv).map_err(BadStart::Usage)?;
    Cli::from_arg_matches(&matches).map_err(BadStart::Usage)
}

/// Looks for the file first, while required flags may still be missing: the file may contain them.
fn file_of(argv: &[OsString]) -> Result<Option<PathBuf>, clap::Error> {
    // clap reports help and version as errors too; the second, full parse reports them again.
    let Ok(matches) = Cli::command().ignore_errors(true).try_get_matches_from(argv) else { return Ok(None) };
    let verb = matches.subcommand();
    let at = verb.map_or(&matches, |(_, matches)| matches);
    let given = at.value_source("config") == Some(ValueSource::CommandLine);
    match verb {
        Some((verb @ ("demo" | "bench"), _)) if given => {
            let problem = format!("{verb} takes no settings; grid dev -c FILE does\n");
            Err(Cli::command().error(clap::error::ErrorKind::ArgumentConflict, problem))
        }
        Some(("demo" | "bench", _)) => Ok(None),
        _ => Ok(at.get_one::<PathBuf>("config").cloned()),
    }
}

/// The settings of a file, by flag.
fn read(path: &Path) -> Result<Vec<Setting>, BadStart> {
    let unreadable = |problem: String| BadStart::File { path: path.to_owned(), problem };
    let text = text_of(path).map_err(unreadable)?;
    settings(&text).map_err(unreadable)?.map_err(|faults| BadStart::Settings { path: path.to_owned(), faults })
}

fn text_of(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(MAX_BODY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() > MAX_BODY_BYTES {
        return Err(format!("it is larger than {MAX_BODY_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The outer error means that the text is not YAML, the inner one that the settings are not valid.
fn settings(text: &str) -> Result<Result<Vec<Setting>, Faults>, String> {
    // YAML parses a file of comments as no document; for an operator it is a file that sets nothing.
    if text.lines().all(|line| matches!(line.trim_start().as_bytes(), [] | [b'#', ..])) {
        return Ok(Ok(Vec::new()));
    }
    let (document, mut faults) = gridc::read_yaml(text)?;
    let mut found = Vec::new();
    match document {
        Value::Null => {}
        Value::Object(sections) => {
            for (name, section) in &sections {
                read_section(name, section, &mut found, &mut faults);
            }
        }
        _ => faults.add("", format!("settings are sections: {}", names(SECTIONS.iter().map(|s| s.name)))),
    }
    Ok(faults.finish(found))
}

fn read_section(name: &str, section: &Value, found: &mut Vec<Setting>, faults: &mut Faults) {
    let Some(known) = SECTIONS.iter().find(|known| known.name == name) else {
        faults.add(shown(name), unknown("section", name, SECTIONS.iter().map(|s| s.name)));
        return;
    };
    if let Some(why) = known.missing {
        faults.add(name, why);
        return;
    }
    let map = match section {
        Value::Null => return,
        Value::Object(map) => map,
        _ => {
            faults.add(name, format!("must be a map of {}", names(known.keys.iter().map(|key| key.name))));
            return;
        }
    };
    for (key, value) in map {
        let at = format!("{name}.{}", shown(key));
        match known.keys.iter().find(|known| known.name == key) {
            None => faults.add(at, unknown("key", key, known.keys.iter().map(|key| key.name))),
            Some(Key { missing: Some(why), .. }) => faults.add(at, *why),
            Some(_) if value.is_null() => {}
            Some(known) => match known.kind.arguments(value) {
                Ok(arguments) => {
                    found.extend(known.sets.iter().map(|(verb, flag)| Setting {
                        verb,
                        flag,
                        arguments: arguments.clone(),
                    }));
                }
                Err(problem) => faults.add(at, problem),
            },
        }
    }
}

fn unknown<'a>(what: &str, given: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = gridc::nearest(given, known.clone()).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    format!("unknown {what}; {near}known here: {}", names(known))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn shown(name: &str) -> String {
    name.chars().take(60).collect()
}

fn with_defaults(command: Command, settings: &[Setting]) -> Command {
    settings.iter().fold(command, |command, setting| {
        // clap needs defaults that live as long as the process; this runs once, at start.
        let arguments: Vec<&'static str> = setting.arguments.iter().map(|word| &*word.clone().leak()).collect();
        command.mut_subcommand(setting.verb, |verb| {
            verb.mut_arg(setting.flag, |flag| flag.required(false).default_values(arguments))
        })
    })
}

#[cfg(test)]
mod tests;
