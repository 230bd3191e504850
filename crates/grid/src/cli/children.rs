//! Builds the command lines of the child processes from the one of `grid node`.
//!
//! Every value is passed on as it was given, by flag, variable, file or default, for whatever flags a controller has: a list of
//! flags kept here would miss the next new one.
//! Not here: what the flags mean (the parent module).

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use grid_types::{NodeId, Span};

use super::{LogArgs, NodeArgs, ServerArgs, WorkerTraits};

/// The flags of a controller and of a worker that `grid node` was given, as arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    controller: Vec<OsString>,
    worker: Vec<OsString>,
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let arguments = |command: Command| command.get_arguments().flat_map(|arg| arguments_of(arg, matches)).collect();
        let log: Vec<OsString> = arguments(LogArgs::augment_args(Command::new("log")));
        self.controller = [log.clone(), arguments(ServerArgs::augment_args(Command::new("server")))].concat();
        self.worker = [log, arguments(WorkerTraits::augment_args(Command::new("worker")))].concat();
        Ok(())
    }
}

/// Flags that `grid node` sets itself for its children.
const OWN: [&str; 2] = ["data_dir", "supervised"];

fn arguments_of(arg: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let id = arg.get_id().as_str();
    // From a settings file: a bootstrapping controller joins no cluster, and as flags the two would contradict each other.
    if id == "join" && (matches.get_flag("bootstrap") || matches.contains_id("restore")) {
        return Vec::new();
    }
    let Some(flag) = arg.get_long().filter(|_| !OWN.contains(&id)).map(|long| OsString::from(format!("--{long}")))
    else {
        return Vec::new();
    };
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return if matches.get_flag(id) { vec![flag] } else { Vec::new() };
    }
    let values: Vec<&OsStr> = matches.get_raw(id).map(Iterator::collect).unwrap_or_default();
    // One argument together with its value: a value may begin with a dash.
    let word = |value: &OsStr| [flag.as_os_str(), OsStr::new("="), value].iter().copied().collect::<OsString>();
    match arg.get_value_delimiter() {
        Some(delimiter) if !values.is_empty() => vec![word(&values.join(OsStr::new(&delimiter.to_string())))],
        _ => values.into_iter().map(word).collect(),
    }
}

/// The arguments after the program's name, for a controller in `data_dir`.
pub fn controller_line(args: &NodeArgs, data_dir: &Path) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("server"), "--supervised".into(), "--data-dir".into(), data_dir.into()];
    arguments.extend(args.given.controller.iter().cloned());
    arguments
}

/// All arguments of a worker except the address of the local controller.
#[derive(Debug)]
pub struct WorkerLine {
    arguments: Vec<OsString>,
    servers: Vec<String>,
    /// It comes over NATS.
    has_nats: bool,
}

impl WorkerLine {
    pub fn new(args: &NodeArgs, node_id: &NodeId, data_dir: &Path) -> Self {
        let limit: Span = args.drain_timeout;
        let mut arguments: Vec<OsString> = vec!["worker".into(), "--supervised".into(), limit.to_string().into()];
        arguments.extend(["--node-id".into(), node_id.to_string().into(), "--data-dir".into(), data_dir.into()]);
        arguments.extend(args.given.worker.iter().cloned());
        let fabrics = &args.server.fabrics;
        // Where the controllers serve both, the worker needs no nats-server.
        let has_nats = fabrics.has_nats() && !fabrics.has_grpc();
        if has_nats {
            arguments.extend(["--nats".into(), fabrics.nats.nats.join(",").into()]);
            let credentials = args.nats_worker_creds.as_ref().or(fabrics.nats.nats_creds.as_ref());
            let files = [("--nats-creds", credentials), ("--nats-ca", fabrics.nats.nats_ca.as_ref())];
            for (flag, file) in files.into_iter().filter_map(|(flag, file)| Some((flag, file?))) {
                arguments.extend([flag.into(), file.into()]);
            }
        }
        Self { arguments, servers: args.server.join.clone(), has_nats }
    }

