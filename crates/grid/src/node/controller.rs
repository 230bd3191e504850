//! Keeps the controller of a node running, sends it the supervisor's orders, and publishes its role.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::child::{Child, Next};
use crate::say;
use crate::supervised::{Order, Report};

/// A controller hands over leadership (5 s) and closes its connections (10 s) before it ends.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Exit codes after which a restart changes nothing: the input was refused, or the controller was removed from its cluster.
const FINAL: [i32; 2] = [2, crate::server::REMOVED as i32];

/// The running controller of this node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Local {
    /// Its API, once it serves.
    pub api: Option<String>,
    /// Received since its last start.
    pub report: Option<Report>,
}

impl Local {
    pub fn leads(&self) -> bool {
        self.report.is_some_and(|report| report.leads)
    }

    pub fn has_confirmed(&self, order: u64) -> bool {
        self.report.is_some_and(|report| report.order >= order)
    }
}

/// Returns the supervisor's exit code when the controller was stopped or will not run again. `local` is empty while no
/// controller runs.
pub async fn keep(
    arguments: Vec<OsString>,
    mut order: watch::Receiver<Order>,
    local: watch::Sender<Option<Local>>,
    mut stop: watch::Receiver<bool>,
) -> ExitCode {
    let mut backoff = Backoff::default();
    loop {
        let began = Instant::now();
        let ended = match Child::spawn("controller", &arguments) {
            Ok(child) => {
                let ended = attend(child, &mut order, &local, &mut stop).await;
                local.send_replace(None);
                match ended {
                    Some(Ok(status)) => {
                        if let Some(code) = status.code().filter(|code| FINAL.contains(code)) {
                            return ExitCode::from(u8::try_from(code).unwrap_or(1));
                        }
                        status.to_string()
                    }
                    Some(Err(error)) => error.to_string(),
                    None => return ExitCode::SUCCESS,
                }
            }
            Err(error) => format!("{error:#}"),
        };
        let pause = backoff.after(began.elapsed());
        tracing::warn!("the controller ended ({ended}); it starts again in {pause:?}");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = is_set(&mut stop) => return ExitCode::SUCCESS,
        }
    }
}

/// Returns `None` if the controller was stopped.
async fn attend(
    mut child: Child,
    order: &mut watch::Receiver<Order>,
    local: &watch::Sender<Option<Local>>,
    stop: &mut watch::Receiver<bool>,
) -> Option<std::io::Result<std::process::ExitStatus>> {
    local.send_replace(Some(Local::default()));
    order.mark_changed();
    loop {
        tokio::select! {
            next = child.next() => match next {
                Next::Line(line) => receive(&line, local),
                Next::Ended(ended) => return Some(ended),
            },
            Ok(()) = order.changed() => {
                let next = order.borrow_and_update().clone();
                child.send(next).await;
            }
            () = is_set(stop) => {
                child.terminate();
                child.end_within(STOP_LIMIT).await;
                return None;
            }
        }
    }
}

async fn is_set(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the supervisor.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn receive(line: &str, local: &watch::Sender<Option<Local>>) {
    if let Ok(report) = line.parse::<Report>() {
        local.send_modify(|local| local.get_or_insert_default().report = Some(report));
        return;
    }
    let api =
        line.strip_prefix("grid ready ").and_then(|rest| rest.split(' ').find_map(|field| field.strip_prefix("api=")));
    if let Some(api) = api {
        local.send_modify(|local| local.get_or_insert_default().api = Some(api.to_owned()));
    }
    say::out(line);
}
