//! `wait`: polls inside the worker. The lease's timeout and a cancel drop the future between two tries; nothing is started.

use std::sync::Arc;
use std::time::Duration;

use grid_types::decl::Params;

use super::dial::dial;
use super::{Backend, Run, params};
use crate::allow::{Hosts, Paths};
use crate::run::lease::LeaseContext;

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Wait {
    hosts: Arc<Hosts>,
    paths: Arc<Paths>,
}

impl Wait {
    pub(super) fn new(hosts: Hosts, paths: Paths) -> Self {
        Self { hosts: Arc::new(hosts), paths: Arc::new(paths) }
    }
}

impl Backend for Wait {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        let (hosts, paths) = (Arc::clone(&self.hosts), Arc::clone(&self.paths));
        Box::pin(async move {
            match action.as_str() {
                "port" => port(&context, &hosts, &given).await,
                "file" => file(&context, &paths, &given).await,
                "duration" => {
                    tokio::time::sleep(params::required_duration(&given, "duration")?).await;
                    Ok(())
                }
                other => Err(format!("wait has no action {other}")),
            }
        })
    }
}

fn pause(given: &Params) -> Duration {
    params::duration(given, "every").clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

async fn port(context: &LeaseContext, hosts: &Hosts, given: &Params) -> Result<(), String> {
    let host = params::required_text(given, "host")?;
    let port = u16::try_from(params::integer(given, "port")?).map_err(|_| "port is beyond 65535".to_owned())?;
    hosts.check(host, port)?;
    let mut last = String::new();
    loop {
        let problem = match dial(host, port).await {
            Ok(_) => {
                context.write(format!("{host}:{port} accepts connections\n").as_bytes());
                return Ok(());
            }
            Err(problem) => problem,
        };
        // Once for each kind of answer: a wait of an hour does not fill its output.
        if problem != last {
            context.write(format!("{host}:{port}: {problem}; waiting\n").as_bytes());
            last = problem;
        }
        tokio::time::sleep(pause(given)).await;
    }
}

async fn file(context: &LeaseContext, paths: &Arc<Paths>, given: &Params) -> Result<(), String> {
    let path = params::required_text(given, "path")?;
    loop {
        let (paths, asked) = (Arc::clone(paths), path.to_owned());
        let found = context.block(move |_| paths.exists(&asked)).await??;
        if found {
            context.write(format!("{path} exists\n").as_bytes());
            return Ok(());
        }
        tokio::time::sleep(pause(given)).await;
    }
}
