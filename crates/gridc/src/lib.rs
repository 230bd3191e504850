//! `gridc`, the command line: talks HTTP to any controller.
//!
//! - stdout is data; progress, hints and errors go to stderr, readable without colour.
//! - Exit codes: 0 done, 1 the job ended other than completed, 2 usage or refused input, 3 no controller reachable,
//!   4 not found, 5 conflict or denied, 74 done, but the answer could not be written, 124 the wait timed out, 130 interrupted
//!   while waiting.
//! - A closed stdout (`| head`) is no error: what was asked for is done, and the code says how that went.
//! - Nothing that another machine wrote can touch the terminal (`safe`, `out`).
//!
//! One module a verb group (`run`, `job`, `decide`, `node`, `backend`, `cluster`, `members`, `backup`, `completion`); `watch` and `live` are also what `grid demo` shows.
//! Not here: finding the leader and repeating what may be repeated (`grid-client`), which parameters an action takes
//! (`grid_types::decl`).

mod aim;
mod args;
mod backend;
mod backup;
mod cli;
mod cluster;
mod command;
mod completion;
mod connect;
mod decide;
mod events;
mod failure;
mod fit;
mod hint;
mod input;
mod job;
mod jobfile;
mod live;
mod logs;
mod members;
mod node;
mod out;
mod outage;
mod outputs;
mod paint;
mod plan;
mod run;
mod safe;
#[cfg(test)]
mod samples;
mod stall;
mod suggest;
mod summary;
mod table;
mod task;
mod text;
mod watch;
mod when;
mod yaml;

use std::ffi::OsString;

use clap::builder::Resettable::Reset;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use grid_types::StepIndex;

use cli::{BackendVerb, Cli, ClusterVerb, JobVerb, MemberVerb, NodeVerb, Verb};
use failure::Failure;

pub use live::{LiveView, live_view};
pub use suggest::nearest;
pub use summary::summary;
pub use watch::watch;
pub use yaml::read_yaml;

/// Runs one command line and returns what the process exits with.
#[must_use]
pub fn main(argv: Vec<OsString>) -> u8 {
    let mut command = Cli::command();
    command.build();
    let argv = args::arrange(argv, &command);
    let matches = match Cli::command().try_get_matches_from(&argv) {
        Ok(matches) => matches,
        // Help and version come this way too, with code 0 and on stdout.
        Err(error) => {
            let forgotten = args::forgotten_file(&argv).filter(|_| error.kind() == ErrorKind::MissingRequiredArgument);
            let code = out::usage(&without_environment(error, &argv)).unwrap_or_else(|failure| out::report(&failure));
            if let Some(file) = forgotten {
                out::tell(&format!("hint: a job file is given with -f {file}"));
            }
            return code;
        }
    };
    let done = match Cli::from_arg_matches(&matches) {
        Ok(cli) => begin(cli),
        Err(error) => out::usage(&error),
    };
    done.unwrap_or_else(|failure| out::report(&failure))
}

/// The same fault of the command line as it is without the environment: clap's usage lines show options that were found there
/// as if the command needed them.
fn without_environment(error: clap::Error, argv: &[OsString]) -> clap::Error {
    let options = ["server", "token", "patience"];
    let bare = options.into_iter().fold(Cli::command(), |command, id| command.mut_arg(id, |arg| arg.env(Reset)));
    match bare.try_get_matches_from(argv) {
        Err(again) if error.use_stderr() && again.kind() == error.kind() => again,
        _ => error,
    }
}

fn begin(cli: Cli) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(async {
        let (global, named) = (cli.global.clone(), hint::named(&cli.verb));
        let follows = match &cli.verb {
            Verb::Events(args) => args.follow,
            Verb::Job(JobVerb::Logs(args)) => args.follow,
            _ => false,
        };
        let done = tokio::select! {
            done = execute(cli) => done,
            () = out::reader_gone(), if follows => Ok(0),
        };
        let (Err(failure), Some(named)) = (&done, named) else { return done };
        // Printed here, in the order of an error: what failed, then what may have been meant.
        let code = out::report(failure);
        if let Some(near) = hint::meant(&global, &named, failure).await {
            out::tell(&format!("hint: did you mean {near}?"));
        }
        Ok(code)
    })
}

