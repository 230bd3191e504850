//! `gridc completion`: a script for the shell, made from the command line itself and from the declared backends.
//!
//! Backends, actions and parameters are free words of `job run` for the parser, because options may stand between them.
//! For the shell they are written as commands below `run`, each with the options of `run` (fish gets them by hand): so
//! a static script knows everything, and completing needs neither a controller nor a running `gridc`.
//! The dynamic engine of clap_complete is marked unstable, and ids of jobs and nodes are all it would add.

use clap::builder::PossibleValuesParser;
use clap::builder::Resettable::Reset;
use clap::{Arg, ArgAction, Command, CommandFactory};
use grid_types::decl::{self, ActionDecl, BackendDecl, ParamDecl, ParamType};

use crate::cli::{Cli, ShellName};
use crate::failure::Failure;
use crate::out;
use crate::safe::Safe;

pub fn print(shell: ShellName) -> Result<u8, Failure> {
    let script = match shell {
        ShellName::Bash => generated(clap_complete::Shell::Bash, with_backends(Cli::command(), with_actions)),
        ShellName::Zsh => generated(clap_complete::Shell::Zsh, with_backends(Cli::command(), with_actions)),
        // Its generator knows commands below commands and nothing below those.
        ShellName::Fish => {
            let script = generated(clap_complete::Shell::Fish, with_backends(Cli::command(), |run, _| run.clone()));
            script + &fish_tasks()
        }
    };
    out::write(&Safe::lines(&script))?;
    Ok(0)
}

fn generated(shell: clap_complete::Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "gridc", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The words behind `job run`, for fish.
fn fish_tasks() -> String {
    let seen = |words: &[&str]| format!("__fish_seen_subcommand_from {}", words.join(" "));
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let run = format!("{}; and {}", seen(&["job"]), seen(&["run"]));
    let backends: Vec<_> = decl::builtin().iter().map(|backend| backend.name).collect();
    let mut lines = String::new();
    let mut add = |when: &str, what: &str, help: &str| {
        lines.push_str(&format!("complete -c gridc -n {} {what} -d {}\n", quoted(when), quoted(help)));
    };
    for backend in decl::builtin() {
        add(&format!("{run}; and not {}", seen(&backends)), &format!("-f -a {}", backend.name), backend.help);
        let actions: Vec<_> = backend.actions.iter().map(|action| action.name).collect();
        let here = format!("{run}; and {}", seen(&[backend.name]));
        for action in backend.actions {
            add(&format!("{here}; and not {}", seen(&actions)), &format!("-f -a {}", action.name), action.help);
            let here = format!("{here}; and {}", seen(&[action.name]));
            for param in action.params {
                let values = values_of(param).map(|values| format!(" -f -a {}", quoted(&values.join(" "))));
                add(&here, &format!("-l {} -r{}", param.name, values.unwrap_or_default()), param.help);
            }
        }
    }
    lines
}

/// Where there are only so many.
fn values_of(param: &ParamDecl) -> Option<&'static [&'static str]> {
    match param.kind {
        ParamType::Choice { of } => Some(of),
        ParamType::Boolean => Some(&["true", "false"]),
        ParamType::Text
        | ParamType::Integer { .. }
        | ParamType::Duration
        | ParamType::Word { .. }
        | ParamType::Texts
        | ParamType::Integers { .. }
        | ParamType::Mode
        | ParamType::TextMap => None,
    }
}

fn with_backends(root: Command, of_run: impl Fn(&Command, &[String]) -> Command) -> Command {
    let names = || PossibleValuesParser::new(decl::builtin().iter().map(|backend| backend.name));
    let global: Vec<_> = root.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
    let root = root.mut_subcommand("job", |job| job.mut_subcommand("run", |run| of_run(&run, &global)));
    root.mut_subcommand("backend", |backend| {
        backend.mut_subcommand("describe", |describe| describe.mut_arg("name", |name| name.value_parser(names())))
    })
}

fn with_actions(run: &Command, global: &[String]) -> Command {
    let options: Vec<Arg> = run.get_arguments().filter(|arg| !arg.is_positional()).map(plain).collect();
    let mut written = Command::new("run").args(options.clone());
    if let Some(about) = run.get_about() {
        written = written.about(about.clone());
    }
    // An option of gridc beats a parameter of its name, which is then written name=VALUE.
    let taken = |name: &str| {
        global.iter().any(|long| long == name) || options.iter().any(|option| option.get_long() == Some(name))
    };
    let action_command = |action: &ActionDecl| {
        let params = action.params.iter().filter(|param| !taken(param.name)).map(param_arg);
        Command::new(action.name).about(action.help).args(&options).args(params)
    };
    let backend_command = |backend: &BackendDecl| {
        Command::new(backend.name)
            .about(backend.help)
            .args(&options)
            .subcommands(backend.actions.iter().map(action_command))
    };
    written.subcommands(decl::builtin().iter().map(backend_command)).disable_help_subcommand(true)
}

fn param_arg(param: &ParamDecl) -> Arg {
    let arg = Arg::new(param.name).long(param.name).help(param.help).action(ArgAction::Set);
    match values_of(param) {
        Some(values) => arg.value_parser(PossibleValuesParser::new(values)),
        None => arg,
    }
}

/// An option without its rules about others, which do not hold below `run`.
fn plain(option: &Arg) -> Arg {
    let free = option.clone().conflicts_with(Reset).requires(Reset);
    free.required_unless_present(Reset).required(false)
}

#[cfg(test)]
mod tests {
    use super::{with_actions, with_backends};
    use crate::cli::Cli;
    use clap::CommandFactory;
    use grid_types::decl;

    #[test]
    fn every_declared_parameter_can_be_completed() {
        let mut root = with_backends(Cli::command(), with_actions);
        root.build();
        root.clone().debug_assert();
        let run = root.find_subcommand("job").and_then(|job| job.find_subcommand("run")).unwrap();
        for backend in decl::builtin() {
            for action in backend.actions {
                let command = run.find_subcommand(backend.name).and_then(|b| b.find_subcommand(action.name)).unwrap();
                let longs: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
                for name in action.params.iter().map(|param| param.name).chain(["target", "wait", "server"]) {
                    assert!(longs.contains(&name), "{} {} --{name}: {longs:?}", backend.name, action.name);
                }
            }
        }
    }
}