    /// Arguments for a worker: the controller at `api` first, which knows the others while it runs, then the addresses that it
    /// joined by.
    pub fn arguments(&self, api: &str) -> Vec<OsString> {
        let servers: Vec<&str> = std::iter::once(api).chain(self.servers.iter().map(String::as_str)).collect();
        let mut arguments = self.arguments.clone();
        if self.has_nats {
            return arguments;
        }
        arguments.extend(["--server".into(), servers.join(",").into()]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use clap::Parser;

    use super::{Span, WorkerLine, controller_line};
    use crate::cli::{Cli, NodeArgs, Verb};

    fn node(line: &str) -> NodeArgs {
        match Cli::parse_from(line.split(' ')).verb {
            Verb::Node(args) => *args,
            _ => panic!("{line}"),
        }
    }

    fn again(arguments: Vec<OsString>) -> Verb {
        let line =
            Cli::try_parse_from(std::iter::once("grid".into()).chain(arguments)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(line.log.log_level.as_deref(), Some("debug"));
        line.verb
    }

    #[test]
    fn what_the_node_was_given_reaches_the_child_that_it_is_for() {
        let args = node(
            "grid --log-level debug node --node-id c1 --data-dir d --join http://a:1,http://b:2 --replace --max-pending 3 --dead-after 2m \
             --insecure --worker --groups web,db --labels k=-v --enable-backend test --enable-backend ping --slots 2",
        );
        let Verb::Server(server) = again(controller_line(&args, Path::new("d/controller"))) else { panic!() };
        assert_eq!((server.node_id.as_str(), server.data_dir.as_path()), ("c1", Path::new("d/controller")));
        assert_eq!((server.join, server.replace), (vec!["http://a:1".into(), "http://b:2".into()], true));
        assert_eq!((server.tuning.max_pending, server.tuning.dead_after.map(Span::ms)), (3, Some(120_000)));
        assert!(server.insecure && server.supervised && !server.bootstrap);
        let line = WorkerLine::new(&args, &"c1-worker".parse().unwrap(), Path::new("d/worker"));
        let Verb::Worker(worker) = again(line.arguments("http://c:3")) else { panic!() };
        assert_eq!(worker.server, ["http://c:3", "http://a:1", "http://b:2"]);
        assert_eq!(worker.node_id.unwrap().as_str(), "c1-worker");
        assert_eq!(worker.traits.labels, [("k".to_owned(), "-v".to_owned())]);
        assert_eq!((worker.traits.groups.len(), worker.traits.enable_backends.len(), worker.traits.slots), (2, 2, 2));
        assert_eq!(worker.supervised.map(Span::ms), Some(30_000));
    }

    #[test]
    fn a_worker_comes_over_nats_where_that_is_the_only_fabric() {
        let line = "grid --log-level debug node --node-id c1 --data-dir d --bootstrap --worker --nats nats://a:1,nats://b:2 \
             --nats-creds c --nats-ca ca --nats-worker-creds w --fabric";
        let of = |fabric: &str| {
            let args = node(&[&line.split_whitespace().collect::<Vec<_>>().join(" "), fabric].join(" "));
            let Verb::Server(server) = again(controller_line(&args, Path::new("d"))) else { panic!() };
            let line = WorkerLine::new(&args, &"c1-worker".parse().unwrap(), Path::new("d/worker"));
            let Verb::Worker(worker) = again(line.arguments("http://c:3")) else { panic!() };
            (server.fabrics.settings("c1").unwrap(), worker.nats.settings("w"))
        };
        let (server, worker) = of("nats");
        let worker = worker.unwrap();
        assert_eq!((server.urls.len(), worker.urls.len()), (2, 2));
        assert_eq!((server.credentials, worker.credentials), (Some("c".into()), Some("w".into())));
        assert_eq!(worker.ca, Some("ca".into()));
        assert!(of("grpc,nats").1.is_none(), "it needs no nats-server");
    }
}