async fn execute(cli: Cli) -> Result<u8, Failure> {
    let global = &cli.global;
    match cli.verb {
        Verb::Run(args) => command::run(global, &args).await,
        Verb::Job(JobVerb::Outputs(args)) => outputs::store(global, &args).await,
        Verb::Job(JobVerb::Run(args)) => run::run(global, &args).await,
        Verb::Job(JobVerb::Status(args)) => job::status(global, &args).await,
        Verb::Job(JobVerb::Wait(args)) => run::wait_for(global, &args).await,
        Verb::Job(JobVerb::Get { id, run }) => job::get(global, &id, run).await,
        Verb::Job(JobVerb::Logs(args)) => logs::logs(global, &args).await,
        Verb::Job(JobVerb::List(args)) => job::list(global, &args).await,
        Verb::Job(JobVerb::Cancel { id, wait: false, .. }) => job::cancel(global, &id).await,
        Verb::Job(JobVerb::Cancel { id, wait_timeout, .. }) => job::cancel_and_wait(global, &id, wait_timeout).await,
        Verb::Job(JobVerb::Plan(args)) => plan::plan(global, &args).await,
        Verb::Job(JobVerb::Resume(args)) => decide::resume(global, &args).await,
        Verb::Job(JobVerb::Retry(args)) => decide::retry(global, &args).await,
        Verb::Job(JobVerb::Confirm { id: Some(id), phase, rerun_once, wait, wait_timeout, .. }) => {
            let done = decide::confirm(global, &id, phase, rerun_once).await?;
            decide::then(global, input::job_id(&id)?, &done, wait, wait_timeout).await
        }
        Verb::Job(JobVerb::Confirm { id: None, rerun_once, .. }) => decide::confirm_held(global, rerun_once).await,
        Verb::Job(JobVerb::Resolve { id, step, node, verdict }) => {
            decide::resolve(global, &id, StepIndex(step), &node, verdict).await
        }
        Verb::Job(JobVerb::Why { id }) => decide::why(global, &id).await,
        Verb::Node(NodeVerb::List { target }) => node::list(global, target.as_deref()).await,
        Verb::Node(NodeVerb::Info { id }) => node::info(global, &id).await,
        Verb::Node(NodeVerb::Drain(args)) => node::drain(global, &args).await,
        Verb::Node(NodeVerb::Remove { id, force }) => node::remove(global, &id, force).await,
        Verb::Events(args) => events::events(global, &args).await,
        Verb::Backend(BackendVerb::List) => backend::list(global).await,
        Verb::Backend(BackendVerb::Describe { name }) => backend::describe(global, &name).await,
        Verb::Completion { shell } => completion::print(shell),
        Verb::Cluster(MemberVerb::Backup(args)) => backup::backup(global, &args).await,
        Verb::Cluster(MemberVerb::Status) => members::status(global).await,
        Verb::Cluster(MemberVerb::Remove { id }) => members::remove(global, &id).await,
        Verb::Cluster(MemberVerb::Demote { id }) => members::demote(global, &id).await,
        Verb::Cluster(MemberVerb::Promote { id }) => members::promote(global, &id).await,
        Verb::Cluster(MemberVerb::Lift) => members::lift(global).await,
        Verb::Cluster(MemberVerb::StepDown { to }) => members::step_down(global, to).await,
        Verb::Overview(ClusterVerb::Status) => cluster::status(global).await,
        Verb::Overview(ClusterVerb::Role) => cluster::role(global).await,
        Verb::Overview(ClusterVerb::Controllers) => members::list(global).await,
    }
}
